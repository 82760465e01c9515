"""What the votes themselves allow: data-dependent bounds. Whatever comes of them is private, as the votes are."""

import math

import numpy as np
from scipy import special

from limbeck.errors import LimbeckError
from limbeck.privacy.events import Spend, UnknownSpendError
from limbeck.privacy.mechanisms import ConfidentGaussian, Gaussian, Gumbel, Laplace
from limbeck.protocol.rows import Array


def check_votes(votes: Array, where: str = "votes") -> Array:
    """[queries, classes] counts: finite, none below 0."""
    if votes.ndim != 2 or votes.shape[1] < 2 or not len(votes) or votes.dtype.kind not in "fiub":
        raise LimbeckError(f"{where} must hold a row of counts for each query, not {votes.dtype} {votes.shape}")
    if not np.isfinite(votes).all() or (votes < 0).any():
        row = int((~np.isfinite(votes) | ~(votes >= 0)).any(axis=1).argmax())
        raise LimbeckError(f"{where}: row {row} holds {votes[row].tolist()}; counts are finite and not below 0")
    return votes.astype(np.float64)


def log_q(mechanism: Laplace | Gumbel | Gaussian, votes: Array) -> Array:
    """A bound on the chance that another class than the leading one is published, as a logarithm.

    Laplace: FedKT's Lemma 7 (PATE 2017, Lemma 4); it takes the plain gamma, for the gaps carry s already. Gaussian:
    Scalable PATE 2018, Proposition 7. Gumbel: the exponential mechanism's own probability.
    """
    gaps = np.sort(votes, axis=1)[:, -1:] - np.sort(votes, axis=1)[:, :-1]
    match mechanism:
        case Laplace(gamma):
            return np.asarray(special.logsumexp(np.log((2 + gamma * gaps) / 4) - gamma * gaps, axis=1))
        case Gumbel(gamma):
            others = special.logsumexp(-gamma * gaps, axis=1)
            return np.asarray(others - np.logaddexp(0, others))
        case Gaussian(sigma):
            union = special.logsumexp(special.log_ndtr(-gaps / (math.sqrt(2) * sigma)), axis=1)
            return np.asarray(np.minimum(union, math.log(1 - 1 / votes.shape[1])))


def pure_data_dependent(spend: Spend, order: Array, votes: Array) -> Array:
    """[queries, orders] Rényi divergences of order l + 1 (PATE 2017, Theorem 3), infinite where it does not apply."""
    if spend.noise == "secure" and isinstance(spend.mechanism, Laplace):
        raise UnknownSpendError("the data-dependent bound is for continuous Laplace noise, not for discrete")
    pure = spend.pure
    logq = log_q(spend.mechanism, votes)[:, None]
    q = np.exp(logq)
    applies = q < math.expm1(pure) / math.expm1(2 * pure)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        stays = np.log1p(-q) + order * (np.log1p(-q) - np.log1p(-np.exp(pure) * q))
        moment = np.logaddexp(stays, logq + pure * order)
    return np.where(applies, moment / order, np.inf)


def gaussian_data_dependent(spend: Spend, order: Array, votes: Array) -> Array:
    """[queries, orders] Rényi divergences of GNMax and Confident-GNMax (Scalable PATE 2018, Theorem 6)."""
    match spend.mechanism:
        case Gaussian(sigma):
            rate = spend.moved * spend.weight**2 / (2 * sigma**2)
            return _theorem_6(log_q(spend.mechanism, votes)[:, None], rate, order)
        case ConfidentGaussian(sigma, check, threshold):
            reached = special.log_ndtr((votes.max(axis=1) - threshold) / check)
            missed = special.log_ndtr((threshold - votes.max(axis=1)) / check)
            checked = _theorem_6(np.minimum(reached, missed)[:, None], spend.weight**2 / (2 * check**2), order)
            rate = spend.moved * spend.weight**2 / (2 * sigma**2)
            return checked + _theorem_6(log_q(Gaussian(sigma), votes)[:, None], rate, order)
    raise UnknownSpendError(f"no data-dependent bound for {spend.mechanism.name}")


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
        log_a = (order - 1) * (stays - _log1mexp((logq + at2) * (1 - 1 / high2)))
        log_b = (order - 1) * (at1 - logq / (high1 - 1))
        bound = np.logaddexp(stays + log_a, logq + log_b) / (order - 1)
    return np.where(applies, np.minimum(plain, bound), plain)


def _log1mexp(x: Array) -> Array:
    """log(1 - e^x) for x < 0."""
    return np.log(-np.expm1(x))
