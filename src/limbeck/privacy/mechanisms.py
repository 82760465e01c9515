"""Mechanisms: what is done to a value before it leaves a site, and what one neighbour can change in it.

A mechanism is a frozen description. `unit` says who a neighbour is, one example or one party; `weight` how much of a
count is its own (s students of a party vote together), `adjacency` which neighbour relation the way that the counts
were made allows for: replace, add-remove, or any. Counts are noised once per query, never again.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import special

from limbeck.errors import LimbeckError
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import Chance, Unit
from limbeck.protocol.rows import Array

T = TypeVar("T")
UNANSWERED = -1  # the label of a query that Confident-GNMax leaves open


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """Made of public rows and of what this site has already released: nothing more is told (post-processing)."""

    name: ClassVar[str] = "nothing-private"
    noisy: ClassVar[bool] = False
    unit: ClassVar[str] = "any"
    adjacency: ClassVar[str] = "any"
    sensitivity: ClassVar[float] = 0.0

    def protect(self, value: T, chance: Chance) -> T:
        return value

    def asked(self, value: object, classes: int) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Nothing is added: epsilon is infinite towards whoever sees it, under every neighbour relation."""

    name: ClassVar[str] = "unprotected"
    noisy: ClassVar[bool] = False
    unit: ClassVar[str] = "any"
    adjacency: ClassVar[str] = "any"
    sensitivity: ClassVar[float] = math.inf

    def protect(self, value: T, chance: Chance) -> T:
        return value

    def asked(self, value: object, classes: int) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Laplace:
    """Noisy max with Lap(1/gamma) on each count: the papers' mechanism. Pure: 2 s gamma a query."""

    gamma: float
    unit: Unit = "party"
    weight: int = 1
    adjacency: str = "any"
    name: ClassVar[str] = "laplace"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("gamma", self.gamma)

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.weight

    def protect(self, votes: Array, chance: Chance) -> Array:
        return sampler_for(chance).laplace_max(votes, 1 / self.gamma)

    def asked(self, votes: Array, classes: int) -> int:
        return _rows_of(votes, classes)

    def flips(self, margin: Array) -> Array:
        """With two classes: how likely the second is published when it leads by `margin`.

        The difference of two Laplace variables; Lemma 7 of FedKT is its tail.
        """
        lead = self.gamma * np.abs(margin)
        tail = (2 + lead) / 4 * np.exp(-lead)
        return np.where(margin > 0, 1 - tail, tail)

    def discrete_flips(self, margin: Array) -> Array:
        """The same for two-sided geometric noise on whole numbers, ties at random."""
        ratio = math.exp(-self.gamma)
        lead = np.abs(np.asarray(margin, np.float64))
        alike = (1 + ratio**2) / (1 - ratio**2)
        scale = ((1 - ratio) / (1 + ratio)) ** 2 * ratio**lead
        tie = scale * (lead + alike)
        beyond = scale * ratio * ((lead + alike + 1) / (1 - ratio) + ratio / (1 - ratio) ** 2)
        tail = beyond + tie / 2
        return np.where(margin > 0, 1 - tail, tail)


@dataclass(frozen=True, slots=True)
class Gumbel:
    """Noisy max with Gumbel(1/gamma) noise: the exponential mechanism, of bounded range 2 s gamma a query."""

    gamma: float
    unit: Unit = "party"
    weight: int = 1
    adjacency: str = "any"
    name: ClassVar[str] = "gumbel"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("gamma", self.gamma)

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.weight

    def protect(self, votes: Array, chance: Chance) -> Array:
        return sampler_for(chance).gumbel_max(votes, 1 / self.gamma)

    def asked(self, votes: Array, classes: int) -> int:
        return _rows_of(votes, classes)

    def flips(self, margin: Array) -> Array:
        """The difference of two Gumbel variables is logistic."""
        return np.asarray(special.expit(self.gamma * margin))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """GNMax: noisy max with N(0, sigma^2) on each count (Papernot et al. 2018); L2 sensitivity sqrt(2) s.

    Counts are `whole`, or sums of votes that are soft or weighed.
    """

    sigma: float
    unit: Unit = "party"
    weight: int = 1
    adjacency: str = "any"
    whole: bool = True
    name: ClassVar[str] = "gaussian"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma, least=0.0)

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.weight

    def protect(self, votes: Array, chance: Chance) -> Array:
        return sampler_for(chance).gaussian_max(votes, self.sigma)

    def asked(self, votes: Array, classes: int) -> int:
        return _rows_of(votes, classes)

    def flips(self, margin: Array) -> Array:
        return np.asarray(special.ndtr(margin / (math.sqrt(2) * self.sigma)))


