"""Optimal composition: of pure mechanisms (kov), of privacy loss distributions (pld), of votes on two classes (binary).

Most functions here need delta as a function of epsilon, and then solve it for epsilon.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import optimize, special

from limbeck.privacy.accountants.conversion import epsilon_of_curve
from limbeck.privacy.accountants.rdp import rdp
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.losses import BoundedRange, GaussianLoss, LaplaceShift, Pure
from limbeck.protocol.rows import Array

LAPLACE_STEPS = 80  # grid steps in the largest loss of one Laplace count
COARSEST, FINEST = 20, 160  # grid steps of an exact composition in the loss of the pair that differs most
FINE, MAX_DEVIATIONS = 20_001, 10.0  # grid points of Gaussian losses; standard deviations that they cover
BINS = 256  # for the position of a bounded range
TINY = 5e-324
MAX_MARGINS = 20_000
MAX_LOSS_RATIO = 100  # of the largest to the smallest Laplace loss in one composition
HUGE = 1e12  # epsilon above which an upper bound is returned
MAX_EPSILON = 200.0  # largest epsilon that is composed exactly; a larger one protects nobody
MIN_LOSS = 1e-9  # smallest loss of a query; below it rounding errors matter
TARGET_WORK, MAX_WORK = 2e8, 2e9  # queries x pairs x grid points: tenths of a second, and a few seconds
UNLIKELY = 1e-4  # share of delta that is spent on margins that are too unlikely to be listed


def basic(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon by basic composition: pure epsilons add up, so that delta is not needed.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with a pure epsilon.
    delta : float
        Delta; not used.

    Returns
    -------
    float
        Epsilon.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Laplace
    >>> basic([DpEvent(Laplace(gamma=0.05), queries=40)], 1e-5)
    4.0
    """
    return sum(event.queries * event.pure for event in events)


