"""Privacy losses: how much one query can reveal about a neighbour, in one of a few shapes.

`Mechanism.loss` returns one of these. Accountants match the shapes, never the mechanisms. They reject a shape that
their theorem does not cover.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaplaceShift:
    """Laplace noise on counts, some of which a neighbour shifts.

    Parameters
    ----------
    gamma : float
        Inverse noise scale.
    change : int
        Largest change of one count.
    counts : int
        Number of counts that a neighbour can change.
    discrete : bool
        Whether the noise is two-sided geometric, on whole numbers.
    """

    gamma: float
    change: int
    counts: int
    discrete: bool


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure differential privacy, (epsilon, 0): some values with independent noise, each with a pure epsilon.

    Parameters
    ----------
    each : float
        Pure epsilon of one value.
    parts : int
        Number of values.
    laplace : bool
        Whether every value is one number with continuous Laplace noise. Its Rényi divergence is smaller than that of
        randomized response, the worst case.
    shift : LaplaceShift, optional
        Set if the answer is post-processing of noisy counts, whose loss distribution is known.

    Examples
    --------
    >>> Pure(0.25, parts=4).epsilon
    1.0
    """

    each: float
    parts: int = 1
    laplace: bool = False
    shift: LaplaceShift | None = None

    @property
    def epsilon(self) -> float:
        """Pure epsilon of all values together."""
        return sum([self.each] * self.parts)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """Bounded range, as of an exponential mechanism: all losses lie in one interval of a known width.

    Parameters
    ----------
    epsilon : float
        Width of the interval, which is also the pure epsilon (Durfee & Rogers 2019).
    """

    epsilon: float


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Gaussian noise.

    Parameters
    ----------
    mu_squared : float
        Squared ratio of L2 sensitivity to standard deviation, summed over all noisy values.
    discrete : bool
        Whether the noise is discrete. Theorems about continuous noise then do not apply.
    """

    mu_squared: float
    discrete: bool = False


@dataclass(frozen=True, slots=True)
class Subsampled:
    """A secret random subset of the rows, without noise.

    Parameters
    ----------
    epsilon : float
        Epsilon at this delta.
    delta : float
        Delta of the subset itself. A smaller one cannot be chosen.
    """

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
    """Squared ratio of sensitivity to Gaussian noise.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity.
    sigma : float
        Standard deviation of the noise.

    Returns
    -------
    float
        (sensitivity / sigma)^2; infinite if sigma is 0.

    Examples
    --------
    >>> mu_squared(1.0, 2.0), mu_squared(1.0, 0.0)
    (0.25, inf)
    """
    ratio = sensitivity / sigma if sigma else math.inf
    return ratio * ratio
