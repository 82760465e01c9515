"""Distil: teachers on disjoint subsets vote, and a student learns their labels (PATE; the inner tier of FedKT)."""

from hashlib import blake2b

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import tally, winners
from limbeck.models.training import Fit, FitAndVote
from limbeck.privacy.mechanisms import UNANSWERED, NothingPrivate, Unprotected
from limbeck.privacy.planner import Privacy
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
    labels = ballots(silo, asked, partitions, subsets, privacy)
    votes = np.concatenate([tally(partition, silo.classes) for partition in labels])
    taught = _labels(silo, votes, subsets, privacy).reshape(partitions, len(asked))
    return tuple(silo.train([Fit(silo.model, *answered(asked, targets, silo)) for targets in taught]))


def ballots(silo: Silo, asked: Array, partitions: int, subsets: int, privacy: Privacy) -> Array:
    """What each teacher says: [partitions, subsets, rows] labels.

    A teacher keeps its place, and so its seed, whatever the others hold: one row changes one teacher's word.
    """
    teachers = [
        FitAndVote(silo.model, silo.private.x[rows], silo.private.y[rows], asked)
        for _ in range(partitions)
        for rows in cut(silo, subsets, privacy)
    ]
    return np.stack(silo.train(teachers)).reshape(partitions, subsets, len(asked))


def _labels(silo: Silo, votes: Array, subsets: int, privacy: Privacy) -> Array:
    if privacy.level != "L2":
        return winners(votes)
    noisy_max = privacy.noisy_max("example", 1, Asked(len(votes), silo.classes, subsets, False, silo.noise))
    return silo.release(votes, noisy_max, observer="public", voters=subsets)


def answered(asked: Array, labels: Array, site: Site) -> tuple[Array, Array]:
    """The rows that got a label."""
    there = labels != UNANSWERED
    if not there.any():
        raise LimbeckError(f"{site.name}: no query passed the threshold; lower it, or ask about more rows")
    return (asked, labels) if there.all() else (asked[there], labels[there])


def cut(silo: Silo, subsets: int, privacy: Privacy) -> list[Array]:
    """Cut the private rows into disjoint subsets.

    Where one row may be replaced, by row number and chance alone; where one may be added or removed, by a keyed hash
    of the row itself: no other row ever moves.
    """
    check_subsets(silo, subsets, privacy)
    if privacy.level != "L2" or privacy.adjacency == "replace":
        return np.array_split(silo.rng.permutation(len(silo.private)), subsets)
    key = silo.rng.bytes(16)
    place = np.array([_hash(key, x, y) % subsets for x, y in zip(silo.private.x, silo.private.y, strict=True)])
    return [np.flatnonzero(place == subset) for subset in range(subsets)]


def check_subsets(silo: Silo, subsets: int, privacy: Privacy) -> None:
    """Refuse to cut rows into more subsets than there are."""
    check_enough(silo.name, len(silo.private), subsets, privacy)


def check_enough(name: str, rows: int, subsets: int, privacy: Privacy) -> None:
    if rows < subsets and privacy.adjacency == "replace":
        raise LimbeckError(f"{name} holds {rows} rows, too few for {subsets} subsets: subsets = {rows} would fit")


def _hash(key: bytes, x: Array, y: Array) -> int:
    return int.from_bytes(blake2b(x.tobytes() + y.tobytes(), key=key, digest_size=8).digest(), "big")


def hand_out(final: bytes, privacy: Privacy, parties: Parties, site: Site) -> Outcome:
    """The final model goes to all parties; where labels were noised it tells nothing more and may be public."""
    if privacy.level == "L0":
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
    else:
        parties.ask(site.release(Adopt(final), NothingPrivate(), observer="public"))
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
