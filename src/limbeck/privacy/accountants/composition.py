"""Optimal composition: of purely private mechanisms (kov), of loss distributions (pld), of two classes (binary)."""

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

LAPLACE_STEPS = 80  # of a Laplace loss distribution in one count's largest loss
COARSEST, FINEST = 20, 160  # steps of an exact composition in the loss of its clearest case
FINE, MAX_DEVIATIONS = 20_001, 10.0  # losses of Gaussian noise that are distinguished, and its deviations that are
BINS = 256  # where the range of a Gumbel query's losses may lie
TINY = 5e-324
MAX_MARGINS = 20_000
MAX_LOSS_RATIO = 100  # Laplace losses of one composition
HUGE = 1e12  # epsilon that is not worth the last digit
MAX_EPSILON = 200.0  # epsilon that is composed exactly; beyond it there is no privacy to speak of
MIN_LOSS = 1e-9  # step of a loss: below it rounding counts
TARGET_WORK, MAX_WORK = 2e8, 2e9  # queries x pairs x grid points of an exact composition: tenths and a few seconds
UNLIKELY = 1e-4  # the share of delta that margins beyond all likelihood may take


def basic(events: Sequence[DpEvent], delta: float) -> float:
    """Pure epsilons add up, and nothing is left to chance."""
    return sum(event.queries * event.pure for event in events)


