"""Mechanisms: what is done to a value before it leaves a site, and how much one query then reveals.

A mechanism is a frozen dataclass whose fields are its parameters in the ledger. To add one, subclass `Mechanism` with a
`name` of its own: the class registers itself, so that ledgers can be read and accountants can compose it. Counts are
noised once per query, never again.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field as Range
from scipy import special

from limbeck.errors import LimbeckError
from limbeck.privacy.events import MECHANISMS as MECHANISMS
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.events import Mechanism as Mechanism
from limbeck.privacy.losses import (
    BoundedRange,
    GaussianLoss,
    LaplaceShift,
    Loss,
    NoLoss,
    Pure,
    Subsampled,
    Unbounded,
    mu_squared,
)
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import Noise, NoiseSource, Unit
from limbeck.protocol.rows import UNANSWERED, Array
from limbeck.tables import Above0, Positive, check_fields

Gamma = Annotated[float, Range(gt=0)]  # infinite gamma, or sigma 0, is no noise at all: epsilon is then infinite
Sigma = Annotated[float, Range(ge=0)]
Share = Annotated[float, Range(gt=0, le=1)]


def mechanism_from(name: str, parameters: dict[str, Any]) -> Mechanism:
    if name not in MECHANISMS:
        raise LimbeckError(f"no accountant knows the mechanism {name!r}")
    try:
        return MECHANISMS[name](**parameters)
    except TypeError as error:
        raise LimbeckError(f"the mechanism {name!r} has other parameters than {parameters}") from error


class _Unchanged(Mechanism):
    """The value leaves as it is."""

    __slots__ = ()
    noisy = False
    unit = "any"
    adjacency = "any"

    def protect(self, value: Any, source: NoiseSource) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class PostProcessing(_Unchanged):
    """Computed from public rows and from what this site has already released: nothing new is revealed."""

    name = "post-processing"
    sensitivity = 0.0

    def loss(self, event: DpEvent) -> Loss:
        return NoLoss()


@dataclass(frozen=True, slots=True)
class Unprotected(_Unchanged):
    """Nothing is added: epsilon is infinite towards whoever sees it, under every neighbour relation."""

    name = "unprotected"
    sensitivity = math.inf

    def loss(self, event: DpEvent) -> Loss:
        return Unbounded()


class _Votes(Mechanism):
    """Computed from votes. k rows are in at most k teachers of a partition, and each teacher changes its own vote."""

    __slots__ = ()

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.weight

    def contributions(self, rows: int, voters: int | None) -> int:
        return rows if voters is None else min(rows, max(1, voters))

    def asked(self, votes: Array, classes: int) -> int:
        return _rows_of(votes, classes)


@dataclass(frozen=True, slots=True)
class Laplace(_Votes):
    """Noisy max with Lap(1/gamma) on each count: the papers' mechanism. Pure: 2 s gamma per query."""

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
        """The tail of the difference of two Laplace variables (FedKT, Lemma 7).

        Secure noise is two-sided geometric, on whole numbers, with random ties.
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
        """FedKT, Lemma 7 (PATE 2017, Lemma 4). It takes the plain gamma, because the gaps already contain s."""
        if noise == "secure":
            raise UnknownEventError("the data-dependent bound is for continuous Laplace noise, not for discrete")
        gaps = self.gamma * _gaps(votes)
        return np.asarray(special.logsumexp(np.log((2 + gaps) / 4) - gaps, axis=1))


@dataclass(frozen=True, slots=True)
class Gumbel(_Votes):
    """Noisy max with Gumbel(1/gamma) noise: the exponential mechanism, of bounded range 2 s gamma per query."""

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
        """The difference of two Gumbel variables is logistic; secure noise is exact."""
        return np.asarray(special.expit(self.gamma * margin))

    def log_q(self, votes: Array, noise: Noise = "simulated") -> Array:
        """The exponential mechanism's own probability."""
        others = special.logsumexp(-self.gamma * _gaps(votes), axis=1)
        return np.asarray(others - np.logaddexp(0, others))


