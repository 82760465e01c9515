"""Rényi accountants: at every order the divergences of all queries add up, and are then converted to epsilon."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from limbeck.privacy.accountants.conversion import ORDERS, epsilon_at, epsilon_of_curve
from limbeck.privacy.accountants.votes import gaussian_data_dependent, pure_data_dependent
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.losses import BoundedRange, GaussianLoss, Pure
from limbeck.protocol.rows import Array

WIDE = 300.0  # width of a range above which the pure bound is used


def rdp(events: Sequence[DpEvent], delta: float, votes: Array | None = None) -> float:
    """Epsilon of noisy maxima and Gaussian noise in any combination, by Rényi differential privacy (Mironov 2017).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries that compose; one event if there are `votes`.
    delta : float
        Delta.
    votes : array of shape (queries, classes), optional
        Vote counts, for the data-dependent epsilon, which is as private as the votes.

    Returns
    -------
    float
        Epsilon.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> round(rdp([DpEvent(Gaussian(sigma=40.0), queries=1000)], 1e-5), 4)
    5.3777
    """
    if votes is not None:
        return min(rdp(events, delta), _with_votes(events, delta, votes))
    curves = [_curve(event) for event in events]
    return epsilon_of_curve(lambda order: sum(curve(order) for curve in curves), delta)


def bounded_range(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon of exponential mechanisms, by the worst Rényi divergence of a bounded range (Dong, Durfee & Rogers 2020).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries whose losses have a bounded range.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gumbel
    >>> round(bounded_range([DpEvent(Gumbel(gamma=0.05), queries=40)], 1e-5), 4)
    1.2889
    """
    for event in events:
        if not isinstance(event.loss, BoundedRange):
            raise UnknownEventError(f"{event.mechanism.name} is not known to have a bounded range")
    return rdp(events, delta)


def zcdp(events: Sequence[DpEvent], delta: float) -> float:
    """Epsilon by zero-concentrated differential privacy (Bun & Steinke 2016).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries that compose.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon.

    Notes
    -----
    The rho of all queries add up: e^2/2 for a pure epsilon e, e^2/8 for a bounded range of width e (Cesar & Rogers
    2021), mu^2/2 for Gaussian noise with sensitivity mu sigma.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gumbel
    >>> round(zcdp([DpEvent(Gumbel(gamma=0.05), queries=40)], 1e-5), 4)
    1.3081
    """
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
    """Rényi divergence of randomized response: the worst of all mechanisms with this pure epsilon.

    Parameters
    ----------
    pure : float
        Pure epsilon.
    order : float
        Order, above 1.

    Returns
    -------
    float
        Rényi divergence.
    """
    yes, no = -math.log1p(math.exp(-pure)), -pure - math.log1p(math.exp(-pure))
    both = np.logaddexp(order * yes + (1 - order) * no, order * no + (1 - order) * yes)
    return float(both) / (order - 1)


def laplace_divergence(pure: float, order: float) -> float:
    """Rényi divergence of continuous Laplace noise on one number (Mironov 2017, Proposition 6).

    Parameters
    ----------
    pure : float
        Pure epsilon: sensitivity divided by noise scale.
    order : float
        Order, above 1.

    Returns
    -------
    float
        Rényi divergence.

    Examples
    --------
    >>> laplace_divergence(0.1, 2.0) < pure_divergence(0.1, 2.0) < 0.1
    True
    """
    far = math.log(order / (2 * order - 1)) + (order - 1) * pure
    near = math.log((order - 1) / (2 * order - 1)) - order * pure
    return float(np.logaddexp(far, near)) / (order - 1)


def bounded_range_divergence(width: float, order: float) -> float:
    """Rényi divergence of the worst mechanism with a bounded range.

    Parameters
    ----------
    width : float
        Width w of the range.
    order : float
        Order a, above 1.

    Returns
    -------
    float
        Rényi divergence.

    Notes
    -----
    The worst mechanism has the two losses t and t - w. With u = e^t, A = 1 - e^(-a w) and
    B = e^-w (1 - e^(-(a-1) w)), the exponential of (a - 1) times the divergence is u^(a-1) (A - B u) / (1 - e^-w). It
    is largest at u = (a-1) A / (a B).

    Examples
    --------
    >>> bounded_range_divergence(0.1, 2.0) < pure_divergence(0.1, 2.0)
    True
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
