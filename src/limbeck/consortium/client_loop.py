"""The client loop of a party: answer questions until it is stopped, and reconnect when the connection is lost."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from limbeck.consortium.answering import CANNOT, AcceptedRequest, RefusalError, accept_request
from limbeck.consortium.checking import check
from limbeck.consortium.files import write_private
from limbeck.consortium.party import PartyFolder
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.node import Node
from limbeck.engines.fork_server import in_a_fresh_process
from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import delta_of_subsets, epsilon_towards
from limbeck.protocol.envelopes import ReplyEnvelope, RequestEnvelope, hash_of

POLL = 0.5  # seconds between two checks for envelopes
MAX_ATTEMPTS = 30  # failed requests to the server before this party reconnects
MAX_WAIT = 10.0  # seconds before the next attempt to connect
MAX_ENVELOPE_BYTES = 2**30  # bytes of an envelope
MAX_WAITING_REQUESTS = 20  # requests that wait for approval
SHOWN_DELTA = 1e-5
SIMULATED = (
    "party.toml says simulation = true: noise and subsets come from a seed that the server knows. "
    "Nothing is protected; use this for tests only"
)
TASK = "limbeck.consortium.answering:answer_in"
Log = Callable[[str], None]


class ClientLoop:
    """Answers the questions of a consortium until `stop` is set.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.
    log : callable
        Gets a line about each event.
    """

    def __init__(self, folder: PartyFolder, log: Log) -> None:
        self.folder, self.log = folder, log
        self.stop = threading.Event()
        self._waiting: dict[int, tuple[Any, bytes]] = {}  # envelopes that wait for approval, by number of the request
        self._again: list[tuple[Any, bytes]] = []  # envelopes that were not answered because the connection was lost

    def check(self) -> None:
        """Check settings, rows and model before this party connects, and record that in the folder."""
        check(self.folder)
        if self.folder.settings.simulation:
            self.log(f"warning: {SIMULATED}")

    def run(self) -> None:
        """Connect, answer and reconnect until `stop` is set."""
        wait, last_error = 1.0, ""
        with self.folder.alone():
            while not self.stop.is_set():
                try:
                    join = self.folder.join
                    with Node(join.address, join.authority.encode(), self.folder.path / "key") as node:
                        self.log(f"connected to {join.address}")
                        wait, last_error = 1.0, ""
                        self._serve(node)
                except ConnectionLostError as error:
                    if str(error) != last_error:
                        last_error = str(error)
                        self.log(f"{last_error}; trying again")
                    self.stop.wait(wait)
                    wait = min(2 * wait, MAX_WAIT)

    def _serve(self, node: Node) -> None:
        away = 0
        self._waiting.clear()  # the server asks again over the new connection
        self._again.clear()
        while not self.stop.is_set():
            try:
                found = node.next_envelope(MAX_ENVELOPE_BYTES, self.stop.is_set)
                away = 0
            except ConnectionLostError as error:
                away += 1
                if not error.away or away > MAX_ATTEMPTS:
                    raise
                self.stop.wait(1.0)
                continue
            except LimbeckError as error:
                self.log(f"a message was dropped: {error}")
                continue
            if found is None:
                self.stop.wait(POLL)
            again, self._again = self._again, []
            for message, data in [*again, *self._decided(), *([found] if found else [])]:
                if (reply := self._answer(node, message, data)) is not None:
                    self._send(node, message, reply)

    def _decided(self) -> list[tuple[Any, bytes]]:
        """Envelopes whose requests a person has decided about."""
        open_ = (
            {w.number for w in self.folder.answer_store.requests() if w.decision is None} if self._waiting else set()
        )
        return [self._waiting.pop(number) for number in list(self._waiting) if number not in open_]

    def _send(self, node: Node, message: Any, reply: ReplyEnvelope) -> None:
        """Send an answer. If that fails, the server asks again and gets the same answer."""
        try:
            node.answer(message, reply.encode())
        except ConnectionLostError as error:
            self.log(f"run {reply.run}, turn {reply.turn}: {error}; the server gets it when it asks again")

    def _answer(self, node: Node, message: Any, data: bytes) -> ReplyEnvelope | None:
        """Answer to an envelope; None if there is none now."""
        try:
            question = RequestEnvelope.decode(data)
        except LimbeckError as error:
            self.log(f"an envelope was dropped: {error}")
            return None
        self.folder = PartyFolder(self.folder.path)  # the owner may have changed the settings
        template = ReplyEnvelope(question.run, question.turn, question.party, question.hash)
        what = f"run {question.run}, turn {question.turn}"
        try:
            if not node.is_ours(message):
                raise RefusalError("the server's run names another app than the Limbeck that is installed here")
            if (number := self._undecided(question, what)) is not None:
                self._waiting[number] = message, data
                return None
            reply = self._in_a_process_of_its_own(question) or self._in_a_process_of_its_own(question)
        except ConnectionLostError as error:
            if error.away:
                self._again.append((message, data))
            else:
                self.log(f"{what}: {error}")
            return None
        except RefusalError as error:
            reply = replace(template, refusal=str(error))
        except Exception as error:  # malformed terms may cause any exception; the program must not end
            self.log(f"{what}: {type(error).__name__}: {' '.join(str(error).split())}")
            reply = replace(template, refusal=CANNOT)
        if reply is None:
            reply = replace(template, refusal="the process that answers crashed twice")
        self.log(
            f"{what}: " + (f"refused: {reply.refusal}" if reply.refusal else f"answered, {len(reply.reply)} bytes")
        )
        return reply

    def _undecided(self, question: RequestEnvelope, what: str) -> int | None:
        """Number of a request that waits for approval; None if it may be answered.

        A request that was answered before needs no second approval. Other requests are answered in the meantime.
        """
        if not self.folder.settings.approve or self.folder.answer_store.answer(question.run, question.turn):
            return None
        asked = _describe_request(accept_request(self.folder, question))
        waiting = self.folder.answer_store.request(question.run, question.turn, hash_of(question.encode()), asked)
        if waiting.decision is None and len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise RefusalError("too many requests wait for a person's approval at this party")
        if waiting.decision is None:
            self.log(f"{what} waits for a person: limbeck party approve {self.folder.path} {waiting.number}")
            return waiting.number
        if waiting.decision != "approved":
            raise RefusalError("a person at this party denied the request")
        return None

    def _in_a_process_of_its_own(self, question: RequestEnvelope) -> ReplyEnvelope | None:
        """Answer in a child process: nothing stays in memory, and a crash does not end this program."""
        work = self.folder.work()
        (work / "answer").unlink(missing_ok=True)
        write_private(work / "question", question.encode())
        in_a_fresh_process(TASK, work, type(self.folder.settings.model).__module__)
        return ReplyEnvelope.decode((work / "answer").read_bytes()) if (work / "answer").exists() else None


def _describe_request(found: AcceptedRequest) -> str:
    """Description of a request for approval: what is asked, how it is protected, and what it may cost."""
    request = type(found.request)
    releases, people = found.releases(), found.algorithm.rows_per_person
    delta = max(found.algorithm.effective_delta or SHOWN_DELTA, delta_of_subsets(releases, people))
    spent = {who: epsilon_towards(who, releases, delta, rows_per_person=people) for who in ("server", "public")}
    cost = ", ".join(f"{epsilon:.4g} towards the {who}" for who, epsilon in spent.items())
    level = f" at level {found.algorithm.level}" if found.algorithm.level else ""
    asked = f"{request.__name__}: {(request.__doc__ or '').splitlines()[0]}"
    return f"{found.algorithm.name}{level}, epsilon of the run {cost}, at delta {delta:g}; {asked}"
