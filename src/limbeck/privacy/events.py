"""Events: what an accountant needs to know of a release. The base class of mechanisms.

A neighbour may be a person with several rows. The sensitivity is then scaled to all of these rows, and every accountant
works as for one row. Epsilon is never multiplied: at a fixed delta it grows faster than the number of rows.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from limbeck.errors import LimbeckError
from limbeck.privacy.losses import BoundedRange, GaussianLoss, Loss, Pure, Unbounded
from limbeck.privacy.sampling import grid_of
from limbeck.protocol import release
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.tables import check_fields

Adjacency = Literal["replace", "add-remove"]
MAX_ROWS_PER_PERSON = 10**9
MECHANISMS: dict[str, type["Mechanism"]] = {}


class UnknownEventError(LimbeckError):
    """The theorem of an accountant does not cover this event."""


class Mechanism(release.Mechanism):
    """Base class of mechanisms: how a value is protected, and the privacy loss of one query.

    A subclass is a frozen dataclass whose fields are its parameters in the ledger. It defines `protect`, `loss` and
    `sensitivity`. It has a `name` of its own, under which it registers itself in `MECHANISMS`.

    Attributes
    ----------
    name : str
        Name in the ledger.
    unit : {"example", "party"}
        Who is protected: one row (or one person), or a whole party.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.
    weight : int
        Number of counts that one voter adds to a class; s if the s students of a party vote as one.

    Raises
    ------
    LimbeckError
        If a subclass has no name of its own, or the name of another mechanism.

    Notes
    -----
    `loss` returns one of the shapes in `limbeck.privacy.losses`. Accountants match the shapes, not the classes, so that
    they compose a new mechanism without a change.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gumbel
    >>> mechanism = Gumbel(gamma=0.05)
    >>> isinstance(mechanism, Mechanism), mechanism.name, mechanism.sensitivity
    (True, 'gumbel', 2.0)
    >>> mechanism.loss(DpEvent(mechanism, queries=40))
    BoundedRange(epsilon=0.1)
    """

    __slots__ = ()
    weight: int = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            if hasattr(cls, "name"):
                raise LimbeckError(f"the mechanism {cls.__name__} needs a name of its own, not {cls.name!r}")
            return
        known = MECHANISMS.setdefault(cls.name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise LimbeckError(f"there is another mechanism with the name {cls.name!r}: {known.__qualname__}")
        MECHANISMS[cls.name] = cls  # `dataclass(slots=True)` creates every class twice: the second one is used

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def loss(self, event: "DpEvent") -> Loss:
        """Privacy loss of one query of an event, as one of the shapes in `limbeck.privacy.losses`."""

    def contributions(self, rows: int, voters: int | None) -> int:
        """Number of votes, or terms of a sum, that one person with `rows` rows can change.

        It is used only if the mechanism protects an example.
        """
        return rows

    def flips(self, margin: Array, noise: Noise = "simulated") -> Array:
        """Probability that the second of two classes is released.

        Parameters
        ----------
        margin : array of shape (n,)
            Votes of the second class minus votes of the first.
        noise : {"simulated", "secure"}
            Continuous or discrete noise.

        Returns
        -------
        array of shape (n,)
            Probabilities.

        Raises
        ------
        UnknownEventError
            If there is no formula for this mechanism and noise.
        """
        raise UnknownEventError(f"no two-class bound for {self.name}")

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """Upper bound on the log probability that a class other than the leading one is released.

        Parameters
        ----------
        votes : array of shape (queries, classes)
            Vote counts.
        noise : {"simulated", "secure"}
            Continuous or discrete noise.

        Returns
        -------
        array of shape (queries,)
            Logarithms of the bound q.

        Raises
        ------
        UnknownEventError
            If there is no bound for this mechanism and noise.
        """
        raise UnknownEventError(f"no data-dependent bound for {self.name}")

    def gaussian_terms(self, event: "DpEvent", votes: Array) -> list[tuple[Array, float]]:
        """Terms of the data-dependent bound for Gaussian noise, one for each noisy comparison of a query.

        Parameters
        ----------
        event : DpEvent
            The queries.
        votes : array of shape (queries, classes)
            Vote counts.

        Returns
        -------
        list of (array of shape (queries,), float)
            Log probability of the less likely outcome, and Rényi divergence per order without the data.

        Raises
        ------
        UnknownEventError
            If there is no bound for this mechanism.
        """
        raise UnknownEventError(f"no data-dependent bound for {self.name}")


@dataclass(frozen=True, slots=True)
class DpEvent:
    """Queries to one mechanism under one neighbour relation.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that answers every query.
    queries : int
        Number of queries.
    adjacency : {"replace", "add-remove"}
        Neighbour relation.
    classes : int, optional
        Number of classes: a public fact that some theorems use.
    voters : int, optional
        Number of voters: a public fact that some theorems use.
    abstentions : bool
        Whether voters may be silent. `voters` is then an upper bound.
    noise : {"simulated", "secure"}
        Continuous noise, or discrete noise from the operating system.
    rows : int
        Largest number of rows of one person in a party.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian, Laplace
    >>> DpEvent(Laplace(gamma=0.05), queries=40).pure
    0.1
    >>> round(DpEvent(Gaussian(sigma=40.0), queries=1000).mu_squared, 5)
    0.00125
    """

    mechanism: Mechanism
    queries: int
    adjacency: Adjacency = "replace"
    classes: int | None = None
    voters: int | None = None
    abstentions: bool = False
    noise: Noise = "simulated"
    rows: int = 1

    @property
    def affected_counts(self) -> int:
        """Number of counts that one neighbour can change.

        A replaced neighbour changes two. So does an added example, because its teacher may change its vote. An added
        party changes one.
        """
        return 1 if self.adjacency == "add-remove" and self.mechanism.unit == "party" else 2

    @property
    def contributions(self) -> int:
        """Number of votes, or terms of a sum, that the rows of one person can change.

        If a party is protected, all rows of a person in this party are one contribution.
        """
        return 1 if self.mechanism.unit == "party" else self.mechanism.contributions(self.rows, self.voters)

    @property
    def weight(self) -> int:
        """Largest change of one vote count.

        If k votes move from some classes to others, some counts grow by k in total and others shrink by k in total. The
        change has an L1 norm of at most 2 k and an L2 norm of at most sqrt(2) k, and no count changes by more than k.
        All three bounds are reached if all k votes move from one class to another.
        """
        return int(self.mechanism.weight) * self.contributions

    @property
    def is_discrete(self) -> bool:
        """Whether noise is drawn in whole numbers, or in steps of a grid."""
        return self.noise == "secure"

    def grid_step(self, scale: float) -> float:
        """Grid step that real numbers are rounded to before discrete noise of this scale; 0 if nothing is rounded."""
        return grid_of(scale) if self.is_discrete and scale else 0.0

    @property
    def loss(self) -> Loss:
        """Privacy loss of one query."""
        return self.mechanism.loss(self)

    @property
    def pure(self) -> float:
        """Pure epsilon of one query; raise `UnknownEventError` if there is none."""
        match self.loss:
            case Pure() | BoundedRange() as loss:
                return loss.epsilon
        raise UnknownEventError(f"{self.mechanism.name} does not give pure differential privacy")

    @property
    def mu_squared(self) -> float:
        """Squared ratio of sensitivity to Gaussian noise of one query; raise `UnknownEventError` if there is none."""
        match self.loss:
            case GaussianLoss(mu_squared):
                return mu_squared
        raise UnknownEventError(f"{self.mechanism.name} adds no Gaussian noise")

    @property
    def is_unprotected(self) -> bool:
        """Whether epsilon is infinite."""
        match self.loss:
            case Pure() | BoundedRange() as loss:
                return math.isinf(loss.epsilon)
            case GaussianLoss(mu_squared):
                return math.isinf(mu_squared)
            case loss:
                return isinstance(loss, Unbounded)


def check_rows_per_person(rows: int) -> None:
    """Raise `LimbeckError` unless `rows` is a whole number from 1 to `MAX_ROWS_PER_PERSON`."""
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_ROWS_PER_PERSON:
        raise LimbeckError(f"rows_per_person must be a whole number from 1 to {MAX_ROWS_PER_PERSON}, not {rows!r}")