@dataclass(frozen=True, slots=True)
class ConfidentGaussian:
    """Confident-GNMax: answer only where the largest count plus N(0, check^2) reaches the threshold.

    The check has sensitivity s, the answer sqrt(2) s; both are paid for at every query, answered or not.
    """

    sigma: float
    check: float
    threshold: float
    unit: Unit = "party"
    weight: int = 1
    adjacency: str = "any"
    name: ClassVar[str] = "confident-gaussian"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma, least=0.0)
        check_scale("check", self.check, least=0.0)
        if not math.isfinite(self.threshold):
            raise LimbeckError(f"threshold must be a number of votes, not {self.threshold}")

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.weight

    def protect(self, votes: Array, chance: Chance) -> Array:
        """Labels; UNANSWERED where the threshold is not reached."""
        sampler = sampler_for(chance)
        reached = sampler.gaussian(votes.max(axis=1), self.check) >= self.threshold
        labels = sampler.gaussian_max(votes, self.sigma)
        return np.where(reached, labels, UNANSWERED)

    def asked(self, votes: Array, classes: int) -> int:
        return _rows_of(votes, classes)


@dataclass(frozen=True, slots=True)
class ClippedGaussian:
    """Scores clipped to [-bound, bound] with N(0, sigma^2) on each: one neighbour may move all C scores of a row.

    Of a mean of many such scores a neighbour moves its own `share` only. What is no number counts as 0.
    """

    bound: float
    sigma: float
    classes: int
    unit: Unit = "example"
    adjacency: str = "any"
    share: float = 1.0
    name: ClassVar[str] = "clipped-gaussian"
    gives: ClassVar[str] = "scores"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma, least=0.0)
        check_scale("bound", self.bound)
        check_scores(self.bound, self.classes, self.share)

    @property
    def sensitivity(self) -> float:
        return 2 * self.bound * self.share * math.sqrt(self.classes)

    def protect(self, scores: Array, chance: Chance) -> Array:
        return sampler_for(chance).gaussian(clipped(scores, self.bound), self.sigma)

    def asked(self, scores: Array, classes: int) -> int:
        return _rows_of(scores, self.classes)


@dataclass(frozen=True, slots=True)
class LaplaceLogits:
    """FedKD's Equation 2: clipped scores, or a mean of such, with Lap(1/gamma) on each.

    One neighbour may move each of a row's C scores by 2 bound times its `share` of the mean. Pure: as much times gamma,
    added up over the classes, at every query; at the paper's gamma that is no protection.
    """

    bound: float
    gamma: float
    classes: int
    unit: Unit = "example"
    adjacency: str = "any"
    share: float = 1.0
    name: ClassVar[str] = "laplace-logits"
    gives: ClassVar[str] = "scores"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("gamma", self.gamma)
        check_scores(self.bound, self.classes, self.share)

    @property
    def sensitivity(self) -> float:
        return 2 * self.bound * self.share * self.classes

    def protect(self, scores: Array, chance: Chance) -> Array:
        return sampler_for(chance).laplace(clipped(scores, self.bound), 1 / self.gamma)

    def asked(self, scores: Array, classes: int) -> int:
        return _rows_of(scores, self.classes)


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """A sum of what voters say, each a vector, with N(0, sigma^2) on each of its `size` numbers.

    No two words, and no word and silence, lie further than `apart` from one another.
    """

    apart: float
    sigma: float
    size: int
    unit: Unit = "party"
    adjacency: str = "any"
    name: ClassVar[str] = "gaussian-sum"
    gives: ClassVar[str] = "sums"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma, least=0.0)
        check_scale("apart", self.apart)
        if not math.isfinite(self.apart) or self.size < 1:
            raise LimbeckError(f"apart must be finite and size at least 1, not {self.apart} and {self.size}")

    @property
    def sensitivity(self) -> float:
        return self.apart

    def protect(self, sums: Array, chance: Chance) -> Array:
        return sampler_for(chance).gaussian(np.asarray(sums, np.float64), self.sigma)

    def asked(self, sums: Array, classes: int) -> int:
        if sums.size != self.size:
            raise LimbeckError(f"a sum of {self.size} numbers was described, but there are {sums.size}")
        return 1


@dataclass(frozen=True, slots=True)
class GaussianCounts(GaussianSum):
    """The same of rows by class."""

    gives: ClassVar[str] = "counts"


