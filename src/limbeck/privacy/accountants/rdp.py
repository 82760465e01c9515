"""Rényi accounting: divergences of each query add up at every order; the tight conversion ends it."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from limbeck.privacy.accountants.conversion import ORDERS, epsilon_at, epsilon_of_curve
from limbeck.privacy.accountants.votes import gaussian_data_dependent, pure_data_dependent
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.losses import BoundedRange, GaussianLoss, Pure
from limbeck.protocol.rows import Array

WIDE = 300.0  # a range beyond which the pure bound does


def rdp(events: Sequence[DpEvent], delta: float, votes: Array | None = None) -> float:
    """Of any mixture of noisy maxima and Gaussian noise; with votes the data-dependent figure."""
    if votes is not None:
        return min(rdp(events, delta), _with_votes(events, delta, votes))
    curves = [_curve(event) for event in events]
    return epsilon_of_curve(lambda order: sum(curve(order) for curve in curves), delta)


def bounded_range(events: Sequence[DpEvent], delta: float) -> float:
    """Exponential mechanisms alone: the worst divergence of losses of bounded range (Dong, Durfee & Rogers 2020)."""
    for event in events:
        if not isinstance(event.loss, BoundedRange):
            raise UnknownEventError(f"{event.mechanism.name} is not known to have a bounded range")
    return rdp(events, delta)


def zcdp(events: Sequence[DpEvent], delta: float) -> float:
    """Concentrated privacy: pure e gives e^2/2, a bounded range e^2/8, Gaussian noise mu^2/2; they add up."""
    rho = sum(event.queries * _rho(event) for event in events)
    return epsilon_of_curve(lambda order: rho * order, delta)


def _rho(event: DpEvent) -> float:
    match event.loss:
        case Pure(each, parts):
            return sum([each**2] * parts) / 2
        case BoundedRange(width):
            return width**2 / 8
    return event.mu_squared / 2


def _curve(event: DpEvent) -> Callable[[float], float]:
    match event.loss:
        case Pure(each, parts, laplace):
            divergence = laplace_divergence if laplace else pure_divergence
            return lambda order: event.queries * parts * divergence(each, order)
        case BoundedRange(width):
            return lambda order: event.queries * bounded_range_divergence(width, order)
    rate = event.queries * event.mu_squared / 2
    return lambda order: rate * order


def pure_divergence(pure: float, order: float) -> float:
    """The worst of all purely private mechanisms: randomised response."""
    yes, no = -math.log1p(math.exp(-pure)), -pure - math.log1p(math.exp(-pure))
    both = np.logaddexp(order * yes + (1 - order) * no, order * no + (1 - order) * yes)
    return float(both) / (order - 1)


def laplace_divergence(pure: float, order: float) -> float:
    """Of continuous Laplace noise on one number (Mironov 2017, Proposition 6)."""
    far = math.log(order / (2 * order - 1)) + (order - 1) * pure
    near = math.log((order - 1) / (2 * order - 1)) - order * pure
    return float(np.logaddexp(far, near)) / (order - 1)


def bounded_range_divergence(width: float, order: float) -> float:
    """The worst over where the range lies: losses t and t - width, at the t where the divergence is largest.

    u^(a-1) (A - B u) / (1 - e^-w) with u = e^t, A = 1 - e^(-a w), B = e^-w (1 - e^(-(a-1) w)) has its maximum at
    u = (a-1) A / (a B).
    """
    if width > WIDE:
        return width
    top = -math.expm1(-order * width)
    slope = math.exp(-width) * -math.expm1(-(order - 1) * width)
    where = math.log((order - 1) * top / (order * slope))
    return min(width, where + math.log(top / order / -math.expm1(-width)) / (order - 1))


def _with_votes(events: Sequence[DpEvent], delta: float, votes: Array) -> float:
    [event] = events
    order = ORDERS[ORDERS < 1e4]
    if isinstance(event.loss, GaussianLoss):
        divergence = gaussian_data_dependent(event, order, votes).sum(axis=0)
    else:
        plain = np.array([_curve(event)(a) for a in order]) / event.queries
        divergence = np.minimum(plain, pure_data_dependent(event, order - 1, votes)).sum(axis=0)
    return max(0.0, float(np.nanmin(epsilon_at(order, divergence, delta))))
