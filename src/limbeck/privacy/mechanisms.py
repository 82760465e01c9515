"""Mechanisms: how a value is protected before it leaves a site, and the privacy loss of one query.

A mechanism is a frozen dataclass whose fields are its parameters in the ledger. To add one, subclass `Mechanism` with a
`name` of its own. The class registers itself, so that ledgers can be read and accountants can compose it. Counts get
noise once per query, never again.
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

Gamma = Annotated[float, Range(gt=0)]  # an infinite gamma, or a sigma of 0, adds no noise: epsilon is infinite
Sigma = Annotated[float, Range(ge=0)]
Share = Annotated[float, Range(gt=0, le=1)]


def mechanism_from(name: str, parameters: dict[str, Any]) -> Mechanism:
    """Mechanism of a ledger row.

    Parameters
    ----------
    name : str
        Name of the mechanism.
    parameters : dict
        Its fields.

    Returns
    -------
    Mechanism
        The mechanism.

    Raises
    ------
    LimbeckError
        If no mechanism has this name, or if it has other parameters.

    Examples
    --------
    >>> mechanism_from("gumbel", {"gamma": 0.05})
    Gumbel(gamma=0.05, unit='party', weight=1, adjacency='any')
    """
    if name not in MECHANISMS:
        raise LimbeckError(f"unknown mechanism {name!r}; known: {', '.join(sorted(MECHANISMS))}")
    try:
        return MECHANISMS[name](**parameters)
    except TypeError as error:
        raise LimbeckError(f"the mechanism {name!r} has other parameters than {parameters}") from error


class _Unchanged(Mechanism):
    """A mechanism that does not change the value."""

    __slots__ = ()
    noisy = False
    unit = "any"
    adjacency = "any"

    def protect(self, value: Any, source: NoiseSource) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class PostProcessing(_Unchanged):
    """No noise, because the value is computed from public rows and earlier releases of this site. Epsilon is 0.

    Examples
    --------
    >>> PostProcessing().loss(DpEvent(PostProcessing(), queries=1))
    NoLoss()
    """

    name = "post-processing"
    sensitivity = 0.0

    def loss(self, event: DpEvent) -> Loss:
        return NoLoss()


@dataclass(frozen=True, slots=True)
class Unprotected(_Unchanged):
    """No noise: epsilon is infinite towards whoever sees the value, under every neighbour relation.

    It takes no parameters.

    Examples
    --------
    >>> Unprotected().protect([1, 2], NoiseSource("simulated", seed=0, purpose=("labels",)))
    [1, 2]
    >>> DpEvent(Unprotected(), queries=1).is_unprotected
    True
    """

    name = "unprotected"
    sensitivity = math.inf

    def loss(self, event: DpEvent) -> Loss:
        return Unbounded()


class _Votes(Mechanism):
    """Computed from votes. k rows are in at most k subsets of a partition, so they change at most k teachers' votes."""

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
class Gumbel(_Votes):
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
class Gaussian(_Votes):
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
class ConfidentGaussian(_Votes):
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


class _Scores(Mechanism):
    """Scores of C classes, clipped to [-bound, bound]; NaN counts as 0.

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
        return _rows_of(scores, self.classes)

    def _change(self, event: DpEvent, scale: float) -> float:
        """Largest change of one score. Rounding to the grid of secure noise adds up to half a step on each side."""
        return 2 * self.bound * self.share + event.grid_step(scale)


@dataclass(frozen=True, slots=True)
class ClippedGaussian(_Scores):
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
class LaplaceLogits(_Scores):
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
        return _rows_of(counts, classes)

    def loss(self, event: DpEvent) -> Loss:
        return Pure(event.affected_counts * event.weight * self.gamma)


@dataclass(frozen=True, slots=True)
class Subsample(Mechanism):
    """One random subset of the private rows, without noise: no other row is ever used (FedMD-NFDP).

    Parameters
    ----------
    rows : int
        Number of rows that are drawn, k.
    of : int
        Least number of rows that they are drawn from, n.
    replacement : bool
        Whether a row can be drawn more than once.
    unit : {"example", "party"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Raises
    ------
    LimbeckError
        If more rows than there are would be drawn without replacement.

    Notes
    -----
    Delta is never below 1/n, because a sampled row may be exposed completely. The mechanism limits how many rows are
    exposed, not whether a sampled row is exposed. `guarantee` has the formulas.

    Examples
    --------
    >>> epsilon, delta = Subsample(rows=60, of=300).guarantee()
    >>> round(epsilon, 4), round(delta, 4)
    (0.1997, 0.1815)
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
        if len(rows) < self.of:  # with more rows each is drawn with a smaller probability, so the guarantee holds
            raise LimbeckError(f"{self.name} is declared for at least {self.of} rows, but there are {len(rows)}")
        return 1

    def loss(self, event: DpEvent) -> Loss:
        return Subsampled(*self.guarantee(event.rows))

    def curve(self, epsilon: float, group: int = 1) -> float:
        """Exact delta at a given epsilon, towards an observer who sees the subset itself.

        For replaced rows it is the probability that at least one of them was drawn, at every epsilon.

        Parameters
        ----------
        epsilon : float
            Epsilon, from 0.
        group : int
            Number of rows of one person.

        Returns
        -------
        float
            Delta.
        """
        gained, delta = self.guarantee(group)
        return delta if self.adjacency == "replace" else max(delta, 1 - math.exp(epsilon - gained))

    def guarantee(self, group: int = 1) -> tuple[float, float]:
        """Epsilon and delta for the rows of one person, added or removed (FedMD-NFDP, Theorems 1 and 2).

        Parameters
        ----------
        group : int
            Number of rows of one person.

        Returns
        -------
        (float, float)
            Epsilon and delta.

        Notes
        -----
        Let k of n rows be drawn, and let g of the n rows belong to one person. A subset with one of these g rows has
        probability 0 without this person. Delta is the probability of such a subset: 1 - (1 - g/n)^k with replacement,
        1 - C(n-g, k) / C(n, k) without. All other subsets are equally likely, with and without the person.

        If g rows are added to n, each other subset becomes less likely by the factor e^epsilon, which is ((n+g) / n)^k
        with replacement and C(n+g, k) / C(n, k) without. If g of n rows are removed, it becomes more likely by the
        factor 1 / (1 - delta). Delta covers this case too: 1 - e^epsilon (1 - delta) <= delta.
        """
        if self.replacement:
            missed = self.rows * math.log1p(-group / self.of) if group < self.of else -math.inf
            return self.rows * math.log1p(group / self.of), -math.expm1(missed)
        choices = self.of - np.arange(self.rows)  # rows that are left at each draw
        missed = float(np.log1p(-group / choices).sum()) if group <= self.of - self.rows else -math.inf
        return float(np.log1p(group / choices).sum()), -math.expm1(missed)


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


def _rows_of(counts: Array, classes: int) -> int:
    """Number of queries of an array with one row per query and one column per class."""
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise LimbeckError(f"a value needs one row per query and {classes} columns, not the shape {counts.shape}")
    return len(counts)


def _gaps(votes: Array) -> Array:
    """Lead of the leading class over each other class, of shape (queries, classes - 1)."""
    ordered = np.sort(votes, axis=1)
    return np.asarray(ordered[:, -1:] - ordered[:, :-1])
