"""Optimal composition: of purely private mechanisms (kov), of loss distributions (pld), of two classes (binary)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from limbeck.privacy.accountants.conversion import epsilon_of_curve
from limbeck.privacy.accountants.rdp import rdp
from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace
from limbeck.privacy.spends import Spend, UnknownSpendError
from limbeck.protocol.rows import Array

STEPS = 80  # of a loss distribution in one query's largest loss
BINS = 256  # where the range of a Gumbel query's losses may lie
SMALLEST = 1e-9  # step of a loss: below it rounding counts
MOST_WORK = 3e9  # queries x pairs x grid points of an exact composition: a few seconds
UNLIKELY = 1e-4  # the share of delta that margins beyond all likelihood may take


def kov(spends: Sequence[Spend], delta: float) -> float:
    """The optimal composition of k equal (e, 0)-private queries (Kairouz, Oh & Viswanath 2015)."""
    levels = {spend.pure for spend in spends}
    if len(levels) > 1:
        raise UnknownSpendError("kov composes queries of one level only")
    [pure], count = levels, sum(spend.queries for spend in spends)
    lost = np.arange(count + 1)
    loss = (count - 2 * lost) * pure
    log_chance = (
        special.gammaln(count + 1)
        - special.gammaln(lost + 1)
        - special.gammaln(count - lost + 1)
        + (count - lost) * pure
        - count * np.logaddexp(0, pure)
    )

    def beyond(eps: float) -> float:
        above = loss > eps
        return float(np.exp(log_chance[above]) @ -np.expm1(eps - loss[above]))

    return _solve(beyond, delta, count * pure)


def gaussian(spends: Sequence[Spend], delta: float) -> float:
    """Exact for continuous Gaussian noise (Balle & Wang 2018; Dong, Roth & Su 2019)."""
    if any(spend.noise == "secure" for spend in spends):
        raise UnknownSpendError("the exact Gaussian curve is for continuous noise, not for discrete")
    return gaussian_epsilon(math.sqrt(sum(spend.queries * spend.gaussian for spend in spends)), delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of sensitivity over noise `mu`."""
    if math.isinf(mu):
        return math.inf

    def beyond(eps: float) -> float:
        return float(special.ndtr(mu / 2 - eps / mu) - math.exp(eps + special.log_ndtr(-mu / 2 - eps / mu)))

    return _solve(beyond, delta, mu * mu / 2 + mu * (math.sqrt(-2 * math.log(delta)) + 1))


def pld(spends: Sequence[Spend], delta: float) -> float:
    """Laplace: the loss distributions of the counts that move, composed. Gumbel: optimal for its bounded range."""
    if all(isinstance(spend.mechanism, Laplace) for spend in spends):
        return _laplace_pld(spends, delta)
    if all(isinstance(spend.mechanism, Gumbel) for spend in spends):
        pairs = [Pairs(*_range_pairs(spend.pure), spend.queries) for spend in spends]
        return optimal(pairs, delta, rdp(spends, delta))
    raise UnknownSpendError("pld composes Laplace noise, or Gumbel noise, alone")


def binary(spends: Sequence[Spend], delta: float) -> float:
    """Two classes: the optimal adaptive composition over all margins that the voters allow."""
    families = [_margin_pairs(spend, delta) for spend in spends]
    slack = sum(family.slack for family in families)
    return optimal(families, delta - slack, binary_rdp(spends, delta))


def binary_rdp(spends: Sequence[Spend], delta: float) -> float:
    """Two classes: at every order the worst margin's divergence."""
    families = [_margin_pairs(spend, delta) for spend in spends]
    slack = sum(family.slack for family in families)
    return epsilon_of_curve(lambda order: sum(f.queries * _worst(f, order) for f in families), delta - slack)


@dataclass(frozen=True, slots=True)
class Pairs:
    """What a query may be to a neighbour: the chance of an answer under each of two neighbours, for each case.

    `slack` is the delta that cases left out can take over all queries.
    """

    here: Array
    there: Array
    queries: int
    slack: float = 0.0


def optimal(families: Sequence[Pairs], delta: float, ceiling: float) -> float:
    """The epsilon of the best that an adversary can do who picks each query's case by what he has seen.

    With x = e^-loss, value(x) = the largest over cases of p value(x q/p) + (1-p) value(x (1-q)/(1-p)) is convex in x,
    so that chords between grid points only overstate it. `ceiling` bounds the answer.
    """
    largest = [float(np.log(f.here / f.there).max()) for f in families]
    finest = min(largest) / STEPS
    if finest < SMALLEST:
        raise UnknownSpendError("too much noise for the exact composition")
    farthest = sum(f.queries * loss for f, loss in zip(families, largest, strict=True)) + finest
    low, high = -min(1.1 * ceiling + 1, farthest), min(ceiling + 12, farthest)
    if sum(f.queries * len(f.here) for f in families) * (high - low) / finest > MOST_WORK:
        raise UnknownSpendError("too many queries for the exact composition")
    grid = np.arange(math.floor(low / finest), math.ceil(high / finest) + 1) * finest
    value = np.maximum(0, -np.expm1(-grid))
    for family in families:
        value = _composed(value, family, finest)
    under = int(np.flatnonzero(value <= delta)[-1]) if value[0] <= delta else -1
    if under < 0:
        return ceiling
    x0, x1 = math.exp(-grid[under]), math.exp(-grid[under + 1])
    x = x0 + (x1 - x0) * (delta - value[under]) / (value[under + 1] - value[under])
    return min(ceiling, max(0.0, math.log(x)))


