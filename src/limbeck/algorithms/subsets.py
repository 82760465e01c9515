"""Algorithms with privacy levels: which public rows are labelled, and how a party cuts its rows into subsets."""

from hashlib import blake2b
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from limbeck.errors import LimbeckError
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site

Queries = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)]  # a number, or a share of the public rows


class LevelledAlgorithm(Algorithm):
    """An algorithm with a `privacy` table and a number of `queries`."""

    __slots__ = ()
    needs_public_rows: ClassVar[bool] = True
    is_one_shot: ClassVar[bool] = True
    privacy: Privacy
    queries: Queries

    def queried(self, site: Site) -> Array:
        """The public rows that are labelled."""
        return site.public.x[: number_of_queries(self.queries, len(site.public))]

    @property
    def level(self) -> str:
        return self.privacy.level

    @property
    def effective_delta(self) -> float:
        return self.privacy.effective_delta

    @property
    def rows_per_person(self) -> int:
        return self.privacy.rows_per_person


def number_of_queries(queries: int | float, public: int) -> int:
    """How many public rows are labelled: a prefix, the same for all parties."""
    number = queries if isinstance(queries, int) else max(1, int(queries * public))
    if number > public:
        raise LimbeckError(f"algorithm.queries = {number}, but there are {public} public rows")
    return number


def cut(silo: Silo, subsets: int, privacy: Privacy, partition: int = 0) -> list[Array]:
    """Cut the private rows into disjoint subsets, some of them empty where there are too few rows.

    Where one row may be replaced, the cut depends on row numbers and randomness alone; where one may be added or
    removed, on a keyed hash of the row itself: no other row ever moves. In a real run at L2 the randomness comes from
    the party's secret and the run's identifier: nobody else decides which rows share a teacher.
    """
    purpose = f"cut {partition}"
    if privacy.level != "L2":
        return np.array_split(silo.rng.permutation(len(silo.private)), subsets)
    if privacy.adjacency == "replace":
        return np.array_split(silo.hidden_order(purpose, len(silo.private)), subsets)
    key = silo.hidden_bytes(purpose, 16)
    rows = (x.tobytes() + y.tobytes() for x, y in zip(silo.private.x, silo.private.y, strict=True))
    hashes = [int.from_bytes(blake2b(row, key=key, digest_size=8).digest(), "big") for row in rows]
    subset_of_row = np.array([number % subsets for number in hashes])
    return [np.flatnonzero(subset_of_row == subset) for subset in range(subsets)]


def check_enough(run: Facts, subsets: int, privacy: Privacy) -> None:
    """Without privacy only: how many rows a party has is private, and subsets without rows have substitutes."""
    if run.rows is not None and run.rows < subsets and privacy.level == "L0":
        problem = f"a party has {run.rows} rows, fewer than {subsets} subsets; use at most {run.rows}"
        raise LimbeckError(f"algorithm.subsets: {problem}")
