"""Calibration: what an algorithm's `privacy` table asks for, and how much noise an epsilon needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from threading import RLock
from typing import Literal, ParamSpec, TypeVar, cast

from scipy import optimize

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon
from limbeck.privacy.events import Adjacency, DpEvent
from limbeck.privacy.mechanisms import ClippedGaussian, ConfidentGaussian, Gamma, GaussianSum, Mechanism, mechanism_from
from limbeck.protocol.release import Asked, Noise, Unit
from limbeck.tables import Above0, Delta, RowsPerPerson, check_fields

P = ParamSpec("P")
T = TypeVar("T")
Level = Literal["L0", "L1", "L2"]
NoisyMaxName = Literal["gumbel", "laplace", "gaussian", "confident-gaussian"]
CHECK = 2.0  # of Confident-GNMax: how many times the answer's noise its check has, unless given
AGREEMENT = 0.6  # of Confident-GNMax: the share of all votes that the leading class needs, unless given
MAX_NOISE = 30.0  # its logarithm over a first guess, beyond which no signal is left
CLOSE = 1e-3  # how close calibrated noise comes to the least that suffices


@dataclass(frozen=True, slots=True)
class Privacy:
    """`[algorithm.privacy]`: L0 is none, L1 protects a party by the server's noise, L2 an example by its party's.

    Give `gamma` (laplace, gumbel), `sigma` (gaussian, confident-gaussian), or `epsilon`: then the noise is calibrated
    to it, towards the public. `adjacency` add-remove assigns rows to teachers by a keyed hash of the row. At L2 epsilon
    is for a person with up to `rows_per_person` rows in one party; at L1 a whole party is protected, with all its rows.
    """

    level: Level = "L0"
    mechanism: NoisyMaxName = "gumbel"
    gamma: Gamma | None = None
    sigma: Above0 | None = None
    epsilon: Above0 | None = None
    delta: Delta = 1e-5
    check: Above0 | None = None  # confident-gaussian: the noise of its check
    threshold: float | None = None  # confident-gaussian: votes that the leading class needs
    adjacency: Adjacency = "replace"
    rows_per_person: RowsPerPerson = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rows_per_person > 1 and self.level != "L2":
            why = "L1 protects a party with all its rows" if self.level == "L1" else "L0 protects nothing"
            raise LimbeckError(f"rows_per_person = {self.rows_per_person} is for level L2: {why}")
        wanted, other = self._scale, "gamma" if self._scale == "sigma" else "sigma"
        if getattr(self, other) is not None:
            raise LimbeckError(f"{self.mechanism} takes {wanted}, not {other}")
        if self.level == "L0" and (self.gamma, self.sigma, self.epsilon) != (None, None, None):
            raise LimbeckError('level L0 adds no noise: with gamma, sigma or epsilon use level = "L1" or "L2"')
        if self.level != "L0" and (getattr(self, wanted) is None) == (self.epsilon is None):
            raise LimbeckError(f"level {self.level} with {self.mechanism} needs one of {wanted} and epsilon")
        if self.mechanism != "confident-gaussian" and (self.check or self.threshold) is not None:
            raise LimbeckError(f"check and threshold are for confident-gaussian, not for {self.mechanism}")

    @property
    def effective_delta(self) -> float:
        """The delta of an algorithm at this level: 0 where nothing is noised."""
        return 0.0 if self.level == "L0" else self.delta

    @property
    def _scale(self) -> str:
        """The parameter of the mechanism that says how much noise it adds."""
        return "sigma" if self.mechanism in ("gaussian", "confident-gaussian") else "gamma"

    def noisy_max(self, unit: Unit, weight: int, asked: Asked) -> Mechanism:
        """The mechanism for these queries."""
        if self.epsilon is not None:
            return calibrated(self, unit, weight, asked)
        return self._mechanism(float(self.sigma or self.gamma or 0), unit, weight, asked)

    def _mechanism(self, scale: float, unit: Unit, weight: int, asked: Asked) -> Mechanism:
        adjacency = "any" if unit == "party" else self.adjacency
        if self.mechanism != ConfidentGaussian.name:
            parameters = {self._scale: scale, "unit": unit, "weight": weight, "adjacency": adjacency}
            return mechanism_from(self.mechanism, parameters)
        threshold = AGREEMENT * (asked.voters or 0) * weight if self.threshold is None else self.threshold
        return ConfidentGaussian(scale, self.check or CHECK * scale, threshold, unit, weight, adjacency)


L0 = Privacy()


def computed_once(function: Callable[P, T]) -> Callable[P, T]:
    """Cache results; of several threads that ask for the same one, the others wait for the first."""
    lock, cached = RLock(), lru_cache(maxsize=256)(function)

    @wraps(function)
    def locked(*arguments: P.args, **more: P.kwargs) -> T:
        with lock:
            return cast(Callable[P, T], cached)(*arguments, **more)

    return locked


@computed_once
def calibrated(privacy: Privacy, unit: Unit, weight: int, asked: Asked) -> Mechanism:
    """The least noise that keeps to `privacy.epsilon`, for a person's rows together."""
    known = (asked.classes, asked.voters, asked.abstentions, asked.noise, privacy.rows_per_person)

    def mechanism(x: float) -> Mechanism:
        return privacy._mechanism(math.exp(x if privacy._scale == "sigma" else -x), unit, weight, asked)

    def event(x: float) -> DpEvent:
        return DpEvent(mechanism(x), asked.queries, "replace", *known)

    def excess(x: float) -> float:
        return math.log(best_epsilon([event(x)], privacy.delta)[0] + 1e-12) - math.log(float(privacy.epsilon or 0))

    target = f"{asked.queries} queries to epsilon = {privacy.epsilon:g}"
    return mechanism(_least_noise(excess, math.log(event(0.0).weight * math.sqrt(asked.queries)), target))


