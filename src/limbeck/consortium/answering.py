"""How a party answers a question: check that it agreed to this, then answer, once."""

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
from limbeck.data.weights import by_class
from limbeck.engines.respond import respond
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError
from limbeck.experiments.result import labelled
from limbeck.experiments.weighting import check_uses_weights
from limbeck.features.packing import packed_behind
from limbeck.models.inspection import try_out
from limbeck.models.trainers import trainer_for
from limbeck.privacy.available import check_can_draw
from limbeck.privacy.ledger import Budget, LedgerStore, SiteLedger
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.envelopes import ReplyEnvelope, RequestEnvelope
from limbeck.protocol.messages import Acknowledgement, InstallModel, Reply, Request
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.rows import Array, PublicRows
from limbeck.protocol.site import Silo
from limbeck.tables import from_table

MAX_REQUEST_BYTES = 2**30  # bytes of a decoded request
CANNOT = "this party cannot answer; its own log has the reason"
RESTART = "this party's owner must restart it before it answers"
UNDECIDED = "this party's owner has not decided what may be spent"
NO_TEST_ROWS = "this party has no test rows: its party.toml does not name a file of them (test)"
TOO_MUCH = "the run would spend more than this party's owner allows"


class RefusalError(LimbeckError):
    """Why this party does not answer; the server may read it, so it reveals nothing about the rows."""


@dataclass(slots=True)
class ChargingLedger:
    """A party's ledger; before the first row of an answer, it is charged for what the server will release of it.

    Parameters
    ----------
    own : SiteLedger
        The party's ledger.
    charge : callable or None
        Charges the ledger; None if that is done, or if the answer contains nothing private.
    """

    own: SiteLedger
    charge: Callable[[], None] | None

    @property
    def rows(self) -> list[Release]:
        """Releases of the run so far."""
        return self.own.rows

    def write(self, row: Release) -> bool:
        """Append a row after charging the ledger; see `Ledger.write`."""
        self.charge_once()
        return self.own.write(row)

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        """Draw a noisy value after charging the ledger; see `Ledger.draw`."""
        self.charge_once()
        return self.own.draw(row, noisy)

    @property
    def is_limited(self) -> bool:
        """Whether the owner limits what runs may spend."""
        return bool(self.own.store.budgets or self.own.store.cap)

    def charge_once(self) -> None:
        """Charge the ledger, unless that is done."""
        if self.charge:
            self.charge()
        self.charge = None


