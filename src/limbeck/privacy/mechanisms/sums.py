"""Noise on numbers themselves: clipped scores, sums of vectors, and class counts."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.privacy.events import DpEvent, Mechanism
from limbeck.privacy.losses import GaussianLoss, Loss, Pure, mu_squared
from limbeck.privacy.mechanisms.parameters import Gamma, Share, Sigma, rows_of
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import NoiseSource, Unit
from limbeck.protocol.rows import Array
from limbeck.tables import Above0, Positive


class ClippedScores(Mechanism):
    """Base class: scores of C classes, clipped to [-bound, bound]; NaN counts as 0.

    One row can already change all scores by 2 bound, so more rows of a person change nothing. In a mean of many scores
    a neighbour can change only its own `share`.
    """

    __slots__ = ()
    bound: Above0
    classes: Positive
    share: float

    def contributions(self, rows: int, voters: int | None) -> int:
        return 1

    def asked(self, scores: Array, classes: int) -> int:
        return rows_of(scores, self.classes)

    def _change(self, event: DpEvent, scale: float) -> float:
        """Largest change of one score. Rounding to the grid of secure noise adds up to half a step on each side."""
        return 2 * self.bound * self.share + event.grid_step(scale)


@dataclass(frozen=True, slots=True)
class ClippedGaussian(ClippedScores):
    """Clipped scores with Gaussian noise on each.

    Parameters
    ----------
    bound : float
        Public bound B: scores are clipped to [-B, B].
    sigma : float
        Standard deviation of the noise on each score.
    classes : int
        Number of classes C, that is of scores per query.
    unit : {"example", "party"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.
    share : float
        Share of one contributor in a mean, above 0 and at most 1.

    Notes
    -----
    One neighbour can change all C scores of a query by 2 B share. The L2 sensitivity is 2 B share sqrt(C).

    Examples
    --------
    >>> ClippedGaussian(bound=1.0, sigma=10.0, classes=4).sensitivity
    4.0
    """

    bound: Above0
    sigma: Sigma
    classes: Positive
    unit: Unit = "example"
    adjacency: str = "any"
    share: Share = 1.0
    name = "clipped-gaussian"

    @property
    def sensitivity(self) -> float:
        return 2 * self.bound * self.share * math.sqrt(self.classes)

    def protect(self, scores: Array, source: NoiseSource) -> Array:
        return sampler_for(source).gaussian(clipped(scores, self.bound), self.sigma)

    def loss(self, event: DpEvent) -> Loss:
        return GaussianLoss(self.classes * mu_squared(self._change(event, self.sigma), self.sigma), event.is_discrete)


@dataclass(frozen=True, slots=True)
class LaplaceLogits(ClippedScores):
    """Clipped scores, or a mean of them, with Laplace noise on each (FedKD, Equation 2).

    Parameters
    ----------
    bound : float
        Public bound B: scores are clipped to [-B, B].
    gamma : float
        Inverse noise scale: each score gets Lap(1 / gamma).
    classes : int
        Number of classes C, that is of scores per query.
    unit : {"example", "party"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.
    share : float
        Share of one contributor in a mean, above 0 and at most 1.

    Notes
    -----
    Each of the C scores costs a pure epsilon of 2 B share gamma, at every query. At the paper's gamma this is no
    protection: with gamma 1, B 10, C 10, 20 parties and 50 000 public rows, epsilon is 500 000 by basic composition.

    Examples
    --------
    >>> DpEvent(LaplaceLogits(bound=10.0, gamma=1.0, classes=10, share=1 / 20), queries=50_000).pure
    10.0
    """

    bound: Above0
    gamma: Gamma
    classes: Positive
    unit: Unit = "example"
    adjacency: str = "any"
    share: Share = 1.0
    name = "laplace-logits"

    @property
    def sensitivity(self) -> float:
        return 2 * self.bound * self.share * self.classes

    def protect(self, scores: Array, source: NoiseSource) -> Array:
        return sampler_for(source).laplace(clipped(scores, self.bound), 1 / self.gamma)

    def loss(self, event: DpEvent) -> Loss:
        each = self.gamma * self._change(event, 1 / self.gamma)
        return Pure(each, self.classes, laplace=not event.is_discrete)


@dataclass(frozen=True, slots=True)
class GaussianSum(Mechanism):
    """Sum of vectors, one per contributor, with Gaussian noise on each number of the sum.

    Parameters
    ----------
    l2_sensitivity : float
        Largest L2 norm of the change of the sum if one contributor is replaced, added or removed.
    sigma : float
        Standard deviation of the noise on each number.
    size : int
        Length of the sum.
    unit : {"party", "example"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Examples
    --------
    >>> DpEvent(GaussianSum(l2_sensitivity=2.0, sigma=4.0, size=10), queries=1).mu_squared
    0.25
    """

    l2_sensitivity: Above0
    sigma: Sigma
    size: Positive
    unit: Unit = "party"
    adjacency: str = "any"
    name = "gaussian-sum"

    @property
    def sensitivity(self) -> float:
        return self.l2_sensitivity

    def protect(self, sums: Array, source: NoiseSource) -> Array:
        return sampler_for(source).gaussian(np.asarray(sums, np.float64), self.sigma)

    def asked(self, sums: Array, classes: int) -> int:
        if sums.size != self.size:
            raise LimbeckError(f"{self.name} is declared for a sum of {self.size} numbers, but there are {sums.size}")
        return 1

    def loss(self, event: DpEvent) -> Loss:
        rounding = event.grid_step(self.sigma) * math.sqrt(self.size)  # each of two neighbouring sums is rounded once
        change = event.contributions * self.l2_sensitivity + rounding
        return GaussianLoss(mu_squared(change, self.sigma), event.is_discrete)


@dataclass(frozen=True, slots=True)
class LaplaceCounts(Mechanism):
    """Number of rows of each class of a party, with Laplace noise on each.

    Parameters
    ----------
    gamma : float
        Inverse noise scale: each count gets Lap(1 / gamma).
    unit : {"example"}
        Who is protected. A party is not: it can change every count by all its rows.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Notes
    -----
    A replaced row changes two counts by 1, so the pure epsilon is 2 gamma.

    Examples
    --------
    >>> DpEvent(LaplaceCounts(gamma=0.5), queries=1).pure
    1.0
    """

    gamma: Gamma
    unit: Literal["example"] = "example"
    adjacency: str = "any"
    name = "laplace-counts"
    sensitivity = 2.0

    def protect(self, counts: Array, source: NoiseSource) -> Array:
        return sampler_for(source).laplace(counts, 1 / self.gamma)

    def asked(self, counts: Array, classes: int) -> int:
        return rows_of(counts, classes)

    def loss(self, event: DpEvent) -> Loss:
        return Pure(event.affected_counts * event.weight * self.gamma)


def clipped(scores: Array, bound: float) -> Array:
    """Clip scores to [-bound, bound]; NaN becomes 0.

    Parameters
    ----------
    scores : array
        Scores of any shape.
    bound : float
        Largest absolute score.

    Returns
    -------
    array of the same shape
        Finite scores.

    Examples
    --------
    >>> clipped(np.array([-3.0, 0.5, np.nan, np.inf]), 1.0)
    array([-1. ,  0.5,  0. ,  1. ])
    """
    numbers = np.nan_to_num(scores, nan=0.0, posinf=bound, neginf=-bound)
    return np.asarray(np.clip(numbers, -bound, bound))
