"""What algorithms with privacy levels share: which public rows are labelled, and how rows are cut into subsets."""

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

Queries = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)]  # a number or a share of rows


class LevelledAlgorithm(Algorithm):
    """Base class of algorithms with a privacy level: a subclass has the field `privacy` (a `Privacy`)."""

    __slots__ = ()
    needs_public_rows: ClassVar[bool] = True
    is_one_shot: ClassVar[bool] = True
    privacy: Privacy

    @property
    def level(self) -> str:
        return self.privacy.level

    @property
    def effective_delta(self) -> float:
        return self.privacy.effective_delta

    @property
    def rows_per_person(self) -> int:
        return self.privacy.rows_per_person


class QueryingAlgorithm(LevelledAlgorithm):
    """Base class of algorithms with a privacy level and `queries`: a number, or a share, of the public rows."""

    __slots__ = ()
    queries: Queries

    def queried(self, site: Site) -> Array:
        """The public rows that are labelled: an array of shape (queries, ...)."""
        return site.public.x[: number_of_queries(self.queries, len(site.public))]


def number_of_queries(queries: int | float, public: int) -> int:
    """Compute how many public rows are labelled.

    Parameters
    ----------
    queries : int or float
        The number of rows, or their share of the public rows.
    public : int
        The number of public rows.

    Returns
    -------
    int
        The number of rows; these are the first ones, the same for all sites.

    Raises
    ------
    LimbeckError
        If there are fewer public rows than `queries`.

    Examples
    --------
    >>> number_of_queries(0.1, 500), number_of_queries(40, 500)
    (50, 40)
    """
    number = queries if isinstance(queries, int) else max(1, int(queries * public))
    if number > public:
        raise LimbeckError(f"algorithm.queries = {number}, but there are {public} public rows; use at most {public}")
    return number


def cut(silo: Silo, subsets: int, privacy: Privacy, partition: int = 0) -> list[Array]:
    """Cut the private rows of a party into disjoint subsets.

    Parameters
    ----------
    silo : Silo
        The party.
    subsets : int
        The number of subsets.
    privacy : Privacy
        The level and the adjacency.
    partition : int
        The number of the partition; each has another cut.

    Returns
    -------
    list of integer arrays
        The row numbers of each subset; a subset may be empty if there are few rows.

    Notes
    -----
    If one row may be replaced, the cut depends on row numbers and random numbers only. If one row may be added or
    removed, it depends on a keyed hash of each row, so that all other rows stay in their subsets. In a real run at L2
    the randomness comes from the party's secret and the run's identifier, so that no other site knows or chooses which
    rows share a teacher.
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
    """Raise if a party has fewer rows than subsets, at level L0 only.

    At private levels the number of rows is private, and a substitute takes the place of a teacher without rows.

    Parameters
    ----------
    run : Facts
        The public facts of the run.
    subsets : int
        The number of subsets.
    privacy : Privacy
        The level.

    Raises
    ------
    LimbeckError
        If there are fewer rows than subsets.
    """
    if run.rows is not None and run.rows < subsets and privacy.level == "L0":
        problem = f"a party has {run.rows} rows, fewer than {subsets} subsets; use at most {run.rows}"
        raise LimbeckError(f"algorithm.subsets: {problem}")
