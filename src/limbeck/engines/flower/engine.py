"""The engine between organisations: the same letters as in one process, carried by Flower and kept in a journal."""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from limbeck.engines.engine import Delivered, Engine, PendingRequest
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.coordinator import Connection, Control, Presence
from limbeck.engines.journal import Journal
from limbeck.engines.validation import read_reply
from limbeck.errors import LimbeckError
from limbeck.privacy.mechanisms import Subsample, mechanism_from
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.envelopes import MAX_HEADER_BYTES, Answer, Question, Terms
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.site import Site

POLL = 0.25  # seconds between two looks for answers
CONSENT = 10**6  # the turn of a question that is not the algorithm's
MAX_RELEASES = 100  # of an answer, beside those that the algorithm declares
MAX_ROWS_PER_RELEASE = 10**9  # of a subset
NOISES: tuple[Noise, ...] = ("secure", "simulated")
CLOSE = 1e-3  # of a calibrated scale: within it, machines calibrate alike
NOBODY = -1  # the party of an event that concerns none
_RELEASE = TypeAdapter(Release)


@dataclass(frozen=True, slots=True)
class Consortium:
    """Who takes part in which run: the parties' keys by their numbers, and what all agreed on.

    Of a run that a late party joins, `earlier` is the run that it missed, whose first `copied` turns are asked of the
    `late` party alone.
    """

    run: str
    terms: Terms
    keys: Mapping[int, bytes]
    earlier: str | None = None
    copied: int = 0
    late: int | None = None


class Flower(Engine):
    """Asks parties at their own places; who does not answer within `deadline` seconds fell silent."""

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
        self.before_counting: Callable[[], None] = lambda: None  # once a late party has answered
        self.releases: list[dict[str, Any]] = []
        self._line: Connection | None = None

    @property
    def everyone(self) -> list[int]:
        return sorted(self.consortium.keys)

    def deliver(self, pending: PendingRequest) -> Mapping[int, Delivered]:
        turn, copied, late = pending.header.turn, self.consortium.copied, self.consortium.late
        self.journal.ask(turn, pending.data, sorted(pending.to))
        found = {p: self._recorded(p, data, pending) for p, data in self.journal.answers(turn).items()}
        if not self.journal.is_closed(turn):
            lacking = [party for party in pending.to if party not in found]
            found |= self._ask(pending, [p for p in lacking if turn >= copied or p == late])
            if turn < copied and late in lacking and late not in found:
                raise LimbeckError(f"nothing was counted again: {self._why(pending) or 'the late party was not there'}")
            self._check_quorum(pending, found)
            self.journal.close(turn)
        if turn == copied - 1:
            self.before_counting()
        return dict(sorted(found.items()))

    def close(self, completed: bool) -> None:
        if self._line:
            self._line.close(completed)
            self._line = None

    def _check_quorum(self, pending: PendingRequest, found: Mapping[int, Delivered]) -> None:
        """Where parties tell something, enough must; handing something out goes on with whoever is there."""
        needed = min(self.quorum, len(pending.to))
        if pending.request.reply() is Acknowledgement or len(found) >= needed:
            return
        raise LimbeckError(
            f"{len(found)} of {len(pending.to)} parties answered {type(pending.request).__name__}, at least {needed} "
            f"must ({self._why(pending)}); what was answered is kept: --resume asks the others again"
        )

    def agree(self, request: Request[Acknowledgement], of: Sequence[int]) -> None:
        """Ask parties for their consent, outside the algorithm's turns; all must give it."""
        header = Header(CONSENT, self.server.public.hash)
        pending = PendingRequest(request, header, encode(request, header), of)
        found = self._ask(pending, of)
        if lacking := [party for party in of if party not in found]:
            reason = self._why(pending)
            raise LimbeckError(f"nothing was counted again: {len(lacking)} of {len(of)} did not agree ({reason})")

    def _why(self, pending: PendingRequest) -> str:
        """What kept parties from answering this letter, as far as the journal knows."""
        events = [e for e in self.journal.events() if e.turn == pending.header.turn and e.party != NOBODY]
        return "; ".join(dict.fromkeys(f"party {e.party}: {e.what}" for e in events[-len(pending.to) :]))

    def _ask(self, pending: PendingRequest, parties: Sequence[int]) -> dict[int, Delivered]:
        """Until all have answered or the time is over; who comes back meanwhile is asked again."""
        found: dict[int, Delivered] = {}
        questions = {party: self._question(pending, party) for party in parties}
        rounds = _Rounds(questions)
        until = time.monotonic() + self.deadline
        last = False
        while (waiting := rounds.waiting) and not last:
            last = time.monotonic() >= until  # one more look: what has come by then counts
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
        """Letters to all that wait and are there, and again to those that have come back since."""
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
            if why.startswith("no answer"):  # it went away: asked again as soon as it is back
                rounds.sent.pop(party, None)
                continue
            if party in rounds.waiting:
                yield party, data, why

    def _validated(self, pending: PendingRequest, question: Question, data: bytes | None, why: str) -> Delivered | None:
        """A reply that passed every check and stands in the journal; None for anything else, which is noted."""
        try:
            if data is None:
                raise LimbeckError(why)
            answer = Answer.decode(data)
            answer.check_belongs_to(question)
            if answer.refusal is not None:
                self._note(pending, question.party, f"refused: {answer.refusal[:500]}")
                return None
            reply = read_reply(answer.reply, pending.request, pending.header, self.server, self.algorithm)
            self._check_releases(answer)
        except LimbeckError as error:
            self.rejected[question.party] = " ".join(str(error).split())[:500]
            self._note(pending, question.party, f"bad reply: {self.rejected[question.party]}")
            return None
        self.journal.answer(pending.header.turn, question.party, data)
        self.releases += [dict(row) for row in answer.releases]
        return Delivered(reply, len(answer.reply))

    def _recorded(self, party: int, data: bytes, pending: PendingRequest) -> Delivered:
        answer = Answer.decode(data)
        self.releases += [dict(row) for row in answer.releases]
        message, _ = decode(answer.reply, pending.request.reply().max_bytes)
        assert isinstance(message, Reply)
        return Delivered(message, len(answer.reply))

    def _check_releases(self, answer: Answer) -> None:
        """The rows that a party says it wrote: its own, up to this turn, and such as the algorithm declares."""
        if len(answer.releases) > MAX_RELEASES + sum(each.times for _, each in self._declared):
            raise LimbeckError("rows of a ledger without end")
        try:
            data = [json.dumps(dict(row)) for row in answer.releases]
            rows = [_RELEASE.validate_json(row, strict=True, extra="forbid") for row in data]
            are_known = all(map(self._is_declared, rows))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise LimbeckError("rows of a ledger that are none") from error
        if not are_known:
            raise LimbeckError("rows of a ledger that this algorithm does not write")
        if any(row.site != f"party {answer.party}" or not 0 <= row.turn <= answer.turn for row in rows):
            raise LimbeckError("rows of another party's ledger")

    def _is_declared(self, row: Release) -> bool:
        return any(_is_like(row, known) for known in self._declared_rows) or self._is_subset(row)

    @cached_property
    def _declared(self) -> list[tuple[Facts, Disclosure]]:
        """What a party of this run may release, with noise of either kind."""
        found: list[tuple[Facts, Disclosure]] = []
        for noise in NOISES:
            facts = Facts(len(self.server.public), self.server.classes, self.consortium.terms.parties, noise)
            with suppress(LimbeckError):  # where the algorithm cannot be run with such noise
                found += [(facts, each) for each in self.algorithm.disclosures(facts) if each.origin == "party"]
        return found

    @cached_property
    def _declared_rows(self) -> list[Release]:
        return [each.row("", 0, 0, facts) for facts, each in self._declared]

    def _is_subset(self, row: Release) -> bool:
        """Whether it is a declared subset, of how many rows only the party knows where none was agreed on."""
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

    def _question(self, pending: PendingRequest, party: int) -> Question:
        turn, consortium = pending.header.turn, self.consortium
        if consortium.earlier and turn < consortium.copied:
            return Question(consortium.earlier, turn, party, consortium.terms, pending.data, counted=consortium.run)
        return Question(consortium.run, turn, party, consortium.terms, pending.data, after=consortium.earlier)

    def _note(self, pending: PendingRequest, party: int, what: str) -> None:
        what = "".join(sign if sign.isprintable() else " " for sign in what)
        events = self.journal.events()
        if party == NOBODY and events and events[-1].what == what:
            return  # the same trouble goes on
        self.journal.note(pending.header.turn, party, what)
        who = "server" if party == NOBODY else f"party {party}"
        self.log(f"{type(pending.request).__name__}: {who}: {what}")