def _composed(value: Array, family: Pairs, step: float) -> Array:
    p, q = family.here, family.there
    (near, near_weight), (far, far_weight) = (_taps(np.log(a / b), step) for a, b in ((p, q), (1 - p, 1 - q)))
    pad = int(max(np.abs(near).max(), np.abs(far).max())) + 2
    taps = list(zip(pad + near, p * (1 - near_weight), p * near_weight, pad + far, strict=True))
    rest = list(zip((1 - p) * (1 - far_weight), (1 - p) * far_weight, strict=True))
    size = len(value)
    padded = np.concatenate([np.empty(pad), value, np.ones(pad)])  # above the grid a value is at most 1
    for _ in range(family.queries):
        padded[:pad] = value[0]  # below it, at most the lowest
        padded[pad : pad + size] = value
        best = value.copy()
        for (a, a0, a1, b), (b0, b1) in zip(taps, rest, strict=True):
            case = a0 * padded[a : a + size]
            case += a1 * padded[a + 1 : a + 1 + size]
            case += b0 * padded[b : b + size]
            case += b1 * padded[b + 1 : b + 1 + size]
            np.maximum(best, case, out=best)
        value = best
    return value


def _taps(shift: Array, step: float) -> tuple[Array, Array]:
    """Between which grid points a shifted loss falls, and how near the upper one, linear in e^-loss."""
    place = np.floor(shift / step)
    return place.astype(int), np.expm1(place * step - shift) / math.expm1(-step)


def _range_pairs(width: float) -> tuple[Array, Array]:
    """Losses that fall into [t - width, t]: for each bin of t the pair that dominates all in the bin."""
    edges = np.linspace(0, width, BINS + 1)
    low, high = edges[:-1], edges[1:]
    here = np.expm1(width - low) / (np.exp(-high) * np.expm1(width - low + high))
    return here, here * np.exp(-high)


def _margin_pairs(spend: Spend, delta: float) -> Pairs:
    """The second class leads by m to one neighbour and by m + shift to the other, for every margin m there can be."""
    mechanism = spend.mechanism
    if not isinstance(mechanism, Laplace | Gumbel | Gaussian):
        raise UnknownSpendError(f"{mechanism.name} is not a noisy maximum that binary knows")
    if spend.classes != 2:
        raise UnknownSpendError("binary is for two classes")
    if spend.noise == "secure" and isinstance(mechanism, Gaussian):
        raise UnknownSpendError("binary is for continuous Gaussian noise, not for discrete")
    discrete = spend.noise == "secure" and isinstance(mechanism, Laplace)
    flips = mechanism.discrete_flips if isinstance(mechanism, Laplace) and discrete else mechanism.flips
    shift, slack = spend.moved * mechanism.weight, 0.0
    if spend.voters is None:
        most, tail = _beyond_likelihood(flips, UNLIKELY * delta / spend.queries)
        slack = 2 * spend.queries * tail
    else:
        most = spend.voters * mechanism.weight
    every = spend.voters is None or spend.abstentions or mechanism.weight > 1 or spend.moved == 1
    margin = np.arange(-most, most - shift + 1, 1 if every else 2)
    if not len(margin):
        raise UnknownSpendError(f"{spend.voters} voters cannot change by {shift}")
    one, other = flips(margin), flips(margin + shift)
    return Pairs(np.concatenate([1 - one, other]), np.concatenate([1 - other, one]), spend.queries, slack)


def _beyond_likelihood(flips: Callable[[Array], Array], chance: float) -> tuple[int, float]:
    """The margin from which on a lead is overturned less often than that."""
    most = 1
    while (tail := float(flips(np.array([-most]))[0])) > chance:
        most = math.ceil(most * 1.1)
    return most, tail


def _worst(family: Pairs, order: float) -> float:
    p, q = np.log(family.here), np.log(family.there)
    p_, q_ = np.log1p(-family.here), np.log1p(-family.there)
    both = np.logaddexp(order * p + (1 - order) * q, order * p_ + (1 - order) * q_)
    return max(0.0, float(both.max())) / (order - 1)


def _laplace_pld(spends: Sequence[Spend], delta: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution as distributions

    step = min(spend.mechanism.weight * spend.mechanism.gamma for spend in spends) / STEPS
    total = distributions.identity(value_discretization_interval=step)
    for spend in spends:
        gamma, weight = spend.mechanism.gamma, spend.mechanism.weight
        if spend.noise == "secure":
            one = distributions.from_discrete_laplace_mechanism(gamma, weight, value_discretization_interval=step)
        else:
            one = distributions.from_laplace_mechanism(1 / gamma, weight, value_discretization_interval=step)
        total = total.compose(one.self_compose(spend.moved * spend.queries))
    return float(total.get_epsilon_for_delta(delta))


def _solve(delta_at: Callable[[float], float], delta: float, ceiling: float) -> float:
    """The least epsilon from 0 on whose delta is small enough."""
    if delta_at(0.0) <= delta:
        return 0.0
    while delta_at(ceiling) > delta:
        ceiling *= 2
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, ceiling, xtol=1e-12, rtol=1e-12))