@dataclass(frozen=True, slots=True)
class Agree(Request[Acknowledgement]):
    """Consent to count your recorded reply again, with or without another party, and to release the result again."""


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A question that this party agreed to, with everything that is needed to answer it.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    request : Request
        The request.
    header : Header
        Its turn, and the hash of the public rows.
    silo : Silo
        The party.
    ledger : ChargingLedger
        The party's ledger.
    """

    algorithm: Algorithm
    request: Request[Any]
    header: Header
    silo: Silo
    ledger: ChargingLedger

    def releases(self) -> list[Release]:
        """Planned releases of this party's own rows, here and at the server; only for the party's owner."""
        facts = Facts(len(self.silo.public), self.silo.classes, self.silo.parties, self.silo.noise, task=self.silo.task)
        found = planned_releases(self.algorithm.disclosures, facts)
        return [row for row in found if row.site in ("party 0", "server")]


def answer(folder: PartyFolder, question: RequestEnvelope) -> ReplyEnvelope:
    """Answer a question, or refuse it.

    A question that was answered before gets the same answer again; nothing is trained or released. Errors on this
    machine go to the party's own log only.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.
    question : RequestEnvelope
        The question.

    Returns
    -------
    ReplyEnvelope
        The answer, or a refusal that both sides may read.
    """
    template = ReplyEnvelope(question.run, question.turn, question.party, question.hash)
    try:
        if known := folder.answer_store.answer(question.run, question.turn):
            if known[0] != question.hash:
                raise RefusalError("something else was asked at this turn of this run before")
            if not folder.answer_store.was_counted(question.run, question.counted_in):
                accept_request(folder, question).ledger.charge_once()
            return ReplyEnvelope.decode(known[1])
        return _answered(folder, question, template)
    except RefusalError as error:
        return replace(template, refusal=str(error))
    except Exception as error:  # a malformed request may cause any exception; it is not tried again
        _log(question, f"{type(error).__name__}: " * (not isinstance(error, LimbeckError)) + str(error))
        return replace(template, refusal=CANNOT)


def _log(question: RequestEnvelope, line: str) -> None:
    """Log a line for the owner of the rows, on this machine."""
    sys.stderr.write(f"limbeck: run {question.run}, turn {question.turn}: {' '.join(line.split())}\n")


def accept_request(folder: PartyFolder, question: RequestEnvelope) -> AcceptedRequest:
    """Check everything that can be checked before training: the terms, the request, and what a run would spend.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.
    question : RequestEnvelope
        The question.

    Returns
    -------
    AcceptedRequest
        The question with everything that is needed to answer it.

    Raises
    ------
    RefusalError
        If the party did not agree to this.
    """
    if not folder.settings.is_decided:
        raise RefusalError(UNDECIDED)
    algorithm, cap = agreed(folder, question)
    if any(folder.answer_store.had_other_terms(run, question.terms) for run in question.runs):
        raise RefusalError("this run had other terms before")
    request, header = decode(question.request, MAX_REQUEST_BYTES)
    if not isinstance(request, Request) or header.turn != question.turn:
        raise RefusalError("the question has no request, or a request of another turn")
    if algorithm.uses_test_rows and folder.settings.test is None:
        raise RefusalError(NO_TEST_ROWS)
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


def agreed(folder: PartyFolder, question: RequestEnvelope) -> tuple[Algorithm, Budget | None]:
    """Check the terms of a run.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.
    question : RequestEnvelope
        A question of the run.

    Returns
    -------
    tuple of Algorithm and Budget or None
        The algorithm, and what one run of it may spend.

    Raises
    ------
    RefusalError
        If the party did not agree to these terms.
    """
    terms, join = question.terms, folder.join
    for received, expected, what in (
        (question.party, join.index, "party number"),
        (terms.public, join.public, "public set"),
        (list(terms.classes), list(join.classes), "list of classes"),
        (terms.schema, join.schema, "schema"),
        (terms.features, join.features, "feature map"),
        (terms.task, join.task, "kind or range of labels"),
        (terms.labelled, join.labelled, "setting for labels of public rows"),
        (_listed(terms.class_weights), _listed(join.class_weights), "list of class weights"),
    ):
        if received != expected:
            raise RefusalError(f"the server has another {what} than the join file")
    agreements = [each for each in folder.settings.agree if each.algorithm == terms.algorithm]
    if not agreements:
        raise RefusalError(f"this party did not agree to {terms.algorithm}")
    kind = algorithm_named(terms.algorithm)
    try:
        algorithm = from_table(kind, terms.parameters)
        algorithm.check_task(terms.task)
        if terms.class_weights is not None:
            check_uses_weights(algorithm, [folder.settings.model], None, terms.task.kind)
    except LimbeckError as error:
        raise RefusalError(f"{terms.algorithm} cannot be run with these parameters: {error}") from error
    if algorithm.needs_population and not folder.settings.simulation:  # a subset would reveal the number of rows
        raise RefusalError(f"{algorithm.name} between organisations needs algorithm.population")
    return algorithm, _fitting(agreements, kind, algorithm).cap


def _listed(weights: Sequence[float] | None) -> list[float]:
    return list(weights or ())


def _fitting(agreements: Sequence[Agreed], kind: type, algorithm: Algorithm) -> Agreed:
    """First agreement that accepts the level and the parameters of the run."""
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


def _answered(folder: PartyFolder, question: RequestEnvelope, template: ReplyEnvelope) -> ReplyEnvelope:
    found = accept_request(folder, question)
    silo, header = found.silo, found.header
    for run in question.runs:
        folder.answer_store.record_terms(run, question.terms)
    for model in found.request.models_within():
        _check_model(model, silo)
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


def _new_rows(folder: PartyFolder, question: RequestEnvelope, silo: Silo) -> list[dict[str, Any]]:
    """Ledger rows that no earlier answer reported, including those of turns that failed."""
    before = folder.answer_store.turn_before(question.run, question.turn)
    return [asdict(row) for row in silo.ledger.rows if row.site == silo.name and before < row.turn <= question.turn]


def _check_model(model: bytes, silo: Silo) -> None:
    """Try a final model on the public rows in a separate process, as the server does with a party's model."""
    try:
        try_out([model], silo.public.x, silo.classes, task=silo.task.kind)
    except LimbeckError as error:
        raise RefusalError(f"the final model is not accepted: {error}") from error