def _is_like(row: Release, declared: Release) -> bool:
    """Whether a row is the declared one; calibration may differ between machines in the last digits."""
    return _is_close(asdict(replace(row, site="", turn=0, number=0)), asdict(declared))


def _is_close(found: Any, declared: Any) -> bool:
    if isinstance(declared, dict):
        same_keys = isinstance(found, dict) and found.keys() == declared.keys()
        return same_keys and all(_is_close(found[key], value) for key, value in declared.items())
    if type(declared) is float:
        return type(found) in (int, float) and math.isclose(found, declared, rel_tol=CLOSE)
    return type(found) is type(declared) and bool(found == declared)


class _Rounds:
    """Who has yet to answer one letter, and which messages are on their way."""

    def __init__(self, questions: Mapping[int, Question]) -> None:
        self.questions = questions
        self.waiting: Collection[int] = list(questions)
        self.numbers: dict[str, tuple[int, int]] = {}  # of messages: party and node
        self.sent: dict[int, str] = {}  # by party: since when it was there when it was last asked

    def is_due(self, party: int, presence: Presence) -> bool:
        return self.sent.get(party) != presence.since

    def posted(self, party: int, number: str, presence: Presence) -> None:
        self.sent[party] = presence.since
        self.numbers[number] = party, presence.node

    def done(self, party: int) -> None:
        self.waiting = [other for other in self.waiting if other != party]

    def forget(self) -> None:
        """The line is new: nothing is on its way."""
        self.numbers, self.sent = {}, {}
