"""Distil: teachers on disjoint subsets vote, and a student learns their labels (PATE; the inner tier of FedKT)."""

from hashlib import blake2b
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import tally, winners
from limbeck.models.inspection import Limits
from limbeck.models.jobs import Fit, FitAndVote, answers, constant_model
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.mechanisms import UNANSWERED, PostProcessing, Unprotected
from limbeck.protocol.messages import Adopt
from limbeck.protocol.parties import Outcome, Parties
from limbeck.protocol.release import Asked
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


def students(silo: Silo, asked: Array, partitions: int, subsets: int, privacy: Privacy) -> tuple[bytes, ...]:
    """One student for each partition: `subsets` teachers label the rows asked about, the student learns the labels.

    At level L2 the labels are released with noise; every private row is in all partitions, so that it pays for all
    their queries. What is learned from released labels tells nothing more.
    """
    queries = partitions * len(asked)
    if privacy.level == "L2":
        silo.announce(_noise(silo, queries, subsets, privacy), "public", queries, subsets)
    labels = ballots(silo, asked, partitions, subsets, privacy)
    votes = np.concatenate([tally(partition, silo.classes) for partition in labels])
    taught = _labels(silo, votes, subsets, privacy).reshape(partitions, len(asked))
    models = silo.train([Fit(silo.model, *_answered(asked, targets)) for targets in taught])
    return tuple(_usable(model, asked, number, silo) for number, model in enumerate(models))


def _usable(model: bytes, asked: Array, number: int, silo: Silo) -> bytes:
    """A student that the server can use; at a private level a constant one where this one could not be."""
    if not silo.private_level or answers(model, asked, silo.classes, Limits().bytes):
        return model
    return constant_model(number, silo.classes, asked.shape[1:])


def ballots(silo: Silo, asked: Array, partitions: int, subsets: int, privacy: Privacy) -> Array:
    """What each teacher says: [partitions, subsets, rows] labels.

    A teacher keeps its place, and so its seed, whatever the others hold: one row changes one teacher's word.
    """
    teachers = [
        FitAndVote(silo.model, silo.private.x[rows], silo.private.y[rows], asked)
        for partition in range(partitions)
        for rows in cut(silo, subsets, privacy, partition)
    ]
    return np.stack(silo.train(teachers)).reshape(partitions, subsets, len(asked))


def _labels(silo: Silo, votes: Array, subsets: int, privacy: Privacy) -> Array:
    if privacy.level != "L2":
        return winners(votes)
    return silo.release(votes, _noise(silo, len(votes), subsets, privacy), observer="public", voters=subsets)


def _noise(silo: Silo, queries: int, subsets: int, privacy: Privacy) -> Any:
    return privacy.noisy_max("example", 1, Asked(queries, silo.classes, subsets, False, silo.noise))


def answered(asked: Array, labels: Array, site: Site) -> tuple[Array, Array]:
    """The rows that got a label, at the server; an error where there are none."""
    rows, found = _answered(asked, labels)
    if not len(found):
        raise LimbeckError(f"{site.name}: no query passed the threshold; lower it, or ask about more rows")
    return rows, found


def _answered(asked: Array, labels: Array) -> tuple[Array, Array]:
    there = labels != UNANSWERED
    return (asked, labels) if there.all() else (asked[there], labels[there])


def cut(silo: Silo, subsets: int, privacy: Privacy, partition: int = 0) -> list[Array]:
    """Cut the private rows into disjoint subsets, some of them empty where there are too few rows.

    Where one row may be replaced, by row number and chance alone; where one may be added or removed, by a keyed hash
    of the row itself: no other row ever moves. In a real run at L2 chance comes from the party's secret and the run's
    identifier: nobody else decides which rows share a teacher.
    """
    check_subsets(silo, subsets, privacy)
    purpose = f"cut {partition}"
    if privacy.level != "L2":
        return np.array_split(silo.rng.permutation(len(silo.private)), subsets)
    if privacy.adjacency == "replace":
        return np.array_split(silo.hidden_order(purpose, len(silo.private)), subsets)
    key = silo.hidden_bytes(purpose, 16)
    place = np.array([_hash(key, x, y) % subsets for x, y in zip(silo.private.x, silo.private.y, strict=True)])
    return [np.flatnonzero(place == subset) for subset in range(subsets)]


def check_subsets(silo: Silo, subsets: int, privacy: Privacy) -> None:
    """Refuse to cut rows into more subsets than there are."""
    check_enough(silo.name, len(silo.private), subsets, privacy)


def check_enough(name: str, rows: int, subsets: int, privacy: Privacy) -> None:
    """Without privacy only: how many rows a party has is private, and subsets without rows have substitutes."""
    if rows < subsets and privacy.level == "L0":
        raise LimbeckError(f"{name} holds {rows} rows, too few for {subsets} subsets: subsets = {rows} would fit")


def _hash(key: bytes, x: Array, y: Array) -> int:
    return int.from_bytes(blake2b(x.tobytes() + y.tobytes(), key=key, digest_size=8).digest(), "big")


def hand_out(final: bytes, privacy: Privacy, parties: Parties, site: Site) -> Outcome:
    """The final model goes to all parties; where labels were noised it tells nothing more and may be public."""
    if privacy.level == "L0":
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
    else:
        parties.ask(site.release(Adopt(final), PostProcessing(), observer="public"))
    return Outcome(final)


def check_queries(queries: int | float) -> None:
    if not queries > 0 or (isinstance(queries, float) and queries > 1):
        raise LimbeckError(f"queries must be a number of public rows from 1, or a share up to 1.0, not {queries}")


def number_of_queries(queries: int | float, public: int) -> int:
    """How many of the public rows are asked about: a prefix, the same for all."""
    number = queries if isinstance(queries, int) else max(1, int(queries * public))
    if number > public:
        raise LimbeckError(f"queries = {number}, but there are {public} public rows")
    return number


def check_asked(asked: int, queries: int | float, silo: Silo) -> None:
    """Refuse a request about another number of rows than was agreed on: noise and what it is worth follow from it."""
    if asked != (agreed := number_of_queries(queries, len(silo.public))):
        raise LimbeckError(f"{silo.name} was asked about {asked} public rows, not about {agreed} as agreed")
