"""Distil: teachers on disjoint subsets vote, and a student learns their labels (PATE; the inner tier of FedKT)."""

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import tally, winners
from limbeck.models.training import Fit, FitAndVote
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo


def students(silo: Silo, asked: Array, partitions: int, subsets: int) -> tuple[bytes, ...]:
    """One student for each partition: `subsets` teachers label the rows asked about, the student learns the labels."""
    teachers = [
        FitAndVote(silo.model, silo.private.x[subset], silo.private.y[subset], asked)
        for _ in range(partitions)
        for subset in cut(silo, subsets)
    ]
    labels = np.stack(silo.train(teachers)).reshape(partitions, subsets, len(asked))
    taught = [winners(tally(partition, silo.classes)) for partition in labels]
    return tuple(silo.train([Fit(silo.model, asked, targets) for targets in taught]))


def cut(silo: Silo, subsets: int) -> list[Array]:
    """Cut the private rows into disjoint subsets, by row number and chance alone."""
    if len(silo.private) < subsets:
        raise LimbeckError(
            f"{silo.name} holds {len(silo.private)} rows, too few for {subsets} subsets: "
            f"subsets = {len(silo.private)} would fit"
        )
    return np.array_split(silo.rng.permutation(len(silo.private)), subsets)


def check_queries(queries: int | float) -> None:
    if not queries > 0 or (isinstance(queries, float) and queries > 1):
        raise LimbeckError(f"queries must be a number of public rows from 1, or a share up to 1.0, not {queries}")


def number_of_queries(queries: int | float, public: int) -> int:
    """How many of the public rows are asked about: a prefix, the same for all."""
    number = queries if isinstance(queries, int) else max(1, int(queries * public))
    if number > public:
        raise LimbeckError(f"queries = {number}, but there are {public} public rows")
    return number