@computed_once
def clipped_gaussian(
    bound: float,
    sigma: float | None,
    epsilon: float | None,
    delta: float,
    asked: Asked,
    beside: tuple[DpEvent, ...] = (),
) -> ClippedGaussian:
    """Noise on all clipped scores of a run: of scale `sigma`, or the least that keeps them, and the events
    `beside`, to `epsilon`.
    """
    if sigma is not None:
        return ClippedGaussian(bound, sigma, asked.classes)
    if epsilon is None or not 0 < epsilon < math.inf:
        raise LimbeckError(f"epsilon must be above 0 and finite, not {epsilon}")

    def excess(x: float) -> float:
        event = DpEvent(ClippedGaussian(bound, math.exp(x), asked.classes), asked.queries, noise=asked.noise)
        return best_epsilon([event, *beside], delta)[0] - epsilon

    if beside and (spent := best_epsilon(beside, delta)[0]) >= epsilon:
        raise LimbeckError(f"epsilon = {epsilon:g}: {beside[0].mechanism.name} alone takes {spent:.3g}")
    first = math.log(2 * bound * math.sqrt(asked.classes * asked.queries))
    found = _least_noise(excess, first, f"{asked.queries} scores to epsilon = {epsilon:g}")
    return ClippedGaussian(bound, math.exp(found), asked.classes)


@computed_once
def gaussian_sums(
    epsilon: float,
    delta: float,
    parts: tuple[tuple[float, GaussianSum], ...],
    beside: tuple[Mechanism, ...],
    noise: Noise,
    rows: int = 1,
) -> tuple[GaussianSum, ...]:
    """Sums with the least noise that keeps them all, and the queries `beside` them, to an epsilon.

    Each has its share of mu^2, the squared ratio of sensitivity to noise; their own `sigma` is ignored. The epsilon is
    for a person with up to `rows` rows.
    """

    def noised(x: float) -> tuple[GaussianSum, ...]:
        scale = math.exp(x)
        return tuple(replace(part, sigma=part.l2_sensitivity / math.sqrt(share) * scale) for share, part in parts)

    def excess(x: float) -> float:
        events = [DpEvent(mechanism, 1, noise=noise, rows=rows) for mechanism in (*beside, *noised(x))]
        return best_epsilon(events, delta)[0] - epsilon

    return noised(_least_noise(excess, math.log(rows), f"what is asked to epsilon = {epsilon:g}"))


def _least_noise(excess: Callable[[float], float], first: float, target: str) -> float:
    """The logarithm of the least noise, found from a first guess on, that leaves no excess; it falls with noise."""
    low = high = first
    while excess(high) > 0:
        high += 1
        if high > first + MAX_NOISE:
            raise LimbeckError(f"no noise keeps {target}")
    while excess(low) <= 0:
        low -= 1
    found = float(optimize.brentq(excess, low, high, xtol=CLOSE / 4, rtol=1e-8))
    while excess(found) > 0:
        found += CLOSE / 2
    return found
