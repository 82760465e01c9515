"""The planner: what an algorithm's `privacy` table asks for, and how much noise an epsilon takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from scipy import optimize

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon, check_delta
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.events import Adjacency, Spend, check_rows_per_person
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    GaussianSum,
    Gumbel,
    Laplace,
    check_scale,
)
from limbeck.protocol.release import Asked, Noise, Unit

Level = Literal["L0", "L1", "L2"]
NoisyMaxName = Literal["gumbel", "laplace", "gaussian", "confident-gaussian"]
CHECK = 2.0  # of Confident-GNMax: how many times the answer's noise its check has, unless told
AGREEMENT = 0.6  # of Confident-GNMax: the share of all votes that the leading class needs, unless told
MOST_NOISE = 30.0  # its logarithm over a first guess, beyond which nothing is left to hear
CLOSE = 1e-3  # how near calibrated noise comes to what would just do


@dataclass(frozen=True, slots=True)
class Privacy:
    """`[algorithm.privacy]`: L0 is none, L1 protects a party by the server's noise, L2 an example by its party's.

    Give `gamma` (laplace, gumbel), `sigma` (gaussian, confident-gaussian), or `epsilon`: then the noise is calibrated
    to it, towards the public. `adjacency` add-remove assigns rows to teachers by a keyed hash of the row. At L2 epsilon
    is for a person with up to `rows_per_person` rows in one party; at L1 a whole party is protected, with all its rows.
    """

    level: Level = "L0"
    mechanism: NoisyMaxName = "gumbel"
    gamma: float | None = None
    sigma: float | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    check: float | None = None  # confident-gaussian: the noise of its check
    threshold: float | None = None  # confident-gaussian: votes that the leading class needs
    adjacency: Adjacency = "replace"
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_rows_per_person(self.rows_per_person)
        if self.rows_per_person > 1 and self.level != "L2":
            why = "L1 protects a party with all its rows" if self.level == "L1" else "L0 protects nothing"
            raise LimbeckError(f"rows_per_person = {self.rows_per_person} is for level L2: {why}")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise LimbeckError(f"epsilon must be above 0 and finite, not {self.epsilon:g}")
        wanted, other = ("sigma", "gamma") if self._is_gaussian else ("gamma", "sigma")
        if getattr(self, other) is not None:
            raise LimbeckError(f"{self.mechanism} takes {wanted}, not {other}")
        for name in (wanted, "check"):
            if (value := getattr(self, name)) is not None:
                check_scale(name, value)
        if self.sigma == math.inf:
            raise LimbeckError("sigma must be finite: infinite noise leaves nothing to hear")
        if self.level != "L0" and (getattr(self, wanted) is None) == (self.epsilon is None):
            raise LimbeckError(f"level {self.level} with {self.mechanism} needs one of {wanted} and epsilon")
        if self.mechanism != "confident-gaussian" and (self.check or self.threshold) is not None:
            raise LimbeckError(f"check and threshold are for confident-gaussian, not for {self.mechanism}")

    @property
    def left_to_chance(self) -> float:
        """The delta of an algorithm at this level: 0 where nothing is noised."""
        return 0.0 if self.level == "L0" else self.delta

    @property
    def _is_gaussian(self) -> bool:
        return self.mechanism in ("gaussian", "confident-gaussian")

    def noisy_max(
        self, unit: Unit, weight: int, asked: Asked, beside: tuple[Spend, ...] = (), whole: bool = True
    ) -> Any:
        """The mechanism for these queries, which may not be all that is spent, nor of whole votes."""
        if self.epsilon is not None:
            return calibrated(self, unit, weight, asked, beside, whole)
        return self._mechanism(float(self.sigma or self.gamma or 0), unit, weight, asked, whole)

    def _mechanism(self, scale: float, unit: Unit, weight: int, asked: Asked, whole: bool) -> Any:
        match self.mechanism:
            case "laplace":
                return Laplace(scale, unit, weight, self._relation(unit))
            case "gumbel":
                return Gumbel(scale, unit, weight, self._relation(unit))
            case "gaussian":
                return Gaussian(scale, unit, weight, self._relation(unit), whole)
        threshold = AGREEMENT * (asked.voters or 0) * weight if self.threshold is None else self.threshold
        return ConfidentGaussian(scale, self.check or CHECK * scale, threshold, unit, weight, self._relation(unit))

    def _relation(self, unit: Unit) -> str:
        return "any" if unit == "party" else self.adjacency


L0 = Privacy()


@lru_cache(maxsize=256)
def calibrated(
    privacy: Privacy, unit: Unit, weight: int, asked: Asked, beside: tuple[Spend, ...] = (), whole: bool = True
) -> Any:
    """The least noise that keeps to `privacy.epsilon`, with what is spent beside, for a person's rows together."""
    known = (asked.classes, asked.voters, asked.abstentions, asked.noise, privacy.rows_per_person)
    others = _for_people(beside, privacy.rows_per_person)

    def mechanism(x: float) -> Any:
        scale = math.exp(x if privacy._is_gaussian else -x)
        return privacy._mechanism(scale, unit, weight, asked, whole)

    def spend(x: float) -> Spend:
        return Spend(mechanism(x), asked.queries, "replace", *known)

    def excess(x: float) -> float:
        spent = best_epsilon([spend(x), *others], privacy.delta)[0]
        return math.log(spent + 1e-12) - math.log(float(privacy.epsilon or 0))

    told = f"{asked.queries} queries to epsilon = {privacy.epsilon:g}"
    return mechanism(_least_noise(excess, math.log(spend(0.0).weight * math.sqrt(asked.queries)), told))


