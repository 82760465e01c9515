"""Accountants: pure functions from spends to epsilon. Each refuses what it has no theorem for."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants.composition import basic, binary, binary_rdp, gaussian, kov, mixed, pld
from limbeck.privacy.accountants.moments import ORDERS, moments
from limbeck.privacy.accountants.rdp import bounded_range, rdp, zcdp
from limbeck.privacy.events import Spend, UnknownSpendError
from limbeck.protocol.rows import Array

Accountant = Callable[[Sequence[Spend], float], float]
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
    name: str, spends: Sequence[Spend], delta: float, orders: int = ORDERS, votes: Array | None = None
) -> float:
    """By one accountant; `orders` is for moments, `votes` give the data-dependent figure of moments and rdp."""
    if name not in ACCOUNTANTS:
        raise LimbeckError(f"unknown accountant {name!r}; {did_you_mean(name, [*ACCOUNTANTS, 'best'])}")
    check_delta(delta)
    if not sum(spend.queries for spend in spends):
        return 0.0
    if any(spend.bare for spend in spends):
        return math.inf
    special = {
        "moments": partial(moments, orders=orders, votes=votes),
        "rdp": partial(rdp, votes=votes),
    }
    try:
        return special.get(name, ACCOUNTANTS[name])(spends, delta)
    except UnknownSpendError as error:
        raise UnknownSpendError(f"{name}: {error}") from error


def every_epsilon(
    spends: Sequence[Spend], delta: float, orders: int = ORDERS, votes: Array | None = None
) -> dict[str, float]:
    """By each accountant that has a theorem for these spends."""
    found = {}
    for name in ACCOUNTANTS:
        try:
            found[name] = epsilon_by(name, spends, delta, orders, votes)
        except UnknownSpendError:
            continue
    if not found:
        told = ", ".join(dict.fromkeys(spend.mechanism.name for spend in spends))
        raise UnknownSpendError(f"no accountant knows how {told} compose")
    return found


def best_epsilon(spends: Sequence[Spend], delta: float, orders: int = ORDERS) -> tuple[float, str]:
    """The least of the data-independent figures, each of which is a theorem, and whose it is."""
    return least(every_epsilon(spends, delta, orders))


def least(found: Mapping[str, float]) -> tuple[float, str]:
    name = min(found, key=lambda each: found[each])
    return found[name], name


def check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise LimbeckError(f"delta must lie between 0 and 1, not {delta:g}")