@dataclass(frozen=True, slots=True)
class NoisyMedian:
    """The median of the voters' numbers from 0 to 1, on a grid, by the exponential mechanism; NaN is no vote.

    A point is as good as minus half of how many more voters lie on one side of it than on the other. A replaced voter
    moves that by one at most, an added one by half: of bounded range 2 gamma, or gamma.
    """

    gamma: float
    unit: Unit = "party"
    adjacency: str = "any"
    points: int = 49
    name: ClassVar[str] = "noisy-median"
    gives: ClassVar[str] = "median"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("gamma", self.gamma)

    @property
    def sensitivity(self) -> float:
        return 2.0

    def protect(self, values: Array, chance: Chance) -> Array:
        grid, told = np.arange(1, self.points + 1) / (self.points + 1), values[np.isfinite(values)][:, None]
        lead = (told < grid).sum(axis=0) - (told > grid).sum(axis=0)
        return grid[sampler_for(chance).gumbel_max(-np.abs(lead)[None], 2 / self.gamma)]

    def asked(self, values: Array, classes: int) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class LaplaceCounts:
    """How many rows of each class a party holds, with Lap(1/gamma) on each: a replaced row moves two counts by one."""

    gamma: float
    unit: Unit = "example"
    adjacency: str = "any"
    name: ClassVar[str] = "laplace-counts"
    gives: ClassVar[str] = "counts"
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_scale("gamma", self.gamma)
        if self.unit != "example":
            raise LimbeckError("laplace-counts protects an example: a party may move every count by all its rows")

    @property
    def sensitivity(self) -> float:
        return 2.0

    def protect(self, counts: Array, chance: Chance) -> Array:
        return sampler_for(chance).laplace(counts, 1 / self.gamma)

    def asked(self, counts: Array, classes: int) -> int:
        return _rows_of(counts, classes)


@dataclass(frozen=True, slots=True)
class Subsample:
    """Noise-free: one random subset of the private rows, `rows` of at least `of`, is all that is ever learned from.

    Towards whoever could see the subset, delta is never below 1/n: a sampled row may be exposed completely. It limits
    how many rows are exposed, not whether a sampled one is.
    """

    rows: int
    of: int
    replacement: bool = True
    unit: Unit = "example"
    adjacency: str = "any"
    name: ClassVar[str] = "subsample"
    gives: ClassVar[str] = "rows"
    noisy: ClassVar[bool] = True
    secret: ClassVar[bool] = True  # which rows were drawn is written down nowhere

    def __post_init__(self) -> None:
        if not self.rows >= 1 or self.of < 1 or (not self.replacement and self.rows > self.of):
            how = "with" if self.replacement else "without"
            raise LimbeckError(f"cannot draw {self.rows} of {self.of} rows {how} replacement")

    @property
    def sensitivity(self) -> float:
        return 1.0

    def protect(self, rows: Array, chance: Chance) -> Array:
        return rows[sampler_for(chance).subset(len(rows), self.rows, self.replacement)]

    def asked(self, rows: Array, classes: int) -> int:
        if len(rows) < self.of:  # of more rows each is drawn less often: the guarantee holds all the more
            raise LimbeckError(f"a subsample of {self.of} rows was described, but there are {len(rows)}")
        return 1

    def curve(self, epsilon: float, group: int = 1) -> float:
        """The exact delta at an epsilon from 0, seen directly: removed rows were in the subset, or they were not.

        Of replaced rows it is the probability that one of them was drawn, whatever epsilon is.
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
        left = self.of - np.arange(self.rows)  # rows to choose from at each draw
        missed = float(np.log1p(-group / left).sum()) if group <= self.of - self.rows else -math.inf
        return float(np.log1p(group / left).sum()), -math.expm1(missed)


PARTS = (
    *(Laplace, Gumbel, Gaussian, ConfidentGaussian, ClippedGaussian, LaplaceLogits, LaplaceCounts),
    *(GaussianSum, NoisyMedian, Subsample, Unprotected, PostProcessing),
)
MECHANISMS: dict[str, Any] = {kind.name: kind for kind in PARTS}


def mechanism_from(name: str, parameters: dict[str, Any]) -> Any:
    if name not in MECHANISMS:
        raise LimbeckError(f"no accountant knows the mechanism {name!r}")
    try:
        return MECHANISMS[name](**parameters)
    except TypeError as error:
        raise LimbeckError(f"the mechanism {name!r} has other parameters than {parameters}") from error


def _rows_of(counts: Array, classes: int) -> int:
    """A row a query, a column a class."""
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise LimbeckError(f"{classes} columns of counts are noised, not {counts.shape}")
    return len(counts)


def clipped(scores: Array, bound: float) -> Array:
    """Scores in [-bound, bound]; what is no number counts as 0."""
    numbers = np.nan_to_num(scores, nan=0.0, posinf=bound, neginf=-bound)
    return np.asarray(np.clip(numbers, -bound, bound))


def check_scores(bound: float, classes: int, share: float) -> None:
    check_scale("bound", bound)
    if not math.isfinite(bound) or classes < 1 or not 0 < share <= 1:
        raise LimbeckError(
            f"bound must be finite, classes at least 1 and share in (0, 1], not {bound}, {classes} and {share}"
        )


def check_scale(name: str, value: float, least: float | None = None) -> None:
    """Noise scales are positive; infinite gamma or zero sigma is no noise at all, and epsilon is then infinite."""
    if math.isnan(value) or value < 0 or (least is None and value == 0):
        raise LimbeckError(f"{name} must be above 0, not {value:g}")
