"""Calibration: the `privacy` table of an algorithm, and the least noise that keeps to an epsilon."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from threading import RLock
from typing import Literal, ParamSpec, TypeVar, cast

from scipy import optimize

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants import best_epsilon
from limbeck.privacy.events import Adjacency, DpEvent
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gamma,
    GaussianSum,
    Mechanism,
    mechanism_from,
    noisy_maxima,
    scale_of,
)
from limbeck.protocol.release import Asked, Noise, Unit
from limbeck.tables import Above0, Delta, RowsPerPerson, check_fields

P = ParamSpec("P")
T = TypeVar("T")
Level = Literal["L0", "L1", "L2"]
MAX_NOISE = 30.0  # largest logarithm of noise above the first guess; beyond it no signal is left
CLOSE = 1e-3  # relative distance of calibrated noise from the least noise


@dataclass(frozen=True, slots=True)
class Privacy:
    """Who adds which noise to votes: the table `[algorithm.privacy]` of an experiment.

    Parameters
    ----------
    level : {"L0", "L1", "L2"}
        L0: no noise. L1: the server adds noise and protects a party. L2: each party adds noise and protects a row.
    mechanism : str
        Noise on the vote counts: `gumbel`, `laplace`, `gaussian`, `confident-gaussian`, or the name of another
        imported `NoisyMax`. `laplace` is that of the papers.
    gamma : float, optional
        Inverse noise scale of `laplace` and `gumbel`.
    sigma : float, optional
        Standard deviation of the noise of `gaussian` and `confident-gaussian`.
    epsilon : float, optional
        Instead of `gamma` or `sigma`: the noise is calibrated to this epsilon towards the public.
    delta : float
        Delta at which epsilon is computed.
    check : float, optional
        Of `confident-gaussian`: standard deviation of the noise of its check; by default twice that of the answer.
    threshold : float, optional
        Of `confident-gaussian`: votes that the leading class needs; by default 60 % of all.
    adjacency : {"replace", "add-remove"}
        Neighbour relation. `add-remove` assigns rows to teachers by a keyed hash of the row.
    rows_per_person : int
        At L2, the largest number of rows of one person in a party. At L1 a party is protected with all its rows.

    Raises
    ------
    LimbeckError
        If a parameter is missing, out of range, or does not fit the level or the mechanism.

    Notes
    -----
    FedKT, section 3, defines the levels. L1 protects from everybody but the server, L2 from everybody.

    Examples
    --------
    >>> Privacy(level="L2", epsilon=3.0).mechanism
    'gumbel'
    >>> from limbeck.protocol.release import Asked
    >>> Privacy(level="L1", gamma=0.05).noisy_max("party", weight=2, asked=Asked(queries=40, classes=2))
    Gumbel(gamma=0.05, unit='party', weight=2, adjacency='any')
    """

    level: Level = "L0"
    mechanism: str = "gumbel"
    gamma: Gamma | None = None
    sigma: Above0 | None = None
    epsilon: Above0 | None = None
    delta: Delta = 1e-5
    check: Above0 | None = None
    threshold: float | None = None
    adjacency: Adjacency = "replace"
    rows_per_person: RowsPerPerson = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mechanism not in noisy_maxima():
            raise LimbeckError(f"mechanism = {self.mechanism!r}: {did_you_mean(self.mechanism, noisy_maxima())}")
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
        if self._given and self.mechanism != ConfidentGaussian.name:
            raise LimbeckError(f"check and threshold are for confident-gaussian, not for {self.mechanism}")

    @property
    def effective_delta(self) -> float:
        """Delta of an algorithm at this level; 0 without noise."""
        return 0.0 if self.level == "L0" else self.delta

    @property
    def _scale(self) -> str:
        """Name of the parameter that sets the amount of noise."""
        return scale_of(noisy_maxima()[self.mechanism])

    @property
    def _given(self) -> dict[str, float]:
        """Further parameters of the mechanism that are given."""
        return {k: v for k, v in (("check", self.check), ("threshold", self.threshold)) if v is not None}

    def noisy_max(self, unit: Unit, weight: int, asked: Asked) -> Mechanism:
        """Mechanism for some queries.

        Parameters
        ----------
        unit : {"party", "example"}
            Who is protected.
        weight : int
            Number of counts that one voter adds to a class.
        asked : Asked
            Public facts of the queries: how many, over how many classes, from how many voters.

        Returns
        -------
        Mechanism
            With the given noise, or with noise that is calibrated to `epsilon`.
        """
        if self.epsilon is not None:
            return calibrated(self, unit, weight, asked)
        return self._mechanism(float(self.sigma or self.gamma or 0), unit, weight, asked)

    def _mechanism(self, scale: float, unit: Unit, weight: int, asked: Asked) -> Mechanism:
        adjacency = "any" if unit == "party" else self.adjacency
        options = {**noisy_maxima()[self.mechanism].options(scale, (asked.voters or 0) * weight), **self._given}
        parameters = {self._scale: scale, "unit": unit, "weight": weight, "adjacency": adjacency, **options}
        return mechanism_from(self.mechanism, parameters)


L0 = Privacy()


def computed_once(function: Callable[P, T]) -> Callable[P, T]:
    """Cache the results of a function. If several threads need the same result, one computes it and the others wait."""
    lock, cached = RLock(), lru_cache(maxsize=256)(function)

    @wraps(function)
    def locked(*arguments: P.args, **more: P.kwargs) -> T:
        with lock:
            return cast(Callable[P, T], cached)(*arguments, **more)

    return locked


@computed_once
def calibrated(privacy: Privacy, unit: Unit, weight: int, asked: Asked) -> Mechanism:
    """Noisy maximum with the least noise that keeps to an epsilon.

    Parameters
    ----------
    privacy : Privacy
        Mechanism, epsilon and delta. `rows_per_person` rows of one person count together.
    unit : {"party", "example"}
        Who is protected.
    weight : int
        Number of counts that one voter adds to a class.
    asked : Asked
        Public facts of the queries.

    Returns
    -------
    Mechanism
        Its epsilon is at most `privacy.epsilon`, and its noise within 0.1 % of the least.

    Raises
    ------
    LimbeckError
        If no noise is enough.

    Examples
    --------
    >>> privacy = Privacy(level="L2", mechanism="gaussian", epsilon=3.0)
    >>> mechanism = calibrated(privacy, "example", 1, Asked(queries=40, classes=10))
    >>> 2.99 < best_epsilon([DpEvent(mechanism, 40)], 1e-5)[0] <= 3.0
    True
    """
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
    """Gaussian noise for all clipped scores of a run.

    Parameters
    ----------
    bound : float
        Public bound of a score.
    sigma : float or None
        Standard deviation of the noise; None if it is calibrated.
    epsilon : float or None
        Epsilon that the scores and the events `beside` them keep to together; not used if `sigma` is given.
    delta : float
        Delta.
    asked : Asked
        Number of queries and of classes.
    beside : tuple of DpEvent
        Other releases of the same run.

    Returns
    -------
    ClippedGaussian
        With the given noise, or with the least noise that keeps to `epsilon`.

    Raises
    ------
    LimbeckError
        If `epsilon` is not above 0 and finite, or is spent by the events `beside`.

    Examples
    --------
    Over 5 000 queries, epsilon 1 needs a sigma of about 264 times the sensitivity:

    >>> mechanism = clipped_gaussian(0.5, None, 1.0, 1e-5, Asked(queries=5000, classes=1))
    >>> round(mechanism.sigma / mechanism.sensitivity)
    264
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
def gaussian_sum(
    epsilon: float, delta: float, sums: GaussianSum, beside: tuple[Mechanism, ...], noise: Noise, rows: int = 1
) -> GaussianSum:
    """A sum with the least noise that keeps to an epsilon.

    Parameters
    ----------
    epsilon : float
        Epsilon of the sum and of the queries `beside` it.
    delta : float
        Delta.
    sums : GaussianSum
        The sum; its `sigma` is ignored.
    beside : tuple of Mechanism
        Mechanisms that answer one query each in the same run.
    noise : {"simulated", "secure"}
        Continuous or discrete noise.
    rows : int
        Largest number of rows of one person in a party.

    Returns
    -------
    GaussianSum
        The sum with its `sigma`.

    Raises
    ------
    LimbeckError
        If no noise is enough.

    Examples
    --------
    >>> votes = GaussianSum(l2_sensitivity=2.0, sigma=1.0, size=9)
    >>> round(gaussian_sum(3.0, 1e-5, votes, (), "simulated").sigma, 2)
    2.78
    """

    def noised(x: float) -> GaussianSum:
        return replace(sums, sigma=sums.l2_sensitivity * math.exp(x))

    def excess(x: float) -> float:
        events = [DpEvent(mechanism, 1, noise=noise, rows=rows) for mechanism in (*beside, noised(x))]
        return best_epsilon(events, delta)[0] - epsilon

    return noised(_least_noise(excess, math.log(rows), f"the sum to epsilon = {epsilon:g}"))


def _least_noise(excess: Callable[[float], float], first: float, target: str) -> float:
    """Logarithm of the least noise without excess, searched from a first guess. The excess falls with the noise."""
    low = high = first
    while excess(high) > 0:
        high += 1
        if high > first + MAX_NOISE:
            raise LimbeckError(f"no noise keeps {target}; use a larger epsilon")
    while excess(low) <= 0:
        low -= 1
    found = float(optimize.brentq(excess, low, high, xtol=CLOSE / 4, rtol=1e-8))
    while excess(found) > 0:
        found += CLOSE / 2
    return found
