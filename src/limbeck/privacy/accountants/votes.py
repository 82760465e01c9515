"""What the votes themselves allow: data-dependent bounds. Whatever comes of them is private, as the votes are."""

import math

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.privacy.events import DpEvent
from limbeck.protocol.rows import Array


def check_votes(votes: Array, where: str = "votes") -> Array:
    """[queries, classes] counts: finite, none below 0."""
    if votes.ndim != 2 or votes.shape[1] < 2 or not len(votes) or votes.dtype.kind not in "fiub":
        raise LimbeckError(f"{where} must hold a row of counts for each query, not {votes.dtype} {votes.shape}")
    if not np.isfinite(votes).all() or (votes < 0).any():
        row = int((~np.isfinite(votes) | ~(votes >= 0)).any(axis=1).argmax())
        raise LimbeckError(f"{where}: row {row} holds {votes[row].tolist()}; counts are finite and not below 0")
    return votes.astype(np.float64)


def pure_data_dependent(event: DpEvent, order: Array, votes: Array) -> Array:
    """[queries, orders] Rényi divergences of order l + 1 (PATE 2017, Theorem 3), infinite where it does not apply."""
    pure = event.pure
    logq = event.mechanism.log_q(votes, event.noise)[:, None]
    q = np.exp(logq)
    applies = q < math.expm1(pure) / math.expm1(2 * pure)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        stays = np.log1p(-q) + order * (np.log1p(-q) - np.log1p(-np.exp(pure) * q))
        moment = np.logaddexp(stays, logq + pure * order)
    return np.where(applies, moment / order, np.inf)


def gaussian_data_dependent(event: DpEvent, order: Array, votes: Array) -> Array:
    """[queries, orders] Rényi divergences of GNMax and Confident-GNMax (Scalable PATE 2018, Theorem 6)."""
    terms = event.mechanism.gaussian_terms(event, votes)
    return np.asarray(sum(_theorem_6(logq[:, None], rate, order) for logq, rate in terms))


def _theorem_6(logq: Array, rate: float, order: Array) -> Array:
    """Divergence at most rate * order without the data; less where another outcome than the usual one is unlikely."""
    plain = rate * order * np.ones_like(logq)
    high2 = np.sqrt(np.maximum(-logq, 0) / rate)  # Proposition 10
    high1 = high2 + 1
    at1, at2 = rate * high1, rate * high2
    with np.errstate(all="ignore"):
        small = logq <= (high2 - 1) * at2 - high2 * (np.log1p(1 / (high1 - 1)) + np.log1p(1 / (high2 - 1)))
        applies = (high1 > order) & (high2 > 1) & (-logq > at2) & small
        stays = np.log1p(-np.exp(logq))
        log_a = (order - 1) * (stays - np.log(-np.expm1((logq + at2) * (1 - 1 / high2))))
        log_b = (order - 1) * (at1 - logq / (high1 - 1))
        bound = np.logaddexp(stays + log_a, logq + log_b) / (order - 1)
    return np.where(applies, np.minimum(plain, bound), plain)
