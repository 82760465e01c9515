"""Noisy maxima: the class with the largest vote count after noise. The noisy median of voters' numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field as Range
from scipy import special

from limbeck.privacy.events import MECHANISMS, DpEvent, Mechanism, UnknownEventError
from limbeck.privacy.losses import BoundedRange, GaussianLoss, LaplaceShift, Loss, Pure, mu_squared
from limbeck.privacy.mechanisms.parameters import Gamma, Sigma, rows_of
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import Noise, NoiseSource, Unit
from limbeck.protocol.rows import UNANSWERED, Array
from limbeck.tables import Positive

CHECK = 2.0  # of Confident-GNMax: default noise of the check, as a multiple of the noise of the answer
AGREEMENT = 0.6  # of Confident-GNMax: default share of all votes that the leading class needs


class _Votes(Mechanism):
    """Computed from votes. k rows are in at most k subsets of a partition, so they change at most k teachers' votes."""

    __slots__ = ()

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.weight

    def contributions(self, rows: int, voters: int | None) -> int:
        return rows if voters is None else min(rows, max(1, voters))

    def asked(self, votes: Array, classes: int) -> int:
        return rows_of(votes, classes)


class NoisyMax(_Votes):
    """Base class of noisy maxima, which release one class for each query. The table `[algorithm.privacy]` can name all.

    A subclass is a frozen dataclass with the fields `gamma` (the inverse of the noise's scale) or `sigma` (its standard
    deviation), `unit`, `weight` and `adjacency`.

    Examples
    --------
    >>> sorted(noisy_maxima())
    ['confident-gaussian', 'gaussian', 'gumbel', 'laplace']
    """

    __slots__ = ()

    @classmethod
    def options(cls, scale: float, votes: int) -> Mapping[str, Any]:
        """Values of further fields that a privacy table leaves out.

        Parameters
        ----------
        scale : float
            The value of `gamma` or `sigma`.
        votes : int
            Largest number of votes for one class.

        Returns
        -------
        mapping of str to object
            The values by field.
        """
        return {}


def noisy_maxima() -> dict[str, type[NoisyMax]]:
    """All noisy maxima by name, those of imported modules of the user among them."""
    return {name: kind for name, kind in MECHANISMS.items() if issubclass(kind, NoisyMax)}


@dataclass(frozen=True, slots=True)
class Laplace(NoisyMax):
    """Noisy max with Laplace noise on each vote count: the mechanism of the papers.

    Parameters
    ----------
    gamma : float
        Inverse noise scale: each count gets Lap(1 / gamma).
    unit : {"party", "example"}
        Who is protected.
    weight : int
        Number of counts that one voter adds to a class, s in FedKT.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Notes
    -----
    One query is (2 s gamma, 0)-differentially private for a replaced voter (FedKT, Theorem 1), because two counts
    change by s. For an added or removed party one count changes, and epsilon is s gamma.

    Examples
    --------
    >>> DpEvent(Laplace(gamma=0.05), queries=40).pure
    0.1
    >>> DpEvent(Laplace(gamma=0.05, weight=2), queries=40).pure
    0.2
    """

    gamma: Gamma
    unit: Unit = "party"
    weight: Positive = 1
    adjacency: str = "any"
    name = "laplace"

    def protect(self, votes: Array, source: NoiseSource) -> Array:
        return sampler_for(source).laplace_max(votes, 1 / self.gamma)

    def loss(self, event: DpEvent) -> Loss:
        shift = LaplaceShift(self.gamma, event.weight, event.affected_counts, event.is_discrete)
        return Pure(event.affected_counts * event.weight * self.gamma, shift=shift)

    def flips(self, margin: Array, noise: Noise = "simulated") -> Array:
        """Tail of the difference of two Laplace variables (FedKT, Lemma 7).

        Secure noise is two-sided geometric, on whole numbers, and ties are broken at random.
        """
        if noise == "secure":
            tail = self._discrete_tail(np.abs(np.asarray(margin, np.float64)))
        else:
            lead = self.gamma * np.abs(margin)
            tail = (2 + lead) / 4 * np.exp(-lead)
        return np.where(margin > 0, 1 - tail, tail)

    def _discrete_tail(self, lead: Array) -> Array:
        ratio = math.exp(-self.gamma)
        alike = (1 + ratio**2) / (1 - ratio**2)
        scale = ((1 - ratio) / (1 + ratio)) ** 2 * ratio**lead
        tie = scale * (lead + alike)
        beyond = scale * ratio * ((lead + alike + 1) / (1 - ratio) + ratio / (1 - ratio) ** 2)
        return np.asarray(beyond + tie / 2)

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """Union bound of FedKT, Lemma 7 (PATE 2017, Lemma 4).

        q = sum over the other classes of (2 + gamma gap) / (4 exp(gamma gap)). It takes the plain gamma, not s gamma,
        because the gaps already contain s.

        Examples
        --------
        >>> float(np.exp(Laplace(0.1).log_q(np.array([[20, 5]])))[0].round(6))
        0.195239
        """
        if noise == "secure":
            raise UnknownEventError("the data-dependent bound is for continuous Laplace noise, not for discrete")
        gaps = self.gamma * _gaps(votes)
        return np.asarray(special.logsumexp(np.log((2 + gaps) / 4) - gaps, axis=1))


