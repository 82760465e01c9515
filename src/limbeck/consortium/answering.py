"""What a party does with a question: look whether it agreed to such a thing, then answer it, once."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms import algorithm_named
from limbeck.consortium.party import PartyFolder
from limbeck.drafts import Draft
from limbeck.engines.respond import respond
from limbeck.errors import LimbeckError
from limbeck.experiments.result import labelled
from limbeck.models.choice import trainer_for
from limbeck.privacy.ledger import Book, Budget
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.letters import ENOUGH, Answer, Question
from limbeck.protocol.messages import Adopt, Done, Reply, Request
from limbeck.protocol.parties import Algorithm
from limbeck.protocol.release import Release
from limbeck.protocol.site import Silo
from limbeck.tables import from_table

LARGEST = 2**30  # bytes of a request, unpacked


class RefusalError(LimbeckError):
    """Why this party does not answer, in words that tell nothing of its rows: the server may read them."""


@dataclass(frozen=True, slots=True)
class Agree(Request[Done]):
    """Votes that you have told before are to be counted and released once more: do you agree?"""


@dataclass(frozen=True, slots=True)
class Considered:
    """A question that this party agrees to: all that is needed to answer it."""

    algorithm: Algorithm
    request: Request[Any]
    header: Header
    silo: Silo
    book: Book
    parties: int
    theirs: Sequence[Release]  # what the server will release

    def releases(self) -> list[Release]:
        """What a run will release of this party's own rows, here and at the server: for its owner alone."""
        planned = getattr(self.algorithm, "planned", None)
        rows = [len(self.silo.private)] * self.parties
        found = planned(len(self.silo.public), self.silo.classes, rows, self.silo.noise) if planned else []
        return [row for row in found if row.site in ("party 0", "server")]


def answer(folder: PartyFolder, question: Question) -> Answer:
    """The answer to a question, or a refusal; what was answered before is said again, and nothing else is done.

    What went wrong at this party's own place is for its own log.
    """
    blank = Answer(question.run, question.turn, question.party, question.hash)
    try:
        if known := folder.kept.answer(question.run, question.turn):
            if known[0] != question.hash:
                raise RefusalError("something else was asked at this turn of this run before")
            if not folder.kept.was_counted(question.run, question.counted_in):
                _charge(folder, question, consider(folder, question))
            return Answer.decode(known[1])
        return _answered(folder, question, blank)
    except RefusalError as error:
        return replace(blank, refusal=str(error))
    except Exception as error:  # a strange request may bring about anything; it is not to be tried again
        told = f"{type(error).__name__}: " * (not isinstance(error, LimbeckError)) + " ".join(str(error).split())
        sys.stderr.write(f"limbeck: run {question.run}, turn {question.turn}: {told}\n")
        return replace(blank, refusal="this party cannot answer; its own log says why")


def consider(folder: PartyFolder, question: Question) -> Considered:
    """All that can be looked at before anything is trained: the terms, the request, and what a run would spend."""
    algorithm, cap = agreed(folder, question)
    if any(folder.kept.had_other_terms(run, question.terms) for run in question.runs):
        raise RefusalError("this run had other terms before")
    request, header = decode(question.request, LARGEST)
    if not isinstance(request, Request) or header.turn != question.turn:
        raise RefusalError("a letter that asks nothing, or is of another turn than its request")
    book = folder.book(question.run, cap)
    silo = _silo(folder, question, algorithm, book)
    theirs = [] if isinstance(request, Adopt) else _allowed(book, algorithm, silo, question)
    return Considered(algorithm, request, header, silo, book, question.terms.parties, theirs)


def agreed(folder: PartyFolder, question: Question) -> tuple[Algorithm, Budget | None]:
    """The algorithm of a question's run and what it may spend, or why this party takes no part in it."""
    terms, join = question.terms, folder.join
    for told, meant, what in (
        (question.party, join.index, "party number"),
        (terms.public, join.public, "public set"),
        (list(terms.classes), list(join.classes), "list of classes"),
        (terms.schema, join.schema, "schema"),
        (terms.labelled, join.labelled, "word on labels of public rows"),
    ):
        if told != meant:
            raise RefusalError(f"the server speaks of another {what} than the join file")
    words = [each for each in folder.settings.agree if each.algorithm == terms.algorithm]
    if not words:
        raise RefusalError(f"this party did not agree to {terms.algorithm}")
    try:
        algorithm = from_table(algorithm_named(terms.algorithm), terms.parameters)
    except LimbeckError as error:
        raise RefusalError(f"{terms.algorithm} cannot be run so: {error}") from error
    level = getattr(getattr(algorithm, "privacy", None), "level", None)
    for each in words:
        if each.levels is None or level in each.levels:
            return algorithm, each.cap
    allowed = sorted({str(known) for each in words for known in each.levels or ()})
    raise RefusalError(f"this party did not agree to {terms.algorithm} at level {level}, only at {', '.join(allowed)}")


