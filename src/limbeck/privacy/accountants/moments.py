"""The moments accountant as PATE and FedKT use it: whole orders 1..L, purely private mechanisms.

Per query min(e^2 l (l + 1) / 2, e l, the data-dependent term), e = 2 s gamma for a replaced party; epsilon is the least
(sum + ln(1/delta)) / l. The data-dependent term is a function of private votes, and so is what comes of it.
"""

import math
from collections.abc import Sequence

import numpy as np

from limbeck.privacy.accountants.votes import pure_data_dependent
from limbeck.privacy.events import DpEvent
from limbeck.protocol.rows import Array

ORDERS = 8


def moments(events: Sequence[DpEvent], delta: float, orders: int = ORDERS, votes: Array | None = None) -> float:
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