def kov(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon by the optimal composition of k equal (e, 0)-private queries (Kairouz, Oh & Viswanath 2015, Theorem 3.3).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with the same pure epsilon e.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Notes
    -----
    delta(epsilon) = sum over l = 0..k of p_l max(0, 1 - exp(epsilon - (k - 2 l) e)), where
    p_l = C(k, l) exp((k - l) e) / (1 + exp(e))^k is the probability of the loss (k - 2 l) e.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Laplace
    >>> round(kov([DpEvent(Laplace(gamma=0.05), queries=40)], 1e-5), 4)
    2.5054
    """
    levels = {event.pure for event in events}
    if len(levels) > 1:
        raise UnknownEventError("kov composes queries of one level only: all need the same pure epsilon")
    [pure], count = levels, sum(event.queries for event in events)
    lost = np.arange(count + 1)
    loss = (count - 2 * lost) * pure
    log_probability = (
        special.gammaln(count + 1)
        - special.gammaln(lost + 1)
        - special.gammaln(count - lost + 1)
        + (count - lost) * pure
        - count * np.logaddexp(0, pure)
    )

    def beyond(eps: float) -> float:
        above = loss > eps
        return float(np.exp(log_probability[above]) @ -np.expm1(eps - loss[above]))

    return _solve(beyond, delta, count * pure)


def gaussian(events: Sequence[DpEvent], delta: float) -> float:
    """Exact epsilon of continuous Gaussian noise (Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2019).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with Gaussian noise.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> round(gaussian([DpEvent(Gaussian(sigma=40.0), queries=1000)], 1e-5), 4)
    4.9833
    """
    return gaussian_epsilon(_continuous_mu(events), delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Exact epsilon of one release with Gaussian noise.

    Parameters
    ----------
    mu : float
        L2 sensitivity divided by the standard deviation of the noise.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Notes
    -----
    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), with Phi the normal distribution.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if math.isinf(mu) or mu == 0:
        return mu
    ceiling = mu * mu / 2 + mu * (math.sqrt(-2 * math.log(delta)) + 1)
    if ceiling > HUGE:
        return ceiling

    def beyond(eps: float) -> float:
        return float(special.ndtr(mu / 2 - eps / mu) - math.exp(eps + special.log_ndtr(-mu / 2 - eps / mu)))

    return _solve(beyond, delta, ceiling)


def _continuous_mu(events: Sequence[DpEvent]) -> float:
    """Sensitivity divided by noise, of all queries together."""
    for event in events:
        match event.loss:
            case GaussianLoss(discrete=True):
                raise UnknownEventError("the exact Gaussian curve is for continuous noise, not for discrete")
    return math.sqrt(sum(event.queries * event.mu_squared for event in events))


def pld(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon by privacy loss distributions of Laplace noise, or by optimal composition of exponential mechanisms.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with Laplace noise only, or to exponential mechanisms only.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Notes
    -----
    Laplace noise: the loss distributions of the counts that a neighbour can change are composed. Gumbel noise: the
    optimal adaptive composition of its bounded range, by `optimal`.
    """
    shifts = [(event.queries, loss.shift) for event in events if isinstance(loss := event.loss, Pure) and loss.shift]
    if len(shifts) == len(events):
        return _laplace_pld(shifts, delta)
    if all(isinstance(event.loss, BoundedRange) for event in events):
        return optimal(_ranges(events), delta, rdp(events, delta))
    raise UnknownEventError("pld composes Laplace noise only, or exponential mechanisms only")


def mixed(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon of Gaussian noise together with exponential mechanisms.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with Gaussian noise, and equal queries with a bounded range.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon, at most that of `rdp`.

    Notes
    -----
    The adversary sees all Gaussian noise first and then chooses the case of each exponential mechanism. No other order
    is worse, because an adversary who chooses earlier knows less. Losses of the noise are rounded up to a grid.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import GaussianSum, NoisyMedian
    >>> events = [DpEvent(NoisyMedian(gamma=0.5), 1), DpEvent(GaussianSum(2.0, sigma=4.0, size=8), 1)]
    >>> round(mixed(events, 1e-5), 2)
    2.7
    """
    ranged = [event for event in events if isinstance(event.loss, BoundedRange)]
    others = [event for event in events if not isinstance(event.loss, BoundedRange)]
    if not ranged or not others:
        raise UnknownEventError("mixed is for Gaussian noise beside exponential mechanisms")
    mu, ceiling = _continuous_mu(others), rdp(events, delta)
    grid, value = _values(_ranges(ranged), ceiling)
    steps = np.linspace(-MAX_DEVIATIONS, MAX_DEVIATIONS, FINE)
    edges, lower = mu * mu / 2 + mu * steps, np.diff(special.ndtr(steps[: FINE // 2 + 1]))
    probability, beyond_all = np.concatenate([lower, lower[::-1]]), 2 * float(special.ndtr(-MAX_DEVIATIONS))
    if not delta > 2 * beyond_all:
        raise UnknownEventError("delta is too small for the resolution of this accountant")

    def beyond(eps: float) -> float:
        reached = np.interp(-np.exp(eps - edges[1:]), -np.exp(-grid), value, right=1.0)
        return float(probability @ reached) + beyond_all

    return min(ceiling, _solve(beyond, delta, ceiling))


def binary(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon of votes on two classes, by the optimal adaptive composition over all margins that the voters allow.

    Parameters
    ----------
    events : sequence of DpEvent
        Equal queries to a noisy maximum, with 2 classes.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.
    """
    family = _margin_pairs(_alike(events), delta)
    return optimal(family, delta - family.slack, min(binary_rdp(events, delta), rdp(events, delta)))


def binary_rdp(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon of votes on two classes, by the Rényi divergence of the worst margin at each order.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries to noisy maxima, with 2 classes.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Laplace
    >>> round(binary_rdp([DpEvent(Laplace(gamma=0.05), queries=40, classes=2, voters=25)], 1e-5), 4)
    1.2648
    """
    families = [_margin_pairs(event, delta) for event in events]
    slack = sum(family.slack for family in families)
    return epsilon_of_curve(lambda order: sum(f.queries * _worst(f, order) for f in families), delta - slack)


def _ranges(events: Sequence[DpEvent]) -> "Pairs":
    """Pairs of equal queries whose losses lie in [t - width, t]: for each bin of t, the pair that dominates the bin."""
    event = _alike(events)
    if (width := event.pure) > MAX_EPSILON:
        raise UnknownEventError("too little noise for the exact composition")
    edges = np.linspace(0, width, BINS + 1)
    low, high = edges[:-1], edges[1:]
    here = np.expm1(width - low) / (np.exp(-high) * np.expm1(width - low + high))
    not_here = -np.expm1(-high) / -np.expm1(low - high - width) * np.exp(low - width)
    return Pairs(here, here * np.exp(-high), not_here, not_here * np.exp(width - low), event.queries)


def _alike(events: Sequence[DpEvent]) -> DpEvent:
    """Merge equal queries into one event. Different queries are rejected: an adversary may gain from their order."""
    queries = sum(event.queries for event in events)
    [alike, *others] = {replace(event, queries=queries) for event in events}
    if others:
        raise UnknownEventError("the exact composition does not cover queries of different kinds")
    return alike


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of binary outcome distributions, one for each case of a query that the adversary can choose.

    Parameters
    ----------
    here : array of shape (cases,)
        Probability of the first answer on one data set.
    there : array of shape (cases,)
        Probability of the first answer on the neighbouring data set.
    not_here : array of shape (cases,)
        Probability of the second answer on the one data set. It is computed by itself, because 1 - here is inexact if
        `here` is close to 1.
    not_there : array of shape (cases,)
        Probability of the second answer on the neighbouring data set.
    queries : int
        Number of queries.
    slack : float
        Delta that cases which are left out can cost over all queries.
    """

    here: Array
    there: Array
    not_here: Array
    not_there: Array
    queries: int
    slack: float = 0.0


def optimal(family: Pairs, delta: float, ceiling: float) -> float:
    """Epsilon against the best adversary, who chooses the case of each query after seeing all earlier answers.

    Parameters
    ----------
    family : Pairs
        Cases of a query, and the number of queries.
    delta : float
        Delta.
    ceiling : float
        Upper bound on epsilon by another theorem.

    Returns
    -------
    float
        Epsilon, at most `ceiling`.

    Raises
    ------
    UnknownEventError
        If the noise or the number of queries is outside what can be computed.

    Notes
    -----
    Dynamic programming over queries. With x = exp(-loss), p = here and q = there,

        value_k(x) = max over cases of p value_{k-1}(x q/p) + (1-p) value_{k-1}(x (1-q)/(1-p)),

    and value_0(x) = max(0, 1 - x). It is convex in x, so linear interpolation between grid points can only overstate
    it. Delta at epsilon is value_k(exp(epsilon)).
    """
    grid, value = _values(family, ceiling)
    if value[0] > delta:
        return ceiling
    under = int(np.flatnonzero(value <= delta)[-1])
    x0, x1 = math.exp(-grid[under]), math.exp(-grid[under + 1])
    x = x0 + (x1 - x0) * (delta - value[under]) / (value[under + 1] - value[under])
    return min(ceiling, max(0.0, math.log(x)))


def _values(family: Pairs, ceiling: float) -> tuple[Array, Array]:
    """Grid of losses, and for each loss before the queries the delta after all of them, at epsilon 0."""
    clearest = int(np.abs(family.here - family.there).argmax())
    loss = abs(float(_log_ratio(family.here, family.there)[clearest]))
    if loss < MIN_LOSS or not ceiling < MAX_EPSILON:
        raise UnknownEventError("too much or too little noise for the exact composition")
    low, high = -(1.1 * ceiling + 1), ceiling + 12
    work = family.queries * len(family.here) * (high - low) / loss
    steps = min(FINEST, TARGET_WORK / work)
    if steps < COARSEST and work * COARSEST > MAX_WORK:
        raise UnknownEventError("too many queries for the exact composition")
    finest = loss / max(steps, COARSEST)
    grid = np.arange(math.floor(low / finest), math.ceil(high / finest) + 1) * finest
    return grid, _composed(np.maximum(0, -np.expm1(-grid)), family, finest)


def _composed(value: Array, family: Pairs, step: float) -> Array:
    size = len(value)
    yes, no = family.here, family.not_here
    near, near_weight = _taps(_log_ratio(family.here, family.there), step, size)
    far, far_weight = _taps(_log_ratio(family.not_here, family.not_there), step, size)
    pad = size + 2
    taps = list(zip(pad + near, yes * (1 - near_weight), yes * near_weight, strict=True))
    rest = list(zip(pad + far, no * (1 - far_weight), no * far_weight, strict=True))
    padded = np.concatenate([np.empty(pad), value, np.ones(pad)])  # above the grid the value is at most 1
    for _ in range(family.queries):
        padded[:pad] = value[0]  # below the grid the value is at most its first one
        padded[pad : pad + size] = value
        best = value.copy()
        for (a, a0, a1), (b, b0, b1) in zip(taps, rest, strict=True):
            case = a0 * padded[a : a + size]
            case += a1 * padded[a + 1 : a + 1 + size]
            case += b0 * padded[b : b + size]
            case += b1 * padded[b + 1 : b + 1 + size]
            np.maximum(best, case, out=best)
        value = best
    return value


def _taps(shift: Array, step: float, size: int) -> tuple[Array, Array]:
    """Lower grid point of each shifted loss, and the weight of the upper one, linear in e^-loss.

    A shift by more than the whole grid, for example an infinite one, is clipped to the length of the grid.
    """
    inside = np.clip(shift, -size * step, size * step)
    position = np.floor(inside / step)
    return position.astype(int), np.expm1(position * step - inside) / math.expm1(-step)


def _log_ratio(one: Array, other: Array) -> Array:
    """Return log(one / other); -inf where `one` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one > 0, np.log(one) - np.log(other), -np.inf)


def _margin_pairs(event: DpEvent, delta: float) -> Pairs:
    """Pairs of all possible margins m: the second class leads by m on one data set, by m + shift on its neighbour.

    Margins are left out, and added to the slack, if noise overturns the lead with probability below `slight` on both
    data sets. Smaller shifts need no pairs of their own: their two probabilities lie between those of a listed pair.
    """
    if event.classes != 2:
        raise UnknownEventError("binary is for two classes")
    flips, weight = partial(event.mechanism.flips, noise=event.noise), event.mechanism.weight
    shift, slight = event.affected_counts * event.weight, UNLIKELY * delta / max(1, event.queries)
    unlikely = _beyond_likelihood(flips, slight)
    most = unlikely + shift if event.voters is None else event.voters * weight
    every = event.voters is None or event.abstentions or weight > 1 or event.affected_counts == 1
    margin = np.arange(-most, most - shift + 1, 1 if every else 2)
    if not len(margin):
        raise UnknownEventError(f"{event.voters} voters cannot change a margin by {shift}")
    near = margin[(margin + shift >= -unlikely) & (margin <= unlikely)]
    slack = 0.0 if event.voters is not None and len(near) == len(margin) else event.queries * slight
    one, other = flips(near), flips(near + shift)
    not_one, not_other = flips(-near), flips(-near - shift)
    return Pairs(
        here=np.concatenate([not_one, other]),
        there=np.concatenate([not_other, one]),
        not_here=np.concatenate([one, not_other]),
        not_there=np.concatenate([other, not_one]),
        queries=event.queries,
        slack=slack,
    )


def _beyond_likelihood(flips: Callable[[Array], Array], probability: float) -> int:
    """Margin from which on noise overturns the lead with at most this probability."""
    most = 1
    while float(flips(np.array([-most]))[0]) > probability:
        most = math.ceil(most * 1.1)
        if most > MAX_MARGINS:
            raise UnknownEventError("too much noise for the exact composition")
    return most


def _worst(family: Pairs, order: float) -> float:
    """Largest Rényi divergence of all cases; infinite if an answer is impossible on one of the data sets."""
    yes, no = (
        np.where(one > 0, np.log(np.maximum(one, TINY)) + (order - 1) * _log_ratio(one, other), -np.inf)
        for one, other in ((family.here, family.there), (family.not_here, family.not_there))
    )
    return max(0.0, float(np.logaddexp(yes, no).max())) / (order - 1)


def _laplace_pld(shifts: Sequence[tuple[int, LaplaceShift]], delta: float) -> float:
    """Epsilon of queries to counts with Laplace noise. The worst case is two counts, each shifted by a person's weight.

    The votes of a person's rows can also shift more counts by less each. This never costs more: at every epsilon from 0
    to a + b, one count shifted by a + b noise scales has delta 1 - u, with u = e^((epsilon - a - b) / 2), and two
    counts shifted by a and by b have delta 1 - u - u min(a, b, (a + b - epsilon) / 2) / 2. The same holds for discrete
    noise.
    """
    from dp_accounting.pld import privacy_loss_distribution as distributions

    losses = [shift.change * shift.gamma for _, shift in shifts]
    if max(losses) > MAX_EPSILON:
        raise UnknownEventError("too little noise for the exact composition")
    if max(losses) > MAX_LOSS_RATIO * min(losses):
        raise UnknownEventError("the noise scales differ too much for a common grid")
    step = min(losses) / LAPLACE_STEPS
    total = distributions.identity(value_discretization_interval=step)
    for queries, shift in shifts:
        gamma, change = shift.gamma, shift.change
        if shift.discrete:
            one = distributions.from_discrete_laplace_mechanism(gamma, change, value_discretization_interval=step)
        else:
            one = distributions.from_laplace_mechanism(1 / gamma, change, value_discretization_interval=step)
        total = total.compose(one.self_compose(shift.counts * queries))
    return float(total.get_epsilon_for_delta(delta))


def _solve(delta_at: Callable[[float], float], delta: float, ceiling: float) -> float:
    """Smallest epsilon, from 0, at which delta is small enough."""
    if delta_at(0.0) <= delta:
        return 0.0
    while delta_at(ceiling) > delta:
        ceiling *= 2
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, ceiling, xtol=1e-12, rtol=1e-12))