@lru_cache(maxsize=256)
def clipped_gaussian(
    bound: float,
    sigma: float | None,
    epsilon: float | None,
    delta: float,
    asked: Asked,
    beside: tuple[Spend, ...] = (),
    rows: int = 1,
) -> ClippedGaussian:
    """Noise on all clipped scores of a run: of scale `sigma`, or the least that keeps them, and what is spent
    `beside`, to `epsilon`.

    One row may already move every score across the whole range: `rows` of one person cost more only in what is beside.
    """
    check_delta(delta)
    beside = _for_people(beside, rows)
    if sigma is not None:
        return ClippedGaussian(bound, sigma, asked.classes)
    if epsilon is None or not 0 < epsilon < math.inf:
        raise LimbeckError(f"epsilon must be above 0 and finite, not {epsilon}")

    def excess(x: float) -> float:
        spend = Spend(ClippedGaussian(bound, math.exp(x), asked.classes), asked.queries, noise=asked.noise)
        return best_epsilon([spend, *beside], delta)[0] - epsilon

    if beside and (spent := best_epsilon(beside, delta)[0]) >= epsilon:
        raise LimbeckError(f"epsilon = {epsilon:g}: {beside[0].mechanism.name} alone takes {spent:.3g}")
    first = math.log(2 * bound * math.sqrt(asked.classes * asked.queries))
    found = _least_noise(excess, first, f"{asked.queries} scores to epsilon = {epsilon:g}")
    return ClippedGaussian(bound, math.exp(found), asked.classes)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """What sensitivity over noise just keeps Gaussian noise to an epsilon."""
    return float(optimize.brentq(lambda mu: gaussian_epsilon(mu, delta) - epsilon, 1e-9, 10 + 10 * math.sqrt(epsilon)))


@lru_cache(maxsize=256)
def gaussian_sums(
    epsilon: float,
    delta: float,
    parts: tuple[tuple[float, GaussianSum], ...],
    beside: tuple[Any, ...],
    noise: Noise,
    rows: int = 1,
) -> tuple[GaussianSum, ...]:
    """Sums with the least noise that keeps them all, and the queries `beside` them, to an epsilon.

    Each has its share of what Gaussian noise may tell, mu^2; what `sigma` they come with is left aside. The epsilon is
    for a person with up to `rows` rows.
    """
    check_delta(delta)

    def noised(x: float) -> tuple[GaussianSum, ...]:
        return tuple(replace(part, sigma=part.apart / math.sqrt(share) * math.exp(x)) for share, part in parts)

    def excess(x: float) -> float:
        spends = [Spend(mechanism, 1, noise=noise, rows=rows) for mechanism in (*beside, *noised(x))]
        return best_epsilon(spends, delta)[0] - epsilon

    return noised(_least_noise(excess, math.log(rows), f"what is asked to epsilon = {epsilon:g}"))


def _for_people(spends: tuple[Spend, ...], rows: int) -> tuple[Spend, ...]:
    """What is spent, for a person with at least so many rows."""
    return tuple(replace(spend, rows=max(rows, spend.rows)) for spend in spends)


def _least_noise(excess: Callable[[float], float], first: float, told: str) -> float:
    """The logarithm of the least noise, found from a first guess on, that leaves no excess; it falls with noise."""
    low = high = first
    while excess(high) > 0:
        high += 1
        if high > first + MOST_NOISE:
            raise LimbeckError(f"no noise keeps {told}")
    while excess(low) <= 0:
        low -= 1
    found = float(optimize.brentq(excess, low, high, xtol=CLOSE / 4, rtol=1e-8))
    while excess(found) > 0:
        found += CLOSE / 2
    return found
