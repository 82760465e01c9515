"""Robust means: a consensus of parties of which some may be Byzantine (Cronus, Chang et al. 2019)."""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from limbeck.protocol.rows import Array

Rule = Literal["mean", "median", "trimmed"]
Trimmed = Annotated[float, Field(ge=0, lt=0.5)]  # share of parties that are left out at either end
DEFAULT_TRIMMED = 0.2
FAR, MIN_SPREAD = 6.0, 0.02  # of the parties' agreement rates


def trimmed_rule(rule: str, trimmed: float) -> tuple[bool, str]:
    """Rule that a share to leave out is given for the trimmed mean only; see `check_rules`.

    Parameters
    ----------
    rule : str
        Which mean.
    trimmed : float
        The share.

    Returns
    -------
    bool, str
        Whether the rule holds, and the message otherwise.

    Examples
    --------
    >>> trimmed_rule("mean", 0.3)
    (False, 'trimmed is for consensus = "trimmed"')
    """
    return rule == "trimmed" or trimmed == DEFAULT_TRIMMED, 'trimmed is for consensus = "trimmed"'


def robust_mean(values: Array, rule: Rule, trimmed: float) -> Array:
    """Compute the mean, median or trimmed mean over parties, value by value.

    Parameters
    ----------
    values : array of shape (parties, ...)
        Values of each party.
    rule : {"mean", "median", "trimmed"}
        Which mean.
    trimmed : float
        For "trimmed", the share of parties that are left out at either end, rounded up. So many parties may be
        Byzantine.

    Returns
    -------
    array of shape (...)
        The mean.

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [3.0], [1000.0]])
    >>> [robust_mean(values, rule, 0.25).item() for rule in ("mean", "median", "trimmed")]
    [251.5, 2.5, 2.5]
    """
    if rule == "median":
        return np.asarray(np.median(values, axis=0))
    if rule == "mean":
        return np.asarray(values.mean(axis=0))
    out = min(math.ceil(trimmed * len(values)), (len(values) - 1) // 2)
    return np.asarray(np.sort(values, axis=0)[out : len(values) - out].mean(axis=0))


def agreeing(labels: Array, agreed: Array) -> Array:
    """Find the parties whose labels agree with a consensus about as often as those of most parties.

    A party is left out if its agreement rate is below the median by more than 6 times the median absolute deviation. At
    least half of the parties stay.

    Parameters
    ----------
    labels : array of shape (parties, voters, rows)
        Labels of each voter of each party.
    agreed : array of shape (rows,)
        Labels of the consensus.

    Returns
    -------
    array of bool of shape (parties,)
        True for parties that stay.

    Examples
    --------
    >>> labels = np.array([[[0, 1, 1, 0]], [[0, 1, 1, 0]], [[0, 1, 1, 1]], [[1, 0, 0, 1]]])
    >>> agreeing(labels, np.array([0, 1, 1, 0])).tolist()
    [True, True, True, False]
    """
    often = (labels == agreed).mean(axis=(1, 2))
    middle = np.median(often)
    spread = max(float(np.median(np.abs(often - middle))), MIN_SPREAD)
    return np.asarray(often >= middle - FAR * spread)


def plausible_counts(counts: Array) -> Array:
    """Add up class counts such that a few Byzantine parties can change the sum little.

    No party counts for more rows than the median party. A party does not count if its class distribution is more than
    three times as far from the median distribution as that of the median party.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Class counts that parties reported; negative ones count as 0.

    Returns
    -------
    array of shape (classes,)
        Class counts of all parties together.

    Examples
    --------
    >>> plausible_counts(np.array([[10, 10], [12, 8], [8, 12], [1e9, 0]])).tolist()
    [30.0, 30.0]
    """
    held = np.maximum(counts, 0.0)
    held = held[held.sum(axis=1) > 0]
    if not len(held):
        return np.zeros(counts.shape[1])
    totals = held.sum(axis=1)
    distributions = held / totals[:, None]
    away = np.abs(distributions - np.median(distributions, axis=0)).sum(axis=1)
    rows = np.minimum(totals, np.median(totals)) * (away <= 3 * np.median(away))
    return np.asarray(rows @ distributions)


def combined(votes: Array, rule: Rule | Literal["filtered"], trimmed: float) -> tuple[Array, Array]:
    """Combine the votes of all parties into scores.

    Parameters
    ----------
    votes : array of shape (parties, rows, classes)
        Votes.
    rule : {"mean", "median", "trimmed", "filtered"}
        How: the sum, the median, the trimmed mean, or the sum over parties that agree with the median (`agreeing`).
    trimmed : float
        Share of parties that are left out at either end, for "trimmed".

    Returns
    -------
    scores : array of shape (rows, classes)
        Scores.
    excluded : array of bool of shape (parties,)
        True for parties that were left out by "filtered".
    """
    if rule in ("median", "trimmed"):
        return robust_mean(votes, rule, trimmed), np.zeros(len(votes), bool)
    included = np.ones(len(votes), bool)
    if rule == "filtered":
        agreed = robust_mean(votes, "median", trimmed).argmax(axis=1)
        included = agreeing(votes.argmax(axis=2)[:, None], agreed)
    return np.asarray(votes[included].sum(axis=0)), ~included