def _charge(folder: PartyFolder, question: RequestEnvelope, run: LedgerStore, theirs: Sequence[Release]) -> None:
    """Record what the server will release of an answer in the ledger, before any training for it."""
    ledger_store = folder.ledger_store(question.counted, run.cap) if question.counted else run
    for row in theirs:
        ledger_store.record(row, None)
    folder.answer_store.count(question.run, question.counted_in)


def _silo(
    folder: PartyFolder, question: RequestEnvelope, algorithm: Algorithm, public: PublicRows, ledger: ChargingLedger
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
        task=question.terms.task,
    )
    is_real = algorithm.is_private and not settings.simulation
    trainer = trainer_for(
        settings.training, [settings.model], settings.processes or 1, base=folder.path, isolated=is_real
    )
    return run.party(
        question.party,
        folder.test() if algorithm.uses_test_rows else by_class(folder.private(), question.terms.class_weights),
        settings.model,
        trainer,
        ledger,
        folder.secret,
        memory=folder.answer_store.memory(question.run),
        private_level=ledger.is_limited,
    )


def _allowed(
    ledger_store: LedgerStore, algorithm: Algorithm, public: int, noise: Noise, question: RequestEnvelope
) -> list[Release]:
    """Refuse a run that would exceed the budget, before any training; else return what the server will release.

    What the server releases of the parties' answers is charged to this party's ledger too.
    """
    facts = Facts(public, len(question.terms.classes), question.terms.parties, noise, task=question.terms.task)
    releases = planned_releases(algorithm.disclosures, facts)
    own = f"party {question.party}"
    ours = [replace(row, site=own) for row in releases if row.site == "party 0"]  # every party releases the same
    check_can_draw(ours)
    by = "by the server" + (f", of the answers in {question.answered_in}" if question.answered_in else "")
    theirs = [replace(row, what=f"{row.what} ({by})") for row in releases if row.site == "server"]
    paid = question.counted is not None and bool(ledger_store.releases("server", question.counted))
    try:
        ledger_store.check_plan([*ours, *([] if paid else theirs)])
    except LimbeckError as error:
        _log(question, str(error))
        raise RefusalError(TOO_MUCH) from error
    return theirs


def _hand_over_model(folder: PartyFolder, question: RequestEnvelope, found: AcceptedRequest) -> None:
    """Write the party's current model as a file for `limbeck predict`.

    If a model that was trained on private rows cannot be written, the party answers anyway: a refusal would reveal
    that to the server.
    """
    model, features = found.silo.installed, folder.features
    if model is None:
        return
    try:
        row = features.row if features else found.silo.public.x.shape[1:]
        model = packed_behind(features, model) if features else model
        terms = question.terms
        packed = labelled(model, np.array(list(terms.classes)), row, folder.schema, terms.task)
        write_private(private_folder(folder.path / "models") / f"{question.run}.onnx", packed)
    except Exception as error:
        if isinstance(found.request, InstallModel):
            raise
        _log(question, f"no model was written: {error}")


def answer_in(work: Path) -> None:
    """In a child process: answer the question in the party's work folder."""
    folder = PartyFolder(work.parent)
    result = answer(folder, RequestEnvelope.decode((work / "question").read_bytes())).encode()
    write_private(work / "answer", result)
