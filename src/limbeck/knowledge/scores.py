"""Scores that models predict for public rows (logits, probabilities or labels), and their consensus."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from limbeck.knowledge.votes import winners
from limbeck.protocol.rows import Array

ScoreFormat = Literal["logits", "softmax", "argmax"]
MAX_SCORE = 2.0**100  # about 1e30; sums and means of such scores are finite in float32
MIN_PROBABILITY = 1e-2  # smaller ones are raised to it: the zeros of a tree would outweigh all other logits


def in_format(logits: Array, score_format: str) -> Array:
    """Convert logits to the format in which they are sent.

    Parameters
    ----------
    logits : array of shape (rows, classes)
        Logits.
    score_format : {"logits", "softmax", "argmax"}
        Format: logits, probabilities or labels.

    Returns
    -------
    array of shape (rows, classes) or (rows,)
        Scores in float32, from -2**100 to 2**100, or labels in the smallest integer type. A row with logits that are
        not finite gets the label `classes`, which is not valid.

    Examples
    --------
    >>> in_format(np.array([[2.0, 1.0], [0.0, np.nan]]), "argmax").tolist()
    [0, 2]
    """
    match score_format:
        case "logits":
            return bounded(logits)
        case "softmax":
            return np.asarray(softmax(logits), np.float32)
    classes = logits.shape[1]
    labels = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), classes)
    return np.asarray(labels, np.min_scalar_type(classes))


def bounded(scores: Array) -> Array:
    """Clip scores to the range in which they may be sent.

    Parameters
    ----------
    scores : array
        Scores.

    Returns
    -------
    array
        Scores in float32, from -2**100 to 2**100.

    Examples
    --------
    >>> bounded(np.array([3.0, 1e300])).tolist()
    [3.0, 1.2676506002282294e+30]
    """
    return np.clip(scores, -MAX_SCORE, MAX_SCORE).astype(np.float32)


def consensus_of(scores: Sequence[Array], weights: Sequence[float], score_format: str, classes: int) -> Array:
    """Compute the consensus: the weighted mean of scores, or for labels the weighted vote.

    Parameters
    ----------
    scores : sequence of array of shape (rows, classes) or (rows,)
        Scores or labels of each party.
    weights : sequence of float
        Weight of each party; the sum need not be 1.
    score_format : {"logits", "softmax", "argmax"}
        Format of the scores.
    classes : int
        Number of classes.

    Returns
    -------
    array of shape (rows, classes) or (rows,)
        Consensus in the same format. In a vote a tie goes to the lowest class number.

    Notes
    -----
    With equal weights, the mean of FedMD (Li & Wang 2019, Algorithm 1, step "aggregate").

    Examples
    --------
    >>> consensus_of([np.array([0, 1]), np.array([1, 1])], [2, 1], "argmax", classes=2).tolist()
    [0, 1]
    """
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    if score_format != "argmax":
        return np.asarray(np.einsum("p,prc->rc", shares, np.stack(scores, dtype=np.float64)), np.float32)
    counts = np.zeros((len(scores[0]), classes))
    for labels, share in zip(scores, shares, strict=True):
        counts[np.arange(len(labels)), labels] += share
    return winners(counts.round(12)).astype(scores[0].dtype)


def mean_of_known(scores: Sequence[Array], weights: Sequence[float]) -> Array:
    """Compute the weighted mean of the scores of several labels a row, over the parties that know each class.

    Parameters
    ----------
    scores : sequence of array of shape (rows, classes)
        Scores of each party. A party that does not know a class sends 0 for it in all rows.
    weights : sequence of float
        Weight of each party.

    Returns
    -------
    array of shape (rows, classes)
        The means in float32; 0 for a class that no party knows.

    Examples
    --------
    >>> mean_of_known([np.array([[1.0, 0.0]]), np.array([[3.0, 2.0]])], [1, 1]).tolist()
    [[2.0, 2.0]]
    """
    stacked = np.stack(scores, dtype=np.float64)
    shares = np.asarray(weights, np.float64)[:, None] * stacked.any(axis=1)
    totals = shares.sum(axis=0)
    return np.asarray(np.einsum("pc,prc->rc", shares / np.where(totals > 0, totals, 1.0), stacked), np.float32)


def alignment_rows(size: int, labels: Array | None, count: int, rng: np.random.Generator) -> Array:
    """Draw the public rows of a round, in proportion to the classes if labels are known.

    Parameters
    ----------
    size : int
        Number of public rows.
    labels : array of shape (size,) or None
        Labels of the public rows.
    count : int
        Number of rows to draw.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array of shape (count,)
        Row numbers in ascending order, in the smallest integer type.

    Examples
    --------
    >>> labels = np.array([0, 1] * 50)
    >>> rows = alignment_rows(100, labels, 20, np.random.default_rng(0))
    >>> np.bincount(labels[rows]).tolist()
    [10, 10]
    """
    order = rng.permutation(size)
    if labels is not None and count < size:
        shuffled = labels[order]
        by_class = np.argsort(shuffled, kind="stable")
        sizes = np.bincount(shuffled)
        rank = np.arange(size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        position = np.empty(size)
        position[by_class] = (rank + 0.5) / sizes[shuffled[by_class]]
        order = order[np.argsort(position, kind="stable")]
    return np.sort(order[:count]).astype(np.min_scalar_type(size - 1))


def class_shares(counts: Array) -> Array:
    """Compute each party's share of the rows of each class.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Class counts. Negative ones, which noise can cause, count as 0.

    Returns
    -------
    array of shape (parties, classes)
        Shares; the sum over parties is 1. Parties have equal shares of a class without rows.

    Notes
    -----
    Equation 1 of FedKD (Gong et al. 2022).

    Examples
    --------
    >>> class_shares(np.array([[30, 0], [10, 0]])).tolist()
    [[0.75, 0.5], [0.25, 0.5]]
    """
    held = np.maximum(np.nan_to_num(np.asarray(counts, np.float64), posinf=0.0), 0.0)
    total = held.sum(axis=0)
    return np.where(total > 0, held / np.where(total > 0, total, 1.0), 1 / len(held))


def classes_are_disconnected(counts: Array) -> bool:
    """Whether classes form two groups such that no party has rows of both.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Class counts.

    Returns
    -------
    bool
        True if logits of the two groups cannot be compared.

    Examples
    --------
    >>> classes_are_disconnected(np.array([[5, 5, 0], [0, 0, 9]]))
    True
    >>> classes_are_disconnected(np.array([[5, 5, 0], [0, 1, 9]]))
    False
    """
    held = counts[:, counts.any(axis=0)] > 0
    near = held.T.astype(np.int64) @ held  # pairs of classes that one party has
    for _ in range(len(near).bit_length()):
        near = np.minimum(near @ near, 1)
    return bool((near == 0).any())


def contrasts(counts: Array) -> Array:
    """Compute the contrast of each party and class.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Class counts.

    Returns
    -------
    array of shape (parties, classes)
        The party's rows of the class, or of all other classes if these are fewer.

    Examples
    --------
    >>> contrasts(np.array([[30, 10, 5], [7, 0, 0]])).tolist()
    [[15, 10, 5], [0, 0, 0]]
    """
    return np.asarray(np.minimum(counts, counts.sum(axis=1, keepdims=True) - counts))


def contrast_weights(counts: Array) -> Array:
    """Compute the weights of the parties' votes for each class from their contrasts.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Class counts.

    Returns
    -------
    array of shape (parties, classes)
        Shares of the contrasts of each class, divided by the largest share: from 0 to 1.

    Examples
    --------
    >>> contrast_weights(np.array([[30, 10], [7, 0]])).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    shares = class_shares(contrasts(counts))
    return np.asarray(shares / shares.max())


