"""What a party does with a question: look whether it agreed to such a thing, then answer it, once."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms import algorithm_named
from limbeck.consortium.checking import is_as_checked
from limbeck.consortium.files import private_folder, write_private
from limbeck.consortium.party import Agreed, PartyFolder
from limbeck.engines.respond import respond
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError
from limbeck.experiments.result import labelled
from limbeck.models.inspection import try_out
from limbeck.models.trainers import trainer_for
from limbeck.privacy.ledger import Budget, LedgerStore, SiteLedger
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.envelopes import Answer, Question
from limbeck.protocol.messages import Acknowledgement, InstallModel, Reply, Request
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.rows import Array, PublicRows
from limbeck.protocol.site import Silo
from limbeck.tables import from_table

MAX_REQUEST_BYTES = 2**30  # bytes of a request, unpacked
CANNOT = "this party cannot answer; its own log says why"
RESTART = "this party must be restarted by its owner before it answers"
UNDECIDED = "this party's owner has not decided what may be spent"
TOO_MUCH = "the run would spend more than this party's owner allows"


class RefusalError(LimbeckError):
    """Why this party does not answer, in words that tell nothing of its rows: the server may read them."""


@dataclass(slots=True)
class ChargingLedger:
    """A party's own ledger; before the first row of an answer, what the server will release of it is charged."""

    own: SiteLedger
    charge: Callable[[], None] | None  # None once that is done, and where the answer tells nothing

    @property
    def rows(self) -> list[Release]:
        return self.own.rows

    def write(self, row: Release) -> bool:
        self.charge_once()
        return self.own.write(row)

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        self.charge_once()
        return self.own.draw(row, noisy)

    @property
    def is_limited(self) -> bool:
        """Whether the owner limits what may be spent."""
        return bool(self.own.store.budgets or self.own.store.cap)

    def charge_once(self) -> None:
        if self.charge:
            self.charge()
        self.charge = None


@dataclass(frozen=True, slots=True)
class Agree(Request[Acknowledgement]):
    """Votes that you have told before are to be counted and released once more: do you agree?"""


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A question that this party agrees to: all that is needed to answer it."""

    algorithm: Algorithm
    request: Request[Any]
    header: Header
    silo: Silo
    ledger: ChargingLedger

    def releases(self) -> list[Release]:
        """What a run will release of this party's own rows, here and at the server: for its owner alone."""
        facts = Facts(len(self.silo.public), self.silo.classes, self.silo.parties, self.silo.noise)
        found = planned_releases(self.algorithm.disclosures, facts)
        return [row for row in found if row.site in ("party 0", "server")]


def answer(folder: PartyFolder, question: Question) -> Answer:
    """The answer to a question, or a refusal; what was answered before is said again, and nothing else is done.

    What went wrong at this party's own place is for its own log.
    """
    template = Answer(question.run, question.turn, question.party, question.hash)
    try:
        if known := folder.answer_store.answer(question.run, question.turn):
            if known[0] != question.hash:
                raise RefusalError("something else was asked at this turn of this run before")
            if not folder.answer_store.was_counted(question.run, question.counted_in):
                accept_request(folder, question).ledger.charge_once()
            return Answer.decode(known[1])
        return _answered(folder, question, template)
    except RefusalError as error:
        return replace(template, refusal=str(error))
    except Exception as error:  # a strange request may bring about anything; it is not to be tried again
        _log(question, f"{type(error).__name__}: " * (not isinstance(error, LimbeckError)) + str(error))
        return replace(template, refusal=CANNOT)


def _log(question: Question, line: str) -> None:
    """For the owner of the rows, on this machine."""
    sys.stderr.write(f"limbeck: run {question.run}, turn {question.turn}: {' '.join(line.split())}\n")


