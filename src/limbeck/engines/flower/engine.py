"""The engine between organisations: Flower carries the messages, and a journal records them."""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

from pydantic import TypeAdapter

from limbeck.engines.engine import Delivered, Engine, PendingRequest
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.coordinator import Connection, Control, Presence
from limbeck.engines.journal import Journal
from limbeck.engines.validation import read_reply, result_or_problem
from limbeck.errors import LimbeckError
from limbeck.privacy.mechanisms import Subsample, mechanism_from
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.envelopes import MAX_HEADER_BYTES, ReplyEnvelope, RequestEnvelope, Terms
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.site import Site

POLL = 0.25  # seconds between two checks for answers
CONSENT = 10**6  # turn of a question that is not part of the algorithm
HAND_OUT = 30.0  # longest wait, in seconds, of an amended run that only hands out its model
MAX_RELEASES = 100  # ledger rows of an answer, in addition to those that the algorithm declares
MAX_ROWS_PER_RELEASE = 10**9  # rows of a subset
NOISES: tuple[Noise, ...] = ("secure", "simulated")
CLOSE = 1e-3  # relative tolerance of a calibrated noise scale, which differs a little between machines
NOBODY = -1  # party of an event that concerns the server
_RELEASE = TypeAdapter(Release)


@dataclass(frozen=True, slots=True)
class Consortium:
    """Participants of a run.

    Parameters
    ----------
    run : str
        Identifier of the run.
    terms : Terms
        What all parties agreed to.
    keys : mapping of int to bytes
        Public key of each party.
    earlier : str, optional
        The run whose answers this run counts again.
    copied : int
        Number of first turns that only the late party is asked; answers of the others are copies.
    late : int, optional
        The late party, if this run adds one.
    removed : sequence of int
        Parties that were removed. They count as silent and get no model.
    asks_anew : bool
        Whether the late party was removed before. It then answers this run; its answer to `earlier` is not used.
    """

    run: str
    terms: Terms
    keys: Mapping[int, bytes]
    earlier: str | None = None
    copied: int = 0
    late: int | None = None
    removed: Sequence[int] = ()
    asks_anew: bool = False


