"""The moments accountant of PATE and FedKT, for mechanisms with pure differential privacy."""

import math
from collections.abc import Sequence

import numpy as np

from limbeck.privacy.accountants.votes import pure_data_dependent
from limbeck.privacy.events import DpEvent
from limbeck.protocol.rows import Array

ORDERS = 8


def moments(events: Sequence[DpEvent], delta: float, orders: int = ORDERS, votes: Array | None = None) -> float:
    """Epsilon by the moments accountant (PATE 2017, Theorems 2 and 3; FedKT, Theorem 2).

    Parameters
    ----------
    events : sequence of DpEvent
        Queries with a pure epsilon.
    delta : float
        Delta.
    orders : int
        Largest order L.
    votes : array of shape (queries, classes), optional
        Vote counts, for the data-dependent epsilon, which is as private as the votes.

    Returns
    -------
    float
        Epsilon.

    Notes
    -----
    With pure epsilon e of a query (2 s gamma for a replaced party), the moment of order l is at most
    min(e^2 l (l + 1) / 2, e l, data-dependent term). Epsilon is the minimum over l = 1..L of
    (sum of the moments + ln(1 / delta)) / l.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Laplace
    >>> round(moments([DpEvent(Laplace(gamma=0.05), queries=40)], 1e-5), 4)
    3.2391
    """
    order = np.arange(1, orders + 1)
    total = sum(_of(event, order, votes) for event in events)
    return float(((total + math.log(1 / delta)) / order).min())


def _of(event: DpEvent, order: Array, votes: Array | None) -> Array:
    pure = np.float64(event.pure)
    with np.errstate(over="ignore"):
        plain = np.minimum(pure**2 * order * (order + 1) / 2, pure * order)
    if votes is None:
        return np.asarray(event.queries * plain)
    return np.asarray(np.minimum(plain, order * pure_data_dependent(event, order, votes)).sum(axis=0))