def _answered(folder: PartyFolder, question: Question, blank: Answer) -> Answer:
    found = consider(folder, question)
    silo, header = found.silo, found.header
    for run in question.runs:
        folder.kept.settle(run, question.terms)
    if isinstance(found.request, Agree):
        told: Reply = Done()
    else:
        told = respond(found.algorithm, found.request, header, silo)
    _charge(folder, question, found)
    rows = [asdict(row) for row in silo.ledger.rows if row.turn == question.turn and row.site == silo.name]
    answered = replace(blank, reply=encode(told, header), releases=rows)
    _hand_over_model(folder, question, silo)
    folder.kept.keep(question.run, question.turn, question.hash, answered.encode(), silo.memory)
    return answered


def _charge(folder: PartyFolder, question: Question, found: Considered) -> None:
    """What the server will release of an answer stands in the ledger before it is told, or told once more."""
    if isinstance(found.request, Adopt):
        return  # nothing is told
    book = folder.book(question.counted, found.book.cap) if question.counted else found.book
    for row in found.theirs:
        book.record(row, None)
    folder.kept.count(question.run, question.counted_in)


def _silo(folder: PartyFolder, question: Question, algorithm: Algorithm, book: Book) -> Silo:
    settings = folder.settings
    return Silo(
        party=question.party,
        classes=len(question.terms.classes),
        seed=question.terms.seed,
        model=settings.model,
        private=folder.private(),
        public=folder.public(algorithm.needs_public_labels),
        trainer=trainer_for(settings.training, [settings.model], settings.processes or 1, base=folder.path),
        ledger=book.of(f"party {question.party}"),
        noise=settings.noise,
        memory=folder.kept.memory(question.run),
    )


def _allowed(book: Book, algorithm: Algorithm, silo: Silo, question: Question) -> list[Release]:
    """Refuse, before anything is trained, a run that would pass the budget; else what it releases at the server.

    What the server will release of what the parties told it spends what this party has: its ledger has that too.
    """
    planned = getattr(algorithm, "planned", None)
    if planned is None:
        if book.budget or book.cap:
            raise RefusalError(f"{algorithm.name} does not say what it will release: no budget can be kept with it")
        return []
    rows = [ENOUGH] * question.terms.parties
    releases = planned(len(silo.public), silo.classes, rows, silo.noise)
    ours = [replace(row, site=silo.name) for row in releases if row.site == "party 0"]  # all parties do the same
    by = "by the server" + (f", of what was told in {question.told_in}" if question.told_in else "")
    theirs = [replace(row, what=f"{row.what} ({by})") for row in releases if row.site == "server"]
    paid = question.counted is not None and bool(book.releases("server", question.counted))
    try:
        book.check_plan([*ours, *([] if paid else theirs)])
    except LimbeckError as error:
        sys.stderr.write(f"limbeck: run {question.run}: {error}\n")
        raise RefusalError("the run would spend more than this party's owner allows") from error
    return theirs


def _hand_over_model(folder: PartyFolder, question: Question, silo: Silo) -> None:
    """The model that this party has now, as a file that `limbeck predict` takes."""
    if silo.adopted is None:
        return
    row = silo.public.x.shape[1:]
    names = np.array(list(question.terms.classes))
    with Draft(folder.path / "models" / f"{question.run}.onnx") as file:
        file.write(labelled(silo.adopted, names, row, folder.schema))


def answer_in(work: Path) -> None:
    """In a process of its own: answer the question that lies in a party's folder for work."""
    folder = PartyFolder(work.parent)
    told = answer(folder, Question.decode((work / "question").read_bytes())).encode()
    with Draft(work / "answer") as file:
        file.write(told)
