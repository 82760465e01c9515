"""What a run's releases cost, per observer."""

import math
from collections.abc import Iterable

from limbeck.errors import LimbeckError
from limbeck.protocol.release import Release


def epsilon_by_observer(releases: Iterable[Release]) -> dict[str, float]:
    """Epsilon towards each observer who sees anything; an observer who sees nothing is not named (epsilon 0)."""
    return {row.observer: _epsilon(row) for row in releases}


def _epsilon(row: Release) -> float:
    if row.mechanism != "unprotected":
        raise LimbeckError(f"no accountant knows the mechanism {row.mechanism!r}")
    return math.inf
