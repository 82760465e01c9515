"""What an accountant sees of a release: so many queries to one mechanism, and what one neighbour can change.

A neighbour may be a person with several rows. Then what one row can change is scaled to what all of them can change,
and every accountant works as for one row. Epsilon is never multiplied: at a fixed delta it grows faster than the rows.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from limbeck.errors import LimbeckError
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    GaussianSum,
    Gumbel,
    Laplace,
    LaplaceCounts,
    LaplaceLogits,
    NoisyMedian,
)
from limbeck.privacy.sampling import grid_of
from limbeck.protocol.release import Noise

Adjacency = Literal["replace", "add-remove"]
RANGED = (Gumbel, NoisyMedian)  # exponential mechanisms, whose losses have a bounded range
PURE = (Laplace, LaplaceCounts, LaplaceLogits, *RANGED)
VOTES = (Laplace, Gumbel, Gaussian, ConfidentGaussian, NoisyMedian)  # each voter changes its own vote only
SATURATED = (ClippedGaussian, LaplaceLogits)  # one row may already move every score across the whole range
MOST_ROWS = 10**9


class UnknownSpendError(LimbeckError):
    """An accountant has no theorem for this spend."""


@dataclass(frozen=True, slots=True)
class Spend:
    """Queries to one mechanism under one neighbour relation, for a person with up to `rows` rows.

    `classes` and `voters` are public facts that some theorems can use; with `abstentions` the number of voters is only
    an upper bound. A replaced neighbour moves two counts, and so does an added example, whose teacher may change its
    vote; an added party moves one.
    """

    mechanism: Any
    queries: int
    adjacency: Adjacency = "replace"
    classes: int | None = None
    voters: int | None = None
    abstentions: bool = False
    noise: Noise = "simulated"
    rows: int = 1

    @property
    def moved(self) -> int:
        """How many counts one neighbour can move."""
        return 1 if self.adjacency == "add-remove" and self.mechanism.unit == "party" else 2

    @property
    def contributions(self) -> int:
        """How many votes, or terms of a sum, the rows of one person can change.

        Where a party is protected, all rows of a person in that party are one contribution. Otherwise k rows lie in at
        most k teachers of a partition, and there are no more teachers than `voters`. In a sum or a count, k rows are at
        most k contributions. Scores that one row can move across their whole range are one.
        """
        if self.mechanism.unit == "party" or isinstance(self.mechanism, SATURATED):
            return 1
        if isinstance(self.mechanism, VOTES) and self.voters is not None:
            return min(self.rows, max(1, self.voters))
        return self.rows

    @property
    def weight(self) -> int:
        """By how much a neighbour can move one count of votes.

        k votes move from some counts to others: those that grow, grow by k in all, and those that shrink, by k. The
        change has an L1 norm of at most 2k, an L2 norm of at most sqrt(2) k, and no count moves by more than k. All
        three are reached where all k votes move from one class to another.
        """
        return int(self.mechanism.weight) * self.contributions

    @property
    def pure(self) -> float:
        """The pure epsilon of one query; of Gumbel noise it is also the width of the range of its losses."""
        return sum(self.pure_parts)

    @property
    def pure_parts(self) -> tuple[float, ...]:
        """The pure epsilons of what a query noises independently: a score a class, or one vote."""
        match self.mechanism:
            case Laplace() | Gumbel():
                return (self.moved * self.weight * self.mechanism.gamma,)
            case LaplaceCounts(gamma) | NoisyMedian(gamma):
                return (self.moved * self.contributions * gamma,)
            case LaplaceLogits(bound, gamma, classes):
                step = grid_of(1 / gamma) if self.noise == "secure" and gamma < math.inf else 0.0
                return (gamma * (2 * bound * self.mechanism.share + step),) * classes
        raise UnknownSpendError(f"{self.mechanism.name} is not purely private")

    @property
    def bare(self) -> bool:
        """Whether there is no noise to speak of."""
        known = self.pure if isinstance(self.mechanism, PURE) else self.gaussian
        return math.isinf(known)

    @property
    def gaussian(self) -> float:
        """mu^2 of one query: the squared ratio of sensitivity to noise, added up over what is noised."""
        match self.mechanism:
            case Gaussian(sigma):
                return self.moved * _ratio(self.weight, sigma)
            case ConfidentGaussian(sigma, check):
                return self.moved * _ratio(self.weight, sigma) + _ratio(self.weight, check)
            case ClippedGaussian(bound, sigma, classes):
                step = grid_of(sigma) if self.noise == "secure" and sigma else 0.0
                moved = 2 * bound * self.mechanism.share + step  # rounding may move a score by half a step
                return classes * _ratio(moved, sigma)
            case GaussianSum(apart, sigma, size):
                step = grid_of(sigma) if self.noise == "secure" and sigma else 0.0
                return _ratio(self.contributions * apart + step * math.sqrt(size), sigma)  # a sum is rounded once
        raise UnknownSpendError(f"{self.mechanism.name} adds no Gaussian noise")


def check_rows_per_person(rows: int) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise LimbeckError(f"rows_per_person must be a whole number from 1 to {MOST_ROWS}, not {rows!r}")


def _ratio(sensitivity: float, sigma: float) -> float:
    ratio = sensitivity / sigma if sigma else math.inf
    return ratio * ratio
