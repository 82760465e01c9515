"""Conversion of Rényi divergences to epsilon and delta."""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from limbeck.protocol.rows import Array

ORDERS = 1 + np.geomspace(1e-3, 1e6, 400)  # grid of orders; the best one is then refined


def epsilon_at(order: Array, divergence: Array, delta: float) -> Array:
    """Epsilon at each order, by the tight conversion.

    Parameters
    ----------
    order : array
        Orders above 1.
    divergence : array of the same shape
        Rényi divergences at these orders.
    delta : float
        Delta.

    Returns
    -------
    array of the same shape
        Epsilons.

    Notes
    -----
    Canonne, Kamath & Steinke 2020, Proposition 12, for order a and divergence D:
    epsilon = D + log(1 - 1/a) - log(delta a) / (a - 1).

    Examples
    --------
    >>> epsilon_at(np.array([2.0, 11.0]), np.array([0.2, 1.1]), 1e-5).round(4)
    array([10.3266,  1.9162])
    """
    return np.asarray(divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))


def epsilon_of_curve(divergence: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon over all orders above 1.

    Parameters
    ----------
    divergence : function of float to float
        Rényi divergence at an order.
    delta : float
        Delta.

    Returns
    -------
    float
        Epsilon, at least 0.

    Examples
    --------
    Zero-concentrated differential privacy with rho = 0.1:

    >>> round(epsilon_of_curve(lambda order: 0.1 * order, 1e-5), 4)
    1.9142
    """

    def at(x: float) -> float:
        order = 1 + math.exp(x)
        return float(epsilon_at(np.asarray(order), np.asarray(divergence(order)), delta))

    positions = np.log(ORDERS - 1)
    coarse = np.array([at(x) for x in positions])
    best = int(np.nanargmin(coarse))
    low, high = positions[max(best - 1, 0)], positions[min(best + 1, len(positions) - 1)]
    polished = optimize.minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return max(0.0, min(float(polished.fun), float(coarse[best])))