def accept_request(folder: PartyFolder, question: Question) -> AcceptedRequest:
    """All that can be looked at before anything is trained: the terms, the request, and what a run would spend."""
    if not folder.settings.is_decided:
        raise RefusalError(UNDECIDED)
    algorithm, cap = agreed(folder, question)
    if any(folder.answer_store.had_other_terms(run, question.terms) for run in question.runs):
        raise RefusalError("this run had other terms before")
    request, header = decode(question.request, MAX_REQUEST_BYTES)
    if not isinstance(request, Request) or header.turn != question.turn:
        raise RefusalError("a letter that asks nothing, or is of another turn than its request")
    if not is_as_checked(folder):
        raise RefusalError(RESTART)
    ledger_store, public = folder.ledger_store(question.run, cap), folder.public(algorithm.needs_public_labels)
    charge = None
    if not isinstance(request, InstallModel):
        theirs = _allowed(ledger_store, algorithm, len(public), folder.settings.noise, question)
        charge = partial(_charge, folder, question, ledger_store, theirs)
    ledger = ChargingLedger(ledger_store.of(f"party {question.party}"), charge)
    silo = _silo(folder, question, algorithm, public, ledger)
    return AcceptedRequest(algorithm, request, header, silo, ledger)


def agreed(folder: PartyFolder, question: Question) -> tuple[Algorithm, Budget | None]:
    """The algorithm of a question's run and what it may spend, or why this party takes no part in it."""
    terms, join = question.terms, folder.join
    for received, expected, what in (
        (question.party, join.index, "party number"),
        (terms.public, join.public, "public set"),
        (list(terms.classes), list(join.classes), "list of classes"),
        (terms.schema, join.schema, "schema"),
        (terms.labelled, join.labelled, "word on labels of public rows"),
    ):
        if received != expected:
            raise RefusalError(f"the server speaks of another {what} than the join file")
    agreements = [each for each in folder.settings.agree if each.algorithm == terms.algorithm]
    if not agreements:
        raise RefusalError(f"this party did not agree to {terms.algorithm}")
    kind = algorithm_named(terms.algorithm)
    try:
        algorithm = from_table(kind, terms.parameters)
    except LimbeckError as error:
        raise RefusalError(f"{terms.algorithm} cannot be run so: {error}") from error
    if algorithm.needs_population and not folder.settings.simulation:  # a subset would tell how many rows there are
        raise RefusalError(f"{algorithm.name} between organisations needs algorithm.population")
    return algorithm, _fitting(agreements, kind, algorithm).cap


def _fitting(agreements: Sequence[Agreed], kind: type, algorithm: Algorithm) -> Agreed:
    """The first agreement whose level and parameters are those of the run."""
    level = algorithm.level
    at_level = [each for each in agreements if each.levels is None or level in each.levels]
    if not at_level:
        allowed = ", ".join(sorted({str(known) for each in agreements for known in each.levels or ()}))
        raise RefusalError(f"this party did not agree to {algorithm.name} at level {level}, only at {allowed}")
    differences = []
    for each in at_level:
        bounds = each.bounds(kind)
        differences.append(bounds and bounds.difference(algorithm))
        if differences[-1] is None:
            return each
    raise RefusalError(f"this party did not agree to {algorithm.name} with this value of {differences[0]}")


def _answered(folder: PartyFolder, question: Question, template: Answer) -> Answer:
    found = accept_request(folder, question)
    silo, header = found.silo, found.header
    for run in question.runs:
        folder.answer_store.record_terms(run, question.terms)
    if isinstance(found.request, InstallModel):
        _check_model(found.request.model, silo)
    if isinstance(found.request, Agree):
        reply: Reply = Acknowledgement()
    else:
        reply = respond(found.algorithm, found.request, header, silo)
    found.ledger.charge_once()
    answered = replace(template, reply=encode(reply, header), releases=_new_rows(folder, question, silo))
    _hand_over_model(folder, question, found)
    head = found.ledger.own.store.head
    folder.answer_store.keep(question.run, question.turn, question.hash, answered.encode(), silo.memory, head)
    return answered


