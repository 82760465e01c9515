"""Matched labels: labels whose class shares are those of a prior, and estimates of this prior.

Voters that learned from rows with another class distribution still rank rows well. Only the line that they draw between
the classes is wrong.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import stats

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

Prior = Literal["estimated", "uniform"] | list[float] | tuple[float, ...]

SWEEPS = 50
BAND = 2.0  # standard errors
TINY = 1e-12  # a score of 0 would stay 0 whatever the prior
MAX_STEPS, PRECISE = 1000, 1e-6
MIN_ROWS_PER_CLASS = 5  # for a voter's estimate of the prior


def matched(scores: Array, prior: Array) -> Array:
    """Choose labels whose class shares match a prior.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Scores; a larger one is more likely.
    prior : array of shape (classes,)
        Share of each class.

    Returns
    -------
    array of shape (rows,)
        Class numbers.

    Notes
    -----
    The label of a row is the class with the largest sum of score and class offset. The offsets are found one after the
    other, with the others fixed: coordinate ascent on the dual of the best assignment of rows to classes. Rows with
    equal scores get the same label, so that shares may not match exactly. If the classes with the largest scores
    already have about the prior's shares, given the number of rows, they are kept.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25)
    >>> np.bincount(matched(scores, prior=np.array([0.5, 0.5]))).tolist()
    [50, 50]
    """
    return np.asarray((np.asarray(scores, np.float64) + class_offsets(scores, prior)).argmax(axis=1))


def class_offsets(scores: Array, prior: Array, band: float = BAND) -> Array:
    """Find the number to add to the scores of each class, so that the class shares match a prior.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Scores; a larger one is more likely.
    prior : array of shape (classes,)
        Share of each class.
    band : float
        Standard errors within which a share is kept.

    Returns
    -------
    array of shape (classes,)
        The offsets; see `matched`.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25)
    >>> class_offsets(scores, prior=np.array([0.5, 0.5])).round(2).tolist()
    [-0.5, 0.0]
    """
    values, classes = np.asarray(scores, np.float64), scores.shape[1]
    found = values.argmax(axis=1)
    wanted = np.rint(
        len(values) * _shares(np.bincount(found, minlength=classes) / len(values), prior, len(values), band)
    )
    offsets = np.zeros(classes)
    for _ in range(SWEEPS):
        if np.array_equal(np.bincount(found, minlength=classes), wanted):
            break
        before = offsets.copy()
        for one in range(classes - 1):  # offsets are only differences: the last class keeps its own
            rest = np.delete(values + offsets, one, axis=1).max(axis=1)
            offsets[one] = _cut(values[:, one] - rest, int(wanted[one]))
        found = (values + offsets).argmax(axis=1)
        if np.array_equal(before, offsets):
            break
    return offsets


def matched_shares(scores: Array, prior: Array) -> Array:
    """Compute probabilities whose mean over the rows is a prior.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Scores, at least 0, in each row not all 0; a larger one is more likely.
    prior : array of shape (classes,)
        Share of each class.

    Returns
    -------
    array of shape (rows, classes)
        Each row's scores, times a factor for each class, divided by their sum.

    Examples
    --------
    >>> matched_shares(np.array([[3.0, 1.0], [1.0, 1.0]]), np.array([0.5, 0.5])).round(3).tolist()
    [[0.634, 0.366], [0.366, 0.634]]
    """
    shares = np.maximum(np.asarray(scores, np.float64), TINY)
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(MAX_STEPS):
        found = shares.mean(axis=0)
        shares *= np.divide(prior, found, out=np.zeros_like(found), where=found > 0)
        shares /= shares.sum(axis=1, keepdims=True)
        if np.abs(found - prior).max() < PRECISE:
            break
    return shares


def simultaneous_band(classes: int) -> float:
    """Return the standard errors within which the shares of all classes lie together, as often as one lies within two.

    Parameters
    ----------
    classes : int
        Number of classes.

    Examples
    --------
    >>> [round(simultaneous_band(classes), 2) for classes in (2, 3, 10)]
    [2.0, 2.28, 2.8]
    """
    return float(stats.norm.isf(stats.norm.sf(BAND) / (classes - 1)))


def _shares(found: Array, prior: Array, rows: int, errors: float) -> Array:
    """The shares that classes should have: between those that were found and the prior.

    If rows are drawn from the prior, a share lies within some standard errors of it, and is kept. For a share at a
    larger distance d, the distance is reduced to band^2 / d.
    """
    band = errors * np.sqrt(prior * (1 - prior) / rows)
    off = found - prior
    limited = np.where(np.abs(off) <= band, off, band**2 / np.where(off == 0, 1.0, off))
    shares = np.maximum(prior + limited, 0.0)
    return np.asarray(shares / shares.sum()) if shares.any() else prior


def _cut(lead: Array, wanted: int) -> float:
    """The offset with which about `wanted` of the leads are above 0; equal leads stay together."""
    order = np.sort(lead)[::-1]
    ends = np.concatenate([[order[0] + 1.0], order, [order[-1] - 1.0]])
    cuts = np.flatnonzero(ends[:-1] > ends[1:])  # so many leads lie above each
    best = int(cuts[np.abs(cuts - wanted).argmin()])
    return -float(ends[best] + ends[best + 1]) / 2


def check_prior(prior: Prior) -> None:
    """Raise LimbeckError if a prior is not finite, has negative shares, or is all 0.

    Parameters
    ----------
    prior : "estimated", "uniform", or list of float
        The parameter `prior` of an algorithm.
    """
    if not isinstance(prior, str) and not min(prior, default=0) >= 0 < sum(prior) < np.inf:
        raise LimbeckError(f"prior must be finite, not negative, and not all be 0: {prior}")


def shares_of(prior: Prior | Array, classes: int) -> Array:
    """Compute class shares from a prior or from class counts.

    Parameters
    ----------
    prior : str, list of float or array of shape (classes,)
        Shares or counts, not negative, whose sum need not be 1. A string means equal shares.
    classes : int
        Number of classes.

    Returns
    -------
    array of shape (classes,)
        Shares with sum 1; equal shares if all given ones are 0.

    Raises
    ------
    LimbeckError
        If the number of shares is not the number of classes.

    Examples
    --------
    >>> shares_of(np.array([30.0, 0.0, 10.0]), classes=3).tolist()
    [0.75, 0.0, 0.25]
    >>> shares_of("uniform", classes=2).tolist()
    [0.5, 0.5]
    """
    given = np.ones(classes) if isinstance(prior, str) else np.asarray(prior, np.float64)
    if len(given) != classes:
        raise LimbeckError(
            f"algorithm.prior has {len(given)} shares, but there are {classes} classes; give one share for each"
        )
    return np.asarray(given / given.sum()) if given.any() else shares_of("uniform", classes)


def estimated_shares(scores: Sequence[Array], labels: Array, subsets: Sequence[Array]) -> Array:
    """Estimate the shares of two classes among the public rows, from the teachers of one voter.

    Parameters
    ----------
    scores : sequence of array of shape (public rows + labelled rows, 2)
        Scores of each teacher: first of the public rows, then of all labelled rows of the voter.
    labels : array of shape (labelled rows,)
        Classes of the labelled rows.
    subsets : sequence of array
        For each teacher the numbers of the labelled rows that it has learned, which are not used.

    Returns
    -------
    array of shape (2,)
        Shares with sum 1; [0, 0] without an estimate.
    """
    public = len(scores[0]) - len(labels)
    own = [np.delete(each[public:, 1], rows) for each, rows in zip(scores, subsets, strict=True)]
    unlearned = [np.delete(labels, rows) for rows in subsets]
    found = label_shift(np.concatenate(own), np.concatenate(unlearned), np.concatenate([s[:public, 1] for s in scores]))
    return np.array([0.0, 0.0] if found is None or not np.isfinite(found) else [1 - found, found])


def weighted_shares(shares: Array, labels: Array, weight: Array | None) -> Array:
    """Multiply the shares of classes by the mean sample weights of their rows.

    Parameters
    ----------
    shares : array of shape (classes,)
        Shares with sum 1, or all 0.
    labels : array of shape (rows,)
        Classes of a party's rows.
    weight : array of shape (rows,) or None
        Their sample weights.

    Returns
    -------
    array of shape (classes,)
        Shares with sum 1; all 0 if no class with a share has a weight.

    Examples
    --------
    >>> weighted_shares(np.array([0.8, 0.2]), np.array([0, 0, 1]), np.array([0.1, 0.4, 1.0])).tolist()
    [0.5, 0.5]
    """
    if weight is None:
        return shares
    rows = np.bincount(labels, minlength=len(shares))
    found = shares * np.bincount(labels, weight, minlength=len(shares)) / np.maximum(rows, 1)
    return np.asarray(found / found.sum()) if found.any() else np.zeros(len(shares))


def label_shift(own: Array, labels: Array, public: Array) -> float | None:
    """Estimate the share of the second of two classes among the public rows.

    Parameters
    ----------
    own : array of shape (labelled rows,)
        Scores of the second class on labelled rows that the model has not learned.
    labels : array of shape (labelled rows,)
        Their classes, 0 or 1.
    public : array of shape (public rows,)
        Scores of the second class on the public rows.

    Returns
    -------
    float or None
        The share, from 0 to 1. None if a class has fewer than 5 rows, or does not score higher on its own rows.

    Notes
    -----
    With the mean scores m0 and m1 of the rows of each class, and m of the public rows: (m - m0) / (m1 - m0), which is
    black box shift estimation (Lipton, Wang & Smola 2018) with soft predictions.

    Examples
    --------
    >>> own, labels = np.array([0.2] * 5 + [0.8] * 5), np.array([0] * 5 + [1] * 5)
    >>> round(label_shift(own, labels, public=np.array([0.35, 0.35])), 6)
    0.25
    """
    first, second = own[labels == 0], own[labels == 1]
    if min(len(first), len(second)) < MIN_ROWS_PER_CLASS or not second.mean() > first.mean():
        return None
    return float(np.clip((public.mean() - first.mean()) / (second.mean() - first.mean()), 0.0, 1.0))