def kov(events: Sequence[DpEvent], delta: float) -> float:
    """The optimal composition of k equal (e, 0)-private queries (Kairouz, Oh & Viswanath 2015)."""
    levels = {event.pure for event in events}
    if len(levels) > 1:
        raise UnknownEventError("kov composes queries of one level only")
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
    """Exact for continuous Gaussian noise (Balle & Wang 2018; Dong, Roth & Su 2019)."""
    return gaussian_epsilon(_continuous_mu(events), delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of sensitivity over noise `mu`."""
    if math.isinf(mu) or mu == 0:
        return mu
    ceiling = mu * mu / 2 + mu * (math.sqrt(-2 * math.log(delta)) + 1)
    if ceiling > HUGE:
        return ceiling

    def beyond(eps: float) -> float:
        return float(special.ndtr(mu / 2 - eps / mu) - math.exp(eps + special.log_ndtr(-mu / 2 - eps / mu)))

    return _solve(beyond, delta, ceiling)


def _continuous_mu(events: Sequence[DpEvent]) -> float:
    """Sensitivity over noise of all queries together."""
    for event in events:
        match event.loss:
            case GaussianLoss(discrete=True):
                raise UnknownEventError("the exact Gaussian curve is for continuous noise, not for discrete")
    return math.sqrt(sum(event.queries * event.mu_squared for event in events))


def pld(events: Sequence[DpEvent], delta: float) -> float:
    """Laplace: the loss distributions of the affected counts, composed. Gumbel: optimal for its bounded range."""
    shifts = [(event.queries, loss.shift) for event in events if isinstance(loss := event.loss, Pure) and loss.shift]
    if len(shifts) == len(events):
        return _laplace_pld(shifts, delta)
    if all(isinstance(event.loss, BoundedRange) for event in events):
        return optimal(_ranges(events), delta, rdp(events, delta))
    raise UnknownEventError("pld composes Laplace noise, or exponential mechanisms, alone")


def mixed(events: Sequence[DpEvent], delta: float) -> float:
    """Gaussian noise beside exponential mechanisms, whose cases the adversary picks when he has seen all the noise.

    No order is worse: whoever picks a case earlier knows less. Losses of the noise are rounded up to one of FINE.
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
        raise UnknownEventError("so small a delta is beyond the resolution of this accountant")

    def beyond(eps: float) -> float:
        reached = np.interp(-np.exp(eps - edges[1:]), -np.exp(-grid), value, right=1.0)
        return float(probability @ reached) + beyond_all

    return min(ceiling, _solve(beyond, delta, ceiling))


def binary(events: Sequence[DpEvent], delta: float) -> float:
    """Two classes: the optimal adaptive composition over all margins that the voters allow."""
    family = _margin_pairs(_alike(events), delta)
    return optimal(family, delta - family.slack, min(binary_rdp(events, delta), rdp(events, delta)))


def binary_rdp(events: Sequence[DpEvent], delta: float) -> float:
    """Two classes: at every order the worst margin's divergence."""
    families = [_margin_pairs(event, delta) for event in events]
    slack = sum(family.slack for family in families)
    return epsilon_of_curve(lambda order: sum(f.queries * _worst(f, order) for f in families), delta - slack)


def _ranges(events: Sequence[DpEvent]) -> "Pairs":
    """Equal queries whose losses fall into [t - width, t]: for each bin of t the pair that dominates all in the bin."""
    event = _alike(events)
    if (width := event.pure) > MAX_EPSILON:
        raise UnknownEventError("too little noise for the exact composition")
    edges = np.linspace(0, width, BINS + 1)
    low, high = edges[:-1], edges[1:]
    here = np.expm1(width - low) / (np.exp(-high) * np.expm1(width - low + high))
    not_here = -np.expm1(-high) / -np.expm1(low - high - width) * np.exp(low - width)
    return Pairs(here, here * np.exp(-high), not_here, not_here * np.exp(width - low), event.queries)


def _alike(events: Sequence[DpEvent]) -> DpEvent:
    """All queries as one event: an adversary who may choose their order makes unlike ones worth more than either."""
    queries = sum(event.queries for event in events)
    [alike, *others] = {replace(event, queries=queries) for event in events}
    if others:
        raise UnknownEventError("queries of different kinds have no exact composition here")
    return alike


@dataclass(frozen=True, slots=True)
class Pairs:
    """What a query may be to a neighbour: the chance of an answer under each of two neighbours, for each case.

    `not_here` and `not_there` are the chances of the other answer, each computed for itself: near certainty one minus
    the other would be lost. `slack` is the delta that cases left out can take over all queries.
    """

    here: Array
    there: Array
    not_here: Array
    not_there: Array
    queries: int
    slack: float = 0.0


def optimal(family: Pairs, delta: float, ceiling: float) -> float:
    """The epsilon of the best that an adversary can do who picks each query's case by what he has seen.

    With x = e^-loss, value(x) = the largest over cases of p value(x q/p) + (1-p) value(x (1-q)/(1-p)) is convex in x,
    so that chords between grid points only overstate it. `ceiling` bounds the answer.
    """
    grid, value = _values(family, ceiling)
    if value[0] > delta:
        return ceiling
    under = int(np.flatnonzero(value <= delta)[-1])
    x0, x1 = math.exp(-grid[under]), math.exp(-grid[under + 1])
    x = x0 + (x1 - x0) * (delta - value[under]) / (value[under + 1] - value[under])
    return min(ceiling, max(0.0, math.log(x)))


def _values(family: Pairs, ceiling: float) -> tuple[Array, Array]:
    """What all queries make of every loss: the delta that is left at epsilon 0 where so much was lost before."""
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
    padded = np.concatenate([np.empty(pad), value, np.ones(pad)])  # above the grid a value is at most 1
    for _ in range(family.queries):
        padded[:pad] = value[0]  # below it, at most the lowest
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
    """Between which grid points a shifted loss falls, and how near the upper one, linear in e^-loss.

    A loss that leaves the grid from everywhere, an infinite one too, counts as leaving it.
    """
    inside = np.clip(shift, -size * step, size * step)
    position = np.floor(inside / step)
    return position.astype(int), np.expm1(position * step - inside) / math.expm1(-step)


def _log_ratio(one: Array, other: Array) -> Array:
    """log(one / other); what never happens has no loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one > 0, np.log(one) - np.log(other), -np.inf)


def _margin_pairs(event: DpEvent, delta: float) -> Pairs:
    """The second class leads by m to one neighbour and by m + shift to the other, for every margin m there can be.

    Margins at which both would overturn the lead less often than `slight` are left out and paid for in delta. A smaller
    shift within the same bounds tells less: its two chances lie between those of a pair that is here.
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
        raise UnknownEventError(f"{event.voters} voters cannot change by {shift}")
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
    """The margin from which on a lead is overturned less often than that."""
    most = 1
    while float(flips(np.array([-most]))[0]) > probability:
        most = math.ceil(most * 1.1)
        if most > MAX_MARGINS:
            raise UnknownEventError("too much noise for the exact composition")
    return most


def _worst(family: Pairs, order: float) -> float:
    """The largest Rényi divergence of any case; infinite where one neighbour rules an answer out."""
    yes, no = (
        np.where(one > 0, np.log(np.maximum(one, TINY)) + (order - 1) * _log_ratio(one, other), -np.inf)
        for one, other in ((family.here, family.there), (family.not_here, family.not_there))
    )
    return max(0.0, float(np.logaddexp(yes, no).max())) / (order - 1)


def _laplace_pld(shifts: Sequence[tuple[int, LaplaceShift]], delta: float) -> float:
    """Of queries to noisy counts. The worst case: two counts, each moved by a person's weight.

    The votes of a person's rows may also move more counts by less each. That never costs more: at every epsilon from 0
    to a + b, one count moved by a + b noise scales has delta 1 - u, with u = e^((epsilon - a - b) / 2), and two counts
    moved by a and by b have delta 1 - u - u min(a, b, (a + b - epsilon) / 2) / 2. Likewise for discrete noise.
    """
    from dp_accounting.pld import privacy_loss_distribution as distributions

    losses = [shift.change * shift.gamma for _, shift in shifts]
    if max(losses) > MAX_EPSILON:
        raise UnknownEventError("too little noise for the exact composition")
    if max(losses) > MAX_LOSS_RATIO * min(losses):
        raise UnknownEventError("noise of such different sizes has no common grid")
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
    """The least epsilon from 0 on whose delta is small enough."""
    if delta_at(0.0) <= delta:
        return 0.0
    while delta_at(ceiling) > delta:
        ceiling *= 2
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, ceiling, xtol=1e-12, rtol=1e-12))