class Flower(Engine):
    """Engine for parties in other organisations.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm to run.
    server : Site
        The server.
    consortium : Consortium
        Participants of the run.
    control : Control
        Connection to the SuperLink.
    journal : Journal
        Records requests and answers.
    deadline : float
        Seconds to wait for each answer; a party without an answer by then is silent.
    quorum : int
        Fewest parties that must answer.
    log : callable
        Gets a line about each event.
    """

    name = "flower"

    def __init__(
        self,
        algorithm: Algorithm,
        server: Site,
        consortium: Consortium,
        control: Control,
        journal: Journal,
        deadline: float,
        quorum: int,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__(algorithm, server, ())
        self.consortium, self.control, self.journal = consortium, control, journal
        self.deadline, self.quorum, self.log = deadline, quorum, log
        self.before_counting: Callable[[], None] = lambda: None  # called when all answers to count again are there
        self.releases: list[dict[str, Any]] = []
        self._line: Connection | None = None

    @property
    def everyone(self) -> list[int]:
        return sorted(self.consortium.keys)

    def deliver(self, pending: PendingRequest) -> list[tuple[int, Delivered]]:
        turn, copied, late = pending.header.turn, self.consortium.copied, self.consortium.late
        self.journal.ask(turn, pending.data, sorted(pending.to))
        found = {p: self._recorded(p, data, pending) for p, data in self.journal.answers(turn).items()}
        if not self.journal.is_closed(turn):
            lacking = [party for party in pending.to if party not in found]
            found |= self._ask(pending, self._to_ask(turn, lacking), self._patience(turn))
            if turn < copied and late in lacking and late not in found:
                raise LimbeckError(
                    f"no replies were counted again: {self._why(pending) or 'the late party was not connected'}"
                )
            self._check_quorum(pending, found)
            self.journal.close(turn)
        if turn == copied - 1:
            self.before_counting()
        return sorted(found.items())

    def _hands_out(self, turn: int) -> bool:
        """Whether a run that asks nobody for results hands out its model; it does not wait for absent parties."""
        return turn >= self.consortium.copied > 0 and self.consortium.late is None

    def _to_ask(self, turn: int, lacking: Sequence[int]) -> list[int]:
        """Those parties without an answer that are asked."""
        copied, late, removed = self.consortium.copied, self.consortium.late, self.consortium.removed
        asked = [party for party in lacking if party == late or (turn >= copied and party not in removed)]
        if not self._hands_out(turn):
            return asked
        connected = self._connected()
        return [party for party in asked if party in connected]

    def _patience(self, turn: int) -> float:
        """Seconds to wait for the answers of a turn."""
        return min(self.deadline, HAND_OUT) if self._hands_out(turn) else self.deadline

    def _connected(self) -> list[int]:
        """Parties that are connected now."""
        with suppress(ConnectionLostError):
            there = {each.key for each in self.control.presences() if each.online}
            return [party for party, key in self.consortium.keys.items() if key in there]
        return []

    def close(self, completed: bool) -> None:
        """End the Flower run, if there is one."""
        if self._line:
            self._line.close(completed)
            self._line = None

    def _check_quorum(self, pending: PendingRequest, found: Mapping[int, Delivered]) -> None:
        """Raise if fewer parties than the quorum sent results; handing out a model needs no quorum."""
        needed = min(self.quorum, len(pending.to))
        if pending.request.reply() is Acknowledgement or len(found) >= needed:
            return
        raise LimbeckError(
            f"{len(found)} of {len(pending.to)} parties answered {type(pending.request).__name__}, at least {needed} "
            f"must ({self._why(pending)}); the answers are stored: the same command (`server run` with --resume) asks "
            "the other parties again"
        )

    def agree(self, request: Request[Acknowledgement], of: Sequence[int]) -> None:
        """Ask parties for their consent, outside the turns of the algorithm; raise unless all give it.

        Parameters
        ----------
        request : Request
            The request for consent.
        of : sequence of int
            Parties that are asked.
        """
        header = Header(CONSENT, self.server.public.hash)
        pending = PendingRequest(request, header, encode(request, header), of)
        found = self._ask(pending, of, self.deadline)
        if lacking := [party for party in of if party not in found]:
            reason = self._why(pending)
            raise LimbeckError(
                f"no replies were counted again: {len(lacking)} of {len(of)} parties did not agree ({reason})"
            )

    def _why(self, pending: PendingRequest) -> str:
        """Why parties did not answer a request, as far as the journal knows."""
        events = [e for e in self.journal.events() if e.turn == pending.header.turn and e.party != NOBODY]
        return "; ".join(dict.fromkeys(f"party {e.party}: {e.what}" for e in events[-len(pending.to) :]))

    def _ask(self, pending: PendingRequest, parties: Sequence[int], patience: float) -> dict[int, Delivered]:
        """Ask until all parties have answered or `patience` is over; a party that reconnects is asked again."""
        found: dict[int, Delivered] = {}
        questions = {party: self._question(pending, party) for party in parties}
        rounds = _Rounds(questions)
        until = time.monotonic() + patience
        last = False
        while (waiting := rounds.waiting) and not last:
            last = time.monotonic() >= until  # one last check: answers that have arrived by the deadline count
            try:
                if not last:
                    self._post(rounds, until)
                for party, data, why in self._collect(rounds, pending):
                    if (delivered := self._validated(pending, questions[party], data, why)) is not None:
                        found[party] = delivered
                    rounds.done(party)
            except ConnectionLostError as error:
                self._note(pending, NOBODY, str(error))
                self.close(completed=False)
                rounds.forget()
                time.sleep(1.0)
            if rounds.waiting and not last:
                time.sleep(min(POLL, max(0.0, until - time.monotonic())) if waiting else 0)
        for party in rounds.waiting:
            self._note(pending, party, "silent until the deadline")
        return found

    def _post(self, rounds: "_Rounds", until: float) -> None:
        """Send the question to connected parties without an answer; again to those that have reconnected."""
        there = {each.key: each for each in self.control.presences() if each.online}
        keys = self.consortium.keys
        due = {p: there[keys[p]] for p in rounds.waiting if keys[p] in there and rounds.is_due(p, there[keys[p]])}
        if not due:
            return
        line = self._line = self._line or Connection(self.control)
        lifetime = max(60.0, until - time.monotonic() + 60.0)
        for party, presence in due.items():
            if number := line.post(presence.node, rounds.questions[party].encode(), lifetime):
                rounds.posted(party, number, presence)

    def _collect(self, rounds: "_Rounds", pending: PendingRequest) -> Any:
        if not self._line or not rounds.numbers:
            return
        max_bytes = pending.request.reply().max_bytes + MAX_HEADER_BYTES
        nodes = {number: node for number, (_, node) in rounds.numbers.items()}
        for number, data, why in self._line.collect(nodes, max_bytes):
            party, _ = rounds.numbers.pop(number)
            if why.startswith("no answer"):  # it has disconnected: asked again when it reconnects
                rounds.sent.pop(party, None)
                continue
            if party in rounds.waiting:
                yield party, data, why

    def _validated(
        self, pending: PendingRequest, question: RequestEnvelope, data: bytes | None, why: str
    ) -> Delivered | None:
        """Reply that passed every check and is in the journal; None for anything else, which becomes an event."""
        found, problem = result_or_problem(partial(self._read, pending, question, data, why))
        if found is None or data is None:
            self.rejected[question.party] = problem
            self._note(pending, question.party, f"bad reply: {problem}")
            return None
        answer, reply = found
        if answer.refusal is not None:
            self._note(pending, question.party, f"refused: {answer.refusal[:500]}")
            return None
        self.journal.answer(pending.header.turn, question.party, data)
        self.releases += [dict(row) for row in answer.releases]
        return Delivered(reply, len(answer.reply))

    def _read(
        self, pending: PendingRequest, question: RequestEnvelope, data: bytes | None, why: str
    ) -> tuple[ReplyEnvelope, Reply | None]:
        """Valid answer and the reply in it; None in place of the reply if the party refused."""
        if data is None:
            raise LimbeckError(why)
        answer = ReplyEnvelope.decode(data)
        answer.check_belongs_to(question)
        if answer.refusal is not None:
            return answer, None
        reply = read_reply(answer.reply, pending.request, pending.header, self.server, self.algorithm)
        self._check_releases(answer)
        return answer, reply

    def _recorded(self, party: int, data: bytes, pending: PendingRequest) -> Delivered:
        answer = ReplyEnvelope.decode(data)
        self.releases += [dict(row) for row in answer.releases]
        message, _ = decode(answer.reply, pending.request.reply().max_bytes)
        assert isinstance(message, Reply)
        return Delivered(message, len(answer.reply))

    def _check_releases(self, answer: ReplyEnvelope) -> None:
        """Raise unless the reported ledger rows are the party's own, up to this turn, and declared."""
        if len(answer.releases) > MAX_RELEASES + sum(each.times for _, each in self._declared):
            raise LimbeckError("too many ledger rows")
        try:
            data = [json.dumps(dict(row)) for row in answer.releases]
            rows = [_RELEASE.validate_json(row, strict=True, extra="forbid") for row in data]
            are_known = all(map(self._is_declared, rows))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise LimbeckError("invalid ledger rows") from error
        if not are_known:
            raise LimbeckError("ledger rows that this algorithm does not declare")
        if any(row.site != f"party {answer.party}" or not 0 <= row.turn <= answer.turn for row in rows):
            raise LimbeckError("ledger rows of another party or of a later turn")

    def _is_declared(self, row: Release) -> bool:
        return any(_is_like(row, known) for known in self._declared_rows) or self._is_subset(row)

    @cached_property
    def _declared(self) -> list[tuple[Facts, Disclosure]]:
        """What a party of this run may release, with either kind of noise."""
        found: list[tuple[Facts, Disclosure]] = []
        for noise in NOISES:
            server, parties = self.server, self.consortium.terms.parties
            facts = Facts(len(server.public), server.classes, parties, noise, task=server.task)
            with suppress(LimbeckError):  # the algorithm does not support this noise
                found += [(facts, each) for each in self.algorithm.disclosures(facts) if each.origin == "party"]
        return found

    @cached_property
    def _declared_rows(self) -> list[Release]:
        return [each.row("", 0, 0, facts) for facts, each in self._declared]

    def _is_subset(self, row: Release) -> bool:
        """Whether the row is a declared subset; without a population only the party knows how many rows it has."""
        known = next((each for each in self._declared_rows if each.mechanism == row.mechanism == Subsample.name), None)
        if known is None or not self.algorithm.needs_population:
            return False
        if not all(
            type(row.parameters.get(key)) is int and row.parameters[key] <= MAX_ROWS_PER_RELEASE
            for key in ("rows", "of")
        ):
            return False
        own = {**known.parameters, "rows": row.parameters["rows"], "of": row.parameters["of"]}
        mechanism = mechanism_from(row.mechanism, own)
        return _is_like(row, replace(known, parameters=own, sensitivity=mechanism.sensitivity))

    def _question(self, pending: PendingRequest, party: int) -> RequestEnvelope:
        turn, consortium = pending.header.turn, self.consortium
        if consortium.asks_anew and turn < consortium.copied:
            return RequestEnvelope(consortium.run, turn, party, consortium.terms, pending.data)
        if consortium.earlier and turn < consortium.copied:
            return RequestEnvelope(
                consortium.earlier, turn, party, consortium.terms, pending.data, counted=consortium.run
            )
        return RequestEnvelope(consortium.run, turn, party, consortium.terms, pending.data, after=consortium.earlier)

    def _note(self, pending: PendingRequest, party: int, what: str) -> None:
        what = "".join(sign if sign.isprintable() else " " for sign in what)
        events = self.journal.events()
        if party == NOBODY and events and events[-1].what == what:
            return  # the same problem continues
        self.journal.note(pending.header.turn, party, what)
        who = "server" if party == NOBODY else f"party {party}"
        self.log(f"{type(pending.request).__name__}: {who}: {what}")


def _is_like(row: Release, declared: Release) -> bool:
    """Whether a row is the declared one; calibrated noise may differ between machines in the last digits."""
    return _is_close(asdict(replace(row, site="", turn=0, number=0)), asdict(declared))


def _is_close(found: Any, declared: Any) -> bool:
    if isinstance(declared, dict):
        same_keys = isinstance(found, dict) and found.keys() == declared.keys()
        return same_keys and all(_is_close(found[key], value) for key, value in declared.items())
    if type(declared) is float:
        return type(found) in (int, float) and math.isclose(found, declared, rel_tol=CLOSE)
    return type(found) is type(declared) and bool(found == declared)


class _Rounds:
    """Parties that have not answered a question yet, and the messages on their way to them."""

    def __init__(self, questions: Mapping[int, RequestEnvelope]) -> None:
        self.questions = questions
        self.waiting: Collection[int] = list(questions)
        self.numbers: dict[str, tuple[int, int]] = {}  # party and node of each message
        self.sent: dict[int, str] = {}  # by party: the connection over which it was last asked

    def is_due(self, party: int, presence: Presence) -> bool:
        return self.sent.get(party) != presence.since

    def posted(self, party: int, number: str, presence: Presence) -> None:
        self.sent[party] = presence.since
        self.numbers[number] = party, presence.node

    def done(self, party: int) -> None:
        self.waiting = [other for other in self.waiting if other != party]

    def forget(self) -> None:
        """Forget all messages on their way, because the connection is lost."""
        self.numbers, self.sent = {}, {}