def _new_rows(folder: PartyFolder, question: Question, silo: Silo) -> list[dict[str, Any]]:
    """The ledger rows that no earlier answer told of: also those of turns that failed."""
    before = folder.answer_store.turn_before(question.run, question.turn)
    return [asdict(row) for row in silo.ledger.rows if row.site == silo.name and before < row.turn <= question.turn]


def _check_model(model: bytes, silo: Silo) -> None:
    """A final model is tried on the public rows in a process of its own, as a party's model is at the server."""
    try:
        try_out([model], silo.public.x, silo.classes)
    except LimbeckError as error:
        raise RefusalError(f"the final model is refused: {error}") from error


def _charge(folder: PartyFolder, question: Question, run: LedgerStore, theirs: Sequence[Release]) -> None:
    """Write what the server will release of an answer into the ledger, before anything is trained for it."""
    ledger_store = folder.ledger_store(question.counted, run.cap) if question.counted else run
    for row in theirs:
        ledger_store.record(row, None)
    folder.answer_store.count(question.run, question.counted_in)


def _silo(
    folder: PartyFolder, question: Question, algorithm: Algorithm, public: PublicRows, ledger: ChargingLedger
) -> Silo:
    settings = folder.settings
    run = RunContext(
        algorithm=algorithm,
        public=public,
        classes=len(question.terms.classes),
        seed=question.terms.seed,
        parties=question.terms.parties,
        noise=settings.noise,
        name=question.run,
    )
    is_real = algorithm.is_private and not settings.simulation
    trainer = trainer_for(
        settings.training, [settings.model], settings.processes or 1, base=folder.path, isolated=is_real
    )
    return run.party(
        question.party,
        folder.private(),
        settings.model,
        trainer,
        ledger,
        folder.secret,
        memory=folder.answer_store.memory(question.run),
        private_level=ledger.is_limited,
    )


def _allowed(
    ledger_store: LedgerStore, algorithm: Algorithm, public: int, noise: Noise, question: Question
) -> list[Release]:
    """Refuse, before anything is trained, a run that would pass the budget; else what it releases at the server.

    What the server will release of what the parties told it spends what this party has: its ledger has that too.
    """
    facts = Facts(public, len(question.terms.classes), question.terms.parties, noise)
    releases = planned_releases(algorithm.disclosures, facts)
    own = f"party {question.party}"
    ours = [replace(row, site=own) for row in releases if row.site == "party 0"]  # all parties do the same
    by = "by the server" + (f", of the answers in {question.answered_in}" if question.answered_in else "")
    theirs = [replace(row, what=f"{row.what} ({by})") for row in releases if row.site == "server"]
    paid = question.counted is not None and bool(ledger_store.releases("server", question.counted))
    try:
        ledger_store.check_plan([*ours, *([] if paid else theirs)])
    except LimbeckError as error:
        _log(question, str(error))
        raise RefusalError(TOO_MUCH) from error
    return theirs


def _hand_over_model(folder: PartyFolder, question: Question, found: AcceptedRequest) -> None:
    """The model that this party has now, as a file that `limbeck predict` takes.

    A model that was trained on private rows and cannot be written is no reason to refuse: the server would learn of it.
    """
    model, row = found.silo.installed, found.silo.public.x.shape[1:]
    if model is None:
        return
    try:
        packed = labelled(model, np.array(list(question.terms.classes)), row, folder.schema)
        write_private(private_folder(folder.path / "models") / f"{question.run}.onnx", packed)
    except Exception as error:
        if isinstance(found.request, InstallModel):
            raise
        _log(question, f"no model was written: {error}")


def answer_in(work: Path) -> None:
    """In a process of its own: answer the question that lies in a party's folder for work."""
    folder = PartyFolder(work.parent)
    result = answer(folder, Question.decode((work / "question").read_bytes())).encode()
    write_private(work / "answer", result)
