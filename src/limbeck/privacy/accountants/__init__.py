"""Accountants: pure functions from events to epsilon. Each rejects a loss that its theorem does not cover."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants.composition import basic, binary, binary_rdp, gaussian, kov, mixed, pld
from limbeck.privacy.accountants.moments import ORDERS, moments
from limbeck.privacy.accountants.rdp import bounded_range, rdp, zcdp
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.losses import NoLoss
from limbeck.protocol.rows import Array

Accountant = Callable[[Sequence[DpEvent], float], float]
ACCOUNTANTS: dict[str, Accountant] = {
    "moments": moments,
    "rdp": rdp,
    "zcdp": zcdp,
    "bounded-range": bounded_range,
    "basic": basic,
    "kov": kov,
    "pld": pld,
    "mixed": mixed,
    "gaussian": gaussian,
    "binary-rdp": binary_rdp,
    "binary": binary,
}


def epsilon_by(
    name: str, events: Sequence[DpEvent], delta: float, orders: int = ORDERS, votes: Array | None = None
) -> float:
    """Epsilon of events by one accountant.

    Parameters
    ----------
    name : str
        Name of the accountant, a key of `ACCOUNTANTS`.
    events : sequence of DpEvent
        Queries that compose.
    delta : float
        Delta, above 0 and below 1.
    orders : int
        Largest order of `moments`.
    votes : array of shape (queries, classes), optional
        Vote counts. With them `moments` and `rdp` give their data-dependent epsilon, which is private itself.

    Returns
    -------
    float
        Epsilon; 0 without queries, infinite if an event is unprotected.

    Raises
    ------
    UnknownEventError
        If the theorem of the accountant does not cover the events.
    LimbeckError
        If there is no such accountant, or delta is not between 0 and 1.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gumbel, Laplace
    >>> laplace, gumbel = DpEvent(Laplace(gamma=0.05), queries=40), DpEvent(Gumbel(gamma=0.05), queries=40)
    >>> {name: round(epsilon_by(name, [laplace], 1e-5), 4) for name in ("basic", "moments", "kov")}
    {'basic': 4.0, 'moments': 3.2391, 'kov': 2.5054}
    >>> round(epsilon_by("bounded-range", [gumbel], 1e-5), 4)
    1.2889
    """
    if name not in ACCOUNTANTS:
        raise LimbeckError(f"unknown accountant {name!r}; {did_you_mean(name, [*ACCOUNTANTS, 'best'])}")
    check_delta(delta)
    events = [event for event in events if not isinstance(event.loss, NoLoss)]
    if not sum(event.queries for event in events):
        return 0.0
    if any(event.is_unprotected for event in events):
        return math.inf
    special = {"moments": partial(moments, orders=orders, votes=votes), "rdp": partial(rdp, votes=votes)}
    try:
        return special.get(name, ACCOUNTANTS[name])(events, delta)
    except UnknownEventError as error:
        raise UnknownEventError(f"{name}: {error}") from error


def every_epsilon(
    events: Sequence[DpEvent], delta: float, orders: int = ORDERS, votes: Array | None = None
) -> dict[str, float]:
    """Epsilon of events by each accountant that has a theorem for them.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries that compose.
    delta : float
        Delta, above 0 and below 1.
    orders : int
        Largest order of `moments`.
    votes : array of shape (queries, classes), optional
        Vote counts. With them `moments` and `rdp` give their data-dependent epsilon, which is private itself.

    Returns
    -------
    dict of str to float
        Epsilon by name of the accountant.

    Raises
    ------
    UnknownEventError
        If no accountant covers the events.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> found = every_epsilon([DpEvent(Gaussian(sigma=40.0), queries=1000)], 1e-5)
    >>> {name: round(epsilon, 4) for name, epsilon in found.items()}
    {'rdp': 5.3777, 'zcdp': 5.3777, 'gaussian': 4.9833}
    """
    found = {}
    for name in ACCOUNTANTS:
        try:
            found[name] = epsilon_by(name, events, delta, orders, votes)
        except UnknownEventError:
            continue
    if not found:
        names = ", ".join(dict.fromkeys(event.mechanism.name for event in events))
        raise UnknownEventError(f"no accountant has a theorem for the composition of {names}")
    return found


def best_epsilon(events: Sequence[DpEvent], delta: float) -> tuple[float, str]:
    """Smallest data-independent epsilon, and its accountant.

    The epsilon of each accountant is a theorem, so the smallest one is too.

    Parameters
    ----------
    events : sequence of DpEvent
        Queries that compose.
    delta : float
        Delta, above 0 and below 1.

    Returns
    -------
    (float, str)
        Epsilon, and the name of the accountant.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> epsilon, accountant = best_epsilon([DpEvent(Gaussian(sigma=40.0), queries=1000)], 1e-5)
    >>> round(epsilon, 4), accountant
    (4.9833, 'gaussian')
    """
    return least(every_epsilon(events, delta))


def least(found: Mapping[str, float]) -> tuple[float, str]:
    """Smallest epsilon, and the name of its accountant.

    Examples
    --------
    >>> least({"basic": 4.0, "kov": 2.5})
    (2.5, 'kov')
    """
    name = min(found, key=lambda each: found[each])
    return found[name], name


def check_delta(delta: float) -> None:
    """Raise `LimbeckError` unless delta lies between 0 and 1."""
    if not 0 < delta < 1:
        raise LimbeckError(f"delta must lie between 0 and 1, not {delta:g}")