@dataclass(frozen=True, slots=True)
class Gumbel(NoisyMax):
    """Noisy max with Gumbel noise on each vote count: the exponential mechanism.

    Parameters
    ----------
    gamma : float
        Inverse noise scale: each count gets Gumbel(1 / gamma).
    unit : {"party", "example"}
        Who is protected.
    weight : int
        Number of counts that one voter adds to a class, s in FedKT.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Notes
    -----
    One query has a bounded range of 2 s gamma for a replaced voter (Durfee & Rogers 2019), and of s gamma for an added
    or removed party. At the same gamma it is about as accurate as Laplace noise, with a far smaller epsilon.

    Examples
    --------
    >>> DpEvent(Gumbel(gamma=0.05), queries=40).loss
    BoundedRange(epsilon=0.1)
    """

    gamma: Gamma
    unit: Unit = "party"
    weight: Positive = 1
    adjacency: str = "any"
    name = "gumbel"

    def protect(self, votes: Array, source: NoiseSource) -> Array:
        return sampler_for(source).gumbel_max(votes, 1 / self.gamma)

    def loss(self, event: DpEvent) -> Loss:
        return BoundedRange(event.affected_counts * event.weight * self.gamma)

    def flips(self, margin: Array, noise: Noise = "simulated") -> Array:
        """Logistic distribution, which the difference of two Gumbel variables has. Secure noise is exact."""
        return np.asarray(special.expit(self.gamma * margin))

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """Exact probability of the exponential mechanism, 1 - softmax(gamma votes) of the leading class."""
        others = special.logsumexp(-self.gamma * _gaps(votes), axis=1)
        return np.asarray(others - np.logaddexp(0, others))


@dataclass(frozen=True, slots=True)
class Gaussian(NoisyMax):
    """Noisy max with Gaussian noise on each vote count: GNMax (Scalable PATE 2018).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count.
    unit : {"party", "example"}
        Who is protected.
    weight : int
        Number of counts that one voter adds to a class, s in FedKT.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Notes
    -----
    A replaced voter changes two counts by s, so the L2 sensitivity is sqrt(2) s.

    Examples
    --------
    >>> round(Gaussian(sigma=40.0).sensitivity, 4)
    1.4142
    """

    sigma: Sigma
    unit: Unit = "party"
    weight: Positive = 1
    adjacency: str = "any"
    name = "gaussian"

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.weight

    def protect(self, votes: Array, source: NoiseSource) -> Array:
        return sampler_for(source).gaussian_max(votes, self.sigma)

    def loss(self, event: DpEvent) -> Loss:
        return GaussianLoss(event.affected_counts * mu_squared(event.weight, self.sigma), event.is_discrete)

    def flips(self, margin: Array, noise: Noise = "simulated") -> Array:
        if noise == "secure":
            raise UnknownEventError("binary is for continuous Gaussian noise, not for discrete")
        return np.asarray(special.ndtr(margin / (math.sqrt(2) * self.sigma)))

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """Union bound of Scalable PATE 2018, Proposition 7."""
        union = special.logsumexp(special.log_ndtr(-_gaps(votes) / (math.sqrt(2) * self.sigma)), axis=1)
        return np.asarray(np.minimum(union, math.log(1 - 1 / votes.shape[1])))

    def gaussian_terms(self, event: DpEvent, votes: Array) -> list[tuple[Array, float]]:
        return [(self.log_q(votes), event.affected_counts * event.weight**2 / (2 * self.sigma**2))]


