"""What a party does with a question: look whether it agreed to such a thing, then answer it, once."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from limbeck.algorithms import algorithm_named
from limbeck.consortium.party import PartyFolder
from limbeck.drafts import Draft
from limbeck.engines.respond import respond
from limbeck.errors import LimbeckError
from limbeck.experiments.result import labelled
from limbeck.models.choice import trainer_for
from limbeck.privacy.ledger import Book
from limbeck.protocol.codec import decode, encode
from limbeck.protocol.letters import Answer, Question
from limbeck.protocol.messages import Request
from limbeck.protocol.parties import Algorithm
from limbeck.protocol.release import Release
from limbeck.protocol.site import Silo
from limbeck.tables import from_table

LARGEST = 2**30  # bytes of a request, unpacked


def answer(folder: PartyFolder, question: Question) -> Answer:
    """The answer to a question, or a refusal; what was answered before is said again, and nothing else is done."""
    blank = Answer(question.run, question.turn, question.party, question.hash)
    try:
        if known := folder.kept.answer(question.run, question.turn):
            if known[0] != question.hash:
                raise LimbeckError(f"at turn {question.turn} of this run something else was asked before")
            return Answer.decode(known[1])
        return _answered(folder, question, blank)
    except LimbeckError as error:
        return replace(blank, refusal=" ".join(str(error).split()))


def agreed(folder: PartyFolder, question: Question) -> Algorithm:
    """The algorithm of a question's run, or why this party takes no part in it."""
    terms, join = question.terms, folder.join
    for told, meant, what in (
        (question.party, join.index, "party number"),
        (terms.public, join.public, "public set"),
        (list(terms.classes), list(join.classes), "list of classes"),
        (terms.schema, join.schema, "schema"),
        (terms.labelled, join.labelled, "word on labels of public rows"),
    ):
        if told != meant:
            raise LimbeckError(f"the server speaks of another {what} than the join file")
    words = [each for each in folder.settings.agree if each.algorithm == terms.algorithm]
    if not words:
        raise LimbeckError(f"this party did not agree to {terms.algorithm}")
    algorithm = from_table(algorithm_named(terms.algorithm), terms.parameters)
    refusals = [_objection(each.levels, each.epsilon, algorithm) for each in words]
    if all(refusals):
        raise LimbeckError(f"this party did not agree to {terms.algorithm} {refusals[0]}")
    return algorithm


def _objection(levels: list[str] | None, epsilon: float | None, algorithm: Algorithm) -> str | None:
    privacy = getattr(algorithm, "privacy", None)
    level = getattr(privacy, "level", None)
    if levels is not None and level not in levels:
        return f"at level {level}, only at {', '.join(levels)}"
    asked = getattr(privacy, "epsilon", None) if privacy is not None else getattr(algorithm, "epsilon", None)
    if epsilon is not None and asked is not None and asked > epsilon:
        return f"with epsilon {asked:g}, only up to {epsilon:g}"
    return None


def _answered(folder: PartyFolder, question: Question, blank: Answer) -> Answer:
    algorithm = agreed(folder, question)
    book = folder.book(question.run)
    request, header = decode(question.request, LARGEST)
    if not isinstance(request, Request) or header.turn != question.turn:
        raise LimbeckError("a letter that asks nothing, or is of another turn than its request")
    silo = _silo(folder, question, algorithm, book)
    theirs = _planned(book, algorithm, silo, question)
    reply = encode(respond(algorithm, request, header, silo), header)
    for row in theirs:
        book.record(replace(row, what=f"{row.what} (by the server)"), None)
    rows = [asdict(row) for row in silo.ledger.rows if row.turn == question.turn and row.site == silo.name]
    told = replace(blank, reply=reply, releases=rows)
    folder.kept.keep(question.run, question.turn, question.hash, told.encode(), silo.memory)
    _hand_over_model(folder, question, silo)
    return told


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


def _planned(book: Book, algorithm: Algorithm, silo: Silo, question: Question) -> list[Release]:
    """Refuse, before anything is trained, a run that would pass the budget; what comes back is the server's part.

    What the server will release of what the parties told it spends what this party has: its ledger has that too.
    """
    planned = getattr(algorithm, "planned", None)
    if planned is None:
        if book.budget:
            raise LimbeckError(f"{algorithm.name} does not say what it will release: no budget can be kept with it")
        return []
    rows = [len(silo.private)] * question.terms.parties
    releases = planned(len(silo.public), silo.classes, rows, silo.noise)
    ours = [replace(row, site=silo.name) for row in releases if row.site == "party 0"]  # all parties do the same
    theirs = [row for row in releases if row.site == "server"]
    book.check_plan([*ours, *theirs])
    return theirs


def _hand_over_model(folder: PartyFolder, question: Question, silo: Silo) -> None:
    """The model that this party has now, as a file that `limbeck predict` takes."""
    if silo.adopted is None:
        return
    row = silo.public.x.shape[1:]
    (folder.path / "models").mkdir(exist_ok=True)
    names = np.array(list(question.terms.classes))
    (folder.path / "models" / f"{question.run}.onnx").write_bytes(labelled(silo.adopted, names, row, folder.schema))


def answer_in(work: Path) -> None:
    """In a process of its own: answer the question that lies in a party's folder for work."""
    folder = PartyFolder(work.parent)
    told = answer(folder, Question.decode((work / "question").read_bytes())).encode()
    with Draft(work / "answer") as file:
        file.write(told)
