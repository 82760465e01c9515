"""Data-dependent bounds, which use the votes themselves. Their results are as private as the votes."""

import math

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.privacy.events import DpEvent
from limbeck.protocol.rows import Array


def check_votes(votes: Array, where: str = "votes") -> Array:
    """Check vote counts: finite numbers, none below 0.

    Parameters
    ----------
    votes : array of shape (queries, classes)
        Vote counts.
    where : str
        Name of the counts in error messages, for example of their file.

    Returns
    -------
    array of shape (queries, classes)
        The counts as floats.

    Raises
    ------
    LimbeckError
        If the shape, the type or a count is wrong.

    Examples
    --------
    >>> check_votes(np.array([[3, 4], [5, 6]]))
    array([[3., 4.],
           [5., 6.]])
    """
    if votes.ndim != 2 or votes.shape[1] < 2 or not len(votes) or votes.dtype.kind not in "fiub":
        raise LimbeckError(f"{where} must hold a row of counts for each query, not {votes.dtype} {votes.shape}")
    if not np.isfinite(votes).all() or (votes < 0).any():
        row = int((~np.isfinite(votes) | ~(votes >= 0)).any(axis=1).argmax())
        raise LimbeckError(f"{where}: row {row} holds {votes[row].tolist()}; counts are finite and not below 0")
    return votes.astype(np.float64)


def pure_data_dependent(event: DpEvent, order: Array, votes: Array) -> Array:
    """Data-dependent Rényi divergences of a mechanism with pure differential privacy (PATE 2017, Theorem 3).

    Parameters
    ----------
    event : DpEvent
        The queries, with a pure epsilon e for each.
    order : array of shape (orders,)
        Orders l of the moments; the Rényi divergences are of order l + 1.
    votes : array of shape (queries, classes)
        Vote counts.

    Returns
    -------
    array of shape (queries, orders)
        Divergences; infinite where the theorem does not apply.

    Notes
    -----
    With q the bound of FedKT's Lemma 7, moment(l) = log((1 - q) ((1 - q) / (1 - exp(e) q))^l + q exp(e l)), for
    q < (exp(e) - 1) / (exp(2 e) - 1). FedKT's Theorem 2 has e = 2 s gamma, but Lemma 7 keeps the plain gamma.
    """
    pure = event.pure
    logq = event.mechanism.log_q(votes, event.noise)[:, None]
    q = np.exp(logq)
    applies = q < math.expm1(pure) / math.expm1(2 * pure)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        stays = np.log1p(-q) + order * (np.log1p(-q) - np.log1p(-np.exp(pure) * q))
        moment = np.logaddexp(stays, logq + pure * order)
    return np.where(applies, moment / order, np.inf)


def gaussian_data_dependent(event: DpEvent, order: Array, votes: Array) -> Array:
    """Data-dependent Rényi divergences of GNMax and Confident-GNMax (Scalable PATE 2018, Theorem 6).

    Parameters
    ----------
    event : DpEvent
        The queries.
    order : array of shape (orders,)
        Orders of the divergences.
    votes : array of shape (queries, classes)
        Vote counts.

    Returns
    -------
    array of shape (queries, orders)
        Divergences.
    """
    terms = event.mechanism.gaussian_terms(event, votes)
    return np.asarray(sum(_theorem_6(logq[:, None], rate, order) for logq, rate in terms))


def _theorem_6(logq: Array, rate: float, order: Array) -> Array:
    """Rényi divergences: at most rate * order without the data, less where the less likely outcome is very unlikely."""
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
