"""Mechanisms and events: what an accountant sees of a release, the number of queries to one mechanism.

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
    """An accountant has no theorem for this event."""


class Mechanism(release.Mechanism):
    """How a value is protected, and the privacy loss of one query.

    `weight` is how much one vote counts (s students of a party vote as one).
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
        MECHANISMS[cls.name] = cls  # `dataclass(slots=True)` makes every class twice: the second one counts

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def loss(self, event: "DpEvent") -> Loss:
        """The privacy loss of one query of the event."""

    def contributions(self, rows: int, voters: int | None) -> int:
        """How many votes, or terms of a sum, `rows` rows of one person can change, where an example is protected."""
        return rows

    def flips(self, margin: Array, noise: Noise = "simulated") -> Array:
        """With two classes: the probability that the second is published when it leads by `margin`."""
        raise UnknownEventError(f"{self.name} is not a noisy maximum that binary knows")

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """A bound on the log probability that another class than the leading one is published, for each query."""
        raise UnknownEventError(f"no data-dependent bound for {self.name}")

    def gaussian_terms(self, event: "DpEvent", votes: Array) -> list[tuple[Array, float]]:
        """For each noisy comparison of a query: log probability of the rarer outcome, Rényi divergence per order."""
        raise UnknownEventError(f"no data-dependent bound for {self.name}")


@dataclass(frozen=True, slots=True)
class DpEvent:
    """Queries to one mechanism under one neighbour relation, for a person with up to `rows` rows.

    `classes` and `voters` are public facts that some theorems use. With `abstentions` the number of voters is only an
    upper bound.
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
        """How many counts one neighbour can change.

        A replaced neighbour changes two. So does an added example, whose teacher may change its vote. An added party
        changes one.
        """
        return 1 if self.adjacency == "add-remove" and self.mechanism.unit == "party" else 2

    @property
    def contributions(self) -> int:
        """How many votes, or terms of a sum, the rows of one person can change.

        Where a party is protected, all rows of a person in that party are one contribution.
        """
        return 1 if self.mechanism.unit == "party" else self.mechanism.contributions(self.rows, self.voters)

    @property
    def weight(self) -> int:
        """By how much a neighbour can change one count of votes.

        k votes move from some counts to others: those that grow, grow by k in all, and those that shrink, by k. The
        change has an L1 norm of at most 2k, an L2 norm of at most sqrt(2) k, and no count changes by more than k. All
        three are reached where all k votes move from one class to another.
        """
        return int(self.mechanism.weight) * self.contributions

    @property
    def is_discrete(self) -> bool:
        """Whether noise is added in whole numbers, or in steps of a grid."""
        return self.noise == "secure"

    def grid_step(self, scale: float) -> float:
        """The step that discrete noise of a scale rounds real numbers to; 0 where nothing is rounded."""
        return grid_of(scale) if self.is_discrete and scale else 0.0

    @property
    def loss(self) -> Loss:
        """The privacy loss of one query."""
        return self.mechanism.loss(self)

    @property
    def pure(self) -> float:
        """The pure epsilon of one query."""
        match self.loss:
            case Pure() | BoundedRange() as loss:
                return loss.epsilon
        raise UnknownEventError(f"{self.mechanism.name} is not purely private")

    @property
    def mu_squared(self) -> float:
        """The squared ratio of sensitivity to Gaussian noise of one query."""
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
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_ROWS_PER_PERSON:
        raise LimbeckError(f"rows_per_person must be a whole number from 1 to {MAX_ROWS_PER_PERSON}, not {rows!r}")
