"""What a run's releases cost, per observer."""

import math
from collections.abc import Iterable

from limbeck.errors import LimbeckError
from limbeck.protocol.release import Release


def epsilon_by_observer(releases: Iterable[Release]) -> dict[str, float]:
    """Epsilon towards each observer who sees anything; an observer who sees nothing is not named (epsilon 0)."""
    total: dict[str, float] = {}
    for row in releases:
        total[row.observer] = total.get(row.observer, 0.0) + _epsilon(row)
    return total


def _epsilon(row: Release) -> float:
    match row.mechanism:
        case "unprotected":
            return math.inf
        case "nothing-private":
            return 0.0
        case _:
            raise LimbeckError(f"no accountant knows the mechanism {row.mechanism!r}")