@dataclass(frozen=True, slots=True)
class ConfidentGaussian(NoisyMax):
    """Noisy max with Gaussian noise, released only if the voters agree: Confident-GNMax (Scalable PATE 2018).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count.
    check : float
        Standard deviation of the noise on the largest count before it is compared with the threshold.
    threshold : float
        Votes that the leading class needs.
    unit : {"party", "example"}
        Who is protected.
    weight : int
        Number of counts that one voter adds to a class, s in FedKT.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Notes
    -----
    The check has sensitivity s, the answer sqrt(2) s. Every query costs both, whether it is answered or not.

    Examples
    --------
    >>> mechanism = ConfidentGaussian(sigma=10.0, check=20.0, threshold=15.0)
    >>> round(DpEvent(mechanism, queries=1).mu_squared, 6)
    0.0225
    """

    sigma: Sigma
    check: Sigma
    threshold: Annotated[float, Range(allow_inf_nan=False)]
    unit: Unit = "party"
    weight: Positive = 1
    adjacency: str = "any"
    name = "confident-gaussian"

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.weight

    def protect(self, votes: Array, source: NoiseSource) -> Array:
        """Labels of shape (queries,); `UNANSWERED` where the threshold is not reached."""
        sampler = sampler_for(source)
        reached = sampler.gaussian(votes.max(axis=1), self.check) >= self.threshold
        labels = sampler.gaussian_max(votes, self.sigma)
        return np.where(reached, labels, UNANSWERED)

    @classmethod
    def options(cls, scale: float, votes: int) -> Mapping[str, Any]:
        """Twice the noise for the check, and a threshold of 60 % of all votes."""
        return {"check": CHECK * scale, "threshold": AGREEMENT * votes}

    def loss(self, event: DpEvent) -> Loss:
        answer = event.affected_counts * mu_squared(event.weight, self.sigma)
        return GaussianLoss(answer + mu_squared(event.weight, self.check), event.is_discrete)

    def gaussian_terms(self, event: DpEvent, votes: Array) -> list[tuple[Array, float]]:
        reached = special.log_ndtr((votes.max(axis=1) - self.threshold) / self.check)
        missed = special.log_ndtr((self.threshold - votes.max(axis=1)) / self.check)
        checked = (np.minimum(reached, missed), event.weight**2 / (2 * self.check**2))
        return [checked, *Gaussian(self.sigma).gaussian_terms(event, votes)]


@dataclass(frozen=True, slots=True)
class NoisyMedian(_Votes):
    """Median of the voters' numbers from 0 to 1, on a grid, by the exponential mechanism. NaN is no vote.

    Parameters
    ----------
    gamma : float
        Inverse noise scale: a grid point is drawn with probability proportional to exp(gamma quality).
    unit : {"party", "example"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.
    points : int
        Number of grid points between 0 and 1.

    Notes
    -----
    The quality of a point is minus half the absolute difference between the numbers of voters below and above it. A
    replaced voter changes it by at most 1, an added one by 1/2. The bounded range is 2 gamma, or gamma.

    Examples
    --------
    >>> source = NoiseSource("simulated", seed=0, purpose=("prior",))
    >>> NoisyMedian(gamma=20.0, points=9).protect(np.array([0.05, 0.45, 0.48, 0.55, 0.95]), source)
    array([0.5])
    """

    gamma: Gamma
    unit: Unit = "party"
    adjacency: str = "any"
    points: Positive = 49
    name = "noisy-median"

    def protect(self, values: Array, source: NoiseSource) -> Array:
        grid, known = np.arange(1, self.points + 1) / (self.points + 1), values[np.isfinite(values)][:, None]
        lead = (known < grid).sum(axis=0) - (known > grid).sum(axis=0)
        return grid[sampler_for(source).gumbel_max(-np.abs(lead)[None], 2 / self.gamma)]

    def asked(self, values: Array, classes: int) -> int:
        return 1

    def loss(self, event: DpEvent) -> Loss:
        return BoundedRange(event.affected_counts * event.weight * self.gamma)


def _gaps(votes: Array) -> Array:
    """Lead of the leading class over each other class, of shape (queries, classes - 1)."""
    ordered = np.sort(votes, axis=1)
    return np.asarray(ordered[:, -1:] - ordered[:, :-1])
