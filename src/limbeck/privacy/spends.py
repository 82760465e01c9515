"""What an accountant sees of a release: so many queries to one mechanism, and what one neighbour can change."""

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


class UnknownSpendError(LimbeckError):
    """An accountant has no theorem for this spend."""


@dataclass(frozen=True, slots=True)
class Spend:
    """Queries to one mechanism under one neighbour relation.

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

    @property
    def moved(self) -> int:
        """How many counts one neighbour can move."""
        return 1 if self.adjacency == "add-remove" and self.mechanism.unit == "party" else 2

    @property
    def pure(self) -> float:
        """The pure epsilon of one query; of Gumbel noise it is also the width of the range of its losses."""
        return sum(self.pure_parts)

    @property
    def pure_parts(self) -> tuple[float, ...]:
        """The pure epsilons of what a query noises independently: a score a class, or one vote."""
        match self.mechanism:
            case Laplace() | Gumbel():
                return (self.moved * self.mechanism.weight * self.mechanism.gamma,)
            case LaplaceCounts(gamma) | NoisyMedian(gamma):
                return (self.moved * gamma,)
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
            case Gaussian(sigma, _, weight):
                return self.moved * _ratio(weight, sigma)
            case ConfidentGaussian(sigma, check, _, _, weight):
                return self.moved * _ratio(weight, sigma) + _ratio(weight, check)
            case ClippedGaussian(bound, sigma, classes):
                step = grid_of(sigma) if self.noise == "secure" and sigma else 0.0
                moved = 2 * bound * self.mechanism.share + step  # rounding may move a score by half a step
                return classes * _ratio(moved, sigma)
            case GaussianSum(apart, sigma, size):
                step = grid_of(sigma) if self.noise == "secure" and sigma else 0.0
                return _ratio(apart + step * math.sqrt(size), sigma)
        raise UnknownSpendError(f"{self.mechanism.name} adds no Gaussian noise")


def _ratio(sensitivity: float, sigma: float) -> float:
    ratio = sensitivity / sigma if sigma else math.inf
    return ratio * ratio