def labels_of(agreed: Array) -> Array:
    """Return the labels of a consensus of any format.

    Parameters
    ----------
    agreed : array of shape (rows, classes) or (rows,)
        Scores or labels.

    Returns
    -------
    array of shape (rows,)
        Class numbers in int64.
    """
    return np.asarray(agreed if agreed.ndim == 1 else agreed.argmax(axis=1), np.int64)


def logits_of(probabilities: Array) -> Array:
    """Compute logits from probabilities.

    Parameters
    ----------
    probabilities : array of shape (rows, classes)
        Probabilities; those below 0.01 are raised to it.

    Returns
    -------
    array of shape (rows, classes)
        Logarithms of the probabilities.
    """
    return np.log(np.maximum(probabilities, MIN_PROBABILITY))


def log_odds(probabilities: Array) -> Array:
    """Compute the logits of several labels a row from their probabilities.

    Parameters
    ----------
    probabilities : array of shape (rows, classes)
        Probabilities; they are limited to 0.01 to 0.99.

    Returns
    -------
    array of shape (rows, classes)
        Logarithms of p / (1 - p).

    Examples
    --------
    >>> log_odds(np.array([[0.5, 1.0]])).round(2).tolist()
    [[0.0, 4.6]]
    """
    limited = np.clip(probabilities, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(np.log(limited / (1 - limited)))


def softmax(logits: Array) -> Array:
    """Compute probabilities from logits.

    Parameters
    ----------
    logits : array of shape (rows, classes)
        Logits.

    Returns
    -------
    array of shape (rows, classes)
        Probabilities; the sum of each row is 1.

    Examples
    --------
    >>> softmax(np.array([[1000.0, 1000.0]])).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
