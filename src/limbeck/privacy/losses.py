"""Privacy losses: how much one query can reveal about a neighbour, in one of a few shapes.

`Mechanism.loss` returns one of these. Accountants match the shapes, never the mechanisms, and refuse a shape that they
have no theorem for.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaplaceShift:
    """Laplace noise of scale 1 / gamma on counts, of which a neighbour changes `counts` by at most `change` each.

    `discrete` noise is two-sided geometric, on whole numbers.
    """

    gamma: float
    change: int
    counts: int
    discrete: bool


@dataclass(frozen=True, slots=True)
class Pure:
    """(epsilon, 0)-differential privacy: `parts` values with independent noise, each of pure epsilon `each`.

    `laplace`: every part is one number with continuous Laplace noise, which has a smaller Rényi divergence than
    randomised response. `shift`: the answer is post-processing of noisy counts, whose loss distribution is known.
    """

    each: float
    parts: int = 1
    laplace: bool = False
    shift: LaplaceShift | None = None

    @property
    def epsilon(self) -> float:
        return sum([self.each] * self.parts)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """An exponential mechanism: all losses lie in an interval of this width, which is also its pure epsilon."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Gaussian noise: the squared ratio of L2 sensitivity to standard deviation, summed over all that is noised."""

    mu_squared: float
    discrete: bool = False


@dataclass(frozen=True, slots=True)
class Subsampled:
    """A secret subset of the rows without noise: (epsilon, delta) of its own, whatever delta is named."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class NoLoss:
    """Post-processing: nothing new is revealed."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Unprotected: epsilon is infinite."""


Loss = Pure | BoundedRange | GaussianLoss | Subsampled | NoLoss | Unbounded


def mu_squared(sensitivity: float, sigma: float) -> float:
    """The squared ratio of sensitivity to Gaussian noise; infinite where there is no noise."""
    ratio = sensitivity / sigma if sigma else math.inf
    return ratio * ratio
