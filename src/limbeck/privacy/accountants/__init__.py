"""Accountants: pure functions from events to epsilon. Each refuses a loss that it has no theorem for."""

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
    """By one accountant; `orders` is for moments, `votes` give the data-dependent epsilon of moments and rdp."""
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
    """By each accountant that has a theorem for these events."""
    found = {}
    for name in ACCOUNTANTS:
        try:
            found[name] = epsilon_by(name, events, delta, orders, votes)
        except UnknownEventError:
            continue
    if not found:
        names = ", ".join(dict.fromkeys(event.mechanism.name for event in events))
        raise UnknownEventError(f"no accountant knows how {names} compose")
    return found


def best_epsilon(events: Sequence[DpEvent], delta: float) -> tuple[float, str]:
    """The smallest data-independent epsilon, each of which is a theorem, and its accountant."""
    return least(every_epsilon(events, delta))


def least(found: Mapping[str, float]) -> tuple[float, str]:
    name = min(found, key=lambda each: found[each])
    return found[name], name


def check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise LimbeckError(f"delta must lie between 0 and 1, not {delta:g}")