@dataclass(frozen=True, slots=True)
class Gaussian(_Votes):
    """GNMax: noisy max with N(0, sigma^2) on each count (Papernot et al. 2018). The L2 sensitivity is sqrt(2) s."""

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
        """Scalable PATE 2018, Proposition 7."""
        union = special.logsumexp(special.log_ndtr(-_gaps(votes) / (math.sqrt(2) * self.sigma)), axis=1)
        return np.asarray(np.minimum(union, math.log(1 - 1 / votes.shape[1])))

    def gaussian_terms(self, event: DpEvent, votes: Array) -> list[tuple[Array, float]]:
        return [(self.log_q(votes), event.affected_counts * event.weight**2 / (2 * self.sigma**2))]


@dataclass(frozen=True, slots=True)
class ConfidentGaussian(_Votes):
    """Confident-GNMax: answer only where the largest count plus N(0, check^2) reaches the threshold.

    The check has sensitivity s, the answer sqrt(2) s. Both are paid for at every query, answered or not.
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
        """Labels; UNANSWERED where the threshold is not reached."""
        sampler = sampler_for(source)
        reached = sampler.gaussian(votes.max(axis=1), self.check) >= self.threshold
        labels = sampler.gaussian_max(votes, self.sigma)
        return np.where(reached, labels, UNANSWERED)

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
    """The median of the voters' numbers from 0 to 1, on a grid, by the exponential mechanism; NaN is no vote.

    The quality of a point is minus half the difference between the numbers of voters on either side of it. A replaced
    voter changes it by at most one, an added one by half: of bounded range 2 gamma, or gamma.
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


class _Scores(Mechanism):
    """Scores of C classes, clipped to [-bound, bound]; NaN counts as 0.

    One row can already change all scores by 2 bound, so more rows of a person change nothing. In a mean of many scores
    a neighbour has only its own `share`.
    """

    __slots__ = ()
    bound: Above0
    classes: Positive
    share: float

    def contributions(self, rows: int, voters: int | None) -> int:
        return 1

    def asked(self, scores: Array, classes: int) -> int:
        return _rows_of(scores, self.classes)

    def _change(self, event: DpEvent, scale: float) -> float:
        """How much one score can change; rounding to the grid of secure noise adds up to half a step on each side."""
        return 2 * self.bound * self.share + event.grid_step(scale)


@dataclass(frozen=True, slots=True)
class ClippedGaussian(_Scores):
    """Clipped scores with N(0, sigma^2) on each: one neighbour can change all C scores of a row."""

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
class LaplaceLogits(_Scores):
    """FedKD's Equation 2: clipped scores, or a mean of such, with Lap(1/gamma) on each.

    Pure: 2 bound share gamma for each of the C scores, at every query. At the paper's gamma that is no protection.
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
    """A sum of vectors, one per contributor, with N(0, sigma^2) on each of its `size` numbers.

    `l2_sensitivity` bounds the change when one contributor is replaced or removed.
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
            raise LimbeckError(f"a sum of {self.size} numbers was described, but there are {sums.size}")
        return 1

    def loss(self, event: DpEvent) -> Loss:
        rounding = event.grid_step(self.sigma) * math.sqrt(self.size)  # a sum is rounded once
        change = event.contributions * self.l2_sensitivity + rounding
        return GaussianLoss(mu_squared(change, self.sigma), event.is_discrete)


