"""From Rényi divergences to (epsilon, delta)."""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from limbeck.protocol.rows import Array

ORDERS = 1 + np.geomspace(1e-3, 1e6, 400)  # where the best order is looked for before it is polished


def epsilon_at(order: Array, divergence: Array, delta: float) -> Array:
    """The tight conversion at each order (Canonne, Kamath & Steinke 2020, Proposition 12)."""
    return np.asarray(divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))


def epsilon_of_curve(divergence: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon over all orders above 1 of a curve of Rényi divergences."""

    def at(x: float) -> float:
        order = 1 + math.exp(x)
        return float(epsilon_at(np.asarray(order), np.asarray(divergence(order)), delta))

    positions = np.log(ORDERS - 1)
    coarse = np.array([at(x) for x in positions])
    best = int(np.nanargmin(coarse))
    low, high = positions[max(best - 1, 0)], positions[min(best + 1, len(positions) - 1)]
    polished = optimize.minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return max(0.0, min(float(polished.fun), float(coarse[best])))