@dataclass(frozen=True, slots=True)
class LaplaceCounts(Mechanism):
    """How many rows of each class a party has, with Lap(1/gamma) on each: a replaced row changes two counts by one."""

    gamma: Gamma
    unit: Literal["example"] = "example"  # a party can change every count by all its rows
    adjacency: str = "any"
    name = "laplace-counts"
    sensitivity = 2.0

    def protect(self, counts: Array, source: NoiseSource) -> Array:
        return sampler_for(source).laplace(counts, 1 / self.gamma)

    def asked(self, counts: Array, classes: int) -> int:
        return _rows_of(counts, classes)

    def loss(self, event: DpEvent) -> Loss:
        return Pure(event.affected_counts * event.weight * self.gamma)


@dataclass(frozen=True, slots=True)
class Subsample(Mechanism):
    """Noise-free: one random subset of the private rows, `rows` of at least `of`, is all that is ever learned from.

    Towards whoever could see the subset, delta is never below 1/n: a sampled row may be exposed completely. It limits
    how many rows are exposed, not whether a sampled one is.
    """

    rows: Positive
    of: Positive
    replacement: bool = True
    unit: Unit = "example"
    adjacency: str = "any"
    name = "subsample"
    secret = True
    sensitivity = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.replacement and self.rows > self.of:
            raise LimbeckError(f"cannot draw {self.rows} of {self.of} rows without replacement")

    def protect(self, rows: Array, source: NoiseSource) -> Array:
        return rows[sampler_for(source).subset(len(rows), self.rows, self.replacement)]

    def asked(self, rows: Array, classes: int) -> int:
        if len(rows) < self.of:  # of more rows each is drawn less often, so the guarantee holds
            raise LimbeckError(f"a subsample of {self.of} rows was described, but there are {len(rows)}")
        return 1

    def loss(self, event: DpEvent) -> Loss:
        return Subsampled(*self.guarantee(event.rows))

    def curve(self, epsilon: float, group: int = 1) -> float:
        """The exact delta at an epsilon from 0, seen directly: removed rows were in the subset, or they were not.

        For replaced rows it is the probability that one of them was drawn, at every epsilon.
        """
        gained, delta = self.guarantee(group)
        return delta if self.adjacency == "replace" else max(delta, 1 - math.exp(epsilon - gained))

    def guarantee(self, group: int = 1) -> tuple[float, float]:
        """(epsilon, delta) for the `group` rows of one person, added or removed (FedMD-NFDP, Theorems 1 and 2).

        Let k of n rows be drawn, and g of them be one person's. A subset with a row of theirs has probability 0 without
        that person, so delta is the probability of such a subset: 1 - (1 - g/n)^k with replacement,
        1 - C(n-g, k) / C(n, k) without. All other subsets are equally likely, with and without the person. Where
        g rows join n, each of them becomes less likely by the factor e^epsilon: ((n+g) / n)^k, or
        C(n+g, k) / C(n, k). Where g rows leave n, it becomes more likely by 1 / (1 - delta). Delta covers that too:
        1 - e^epsilon (1 - delta) <= delta.
        """
        if self.replacement:
            missed = self.rows * math.log1p(-group / self.of) if group < self.of else -math.inf
            return self.rows * math.log1p(group / self.of), -math.expm1(missed)
        choices = self.of - np.arange(self.rows)  # rows to choose from at each draw
        missed = float(np.log1p(-group / choices).sum()) if group <= self.of - self.rows else -math.inf
        return float(np.log1p(group / choices).sum()), -math.expm1(missed)


def clipped(scores: Array, bound: float) -> Array:
    """Scores in [-bound, bound]; NaN counts as 0."""
    numbers = np.nan_to_num(scores, nan=0.0, posinf=bound, neginf=-bound)
    return np.asarray(np.clip(numbers, -bound, bound))


def _rows_of(counts: Array, classes: int) -> int:
    """A row per query, a column per class."""
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise LimbeckError(f"{classes} columns of counts are noised, not {counts.shape}")
    return len(counts)


def _gaps(votes: Array) -> Array:
    """By how much the leading class leads each other one."""
    ordered = np.sort(votes, axis=1)
    return np.asarray(ordered[:, -1:] - ordered[:, :-1])
