"""Votes: hard ones, counted as in FedKT, and soft ones, a voter's probabilities."""

import numpy as np

from limbeck.protocol.rows import UNANSWERED, Array


def tally(labels: Array, classes: int) -> Array:
    """Count the votes: [..., rows] class numbers of all voters become [rows, classes] counts."""
    rows = labels.shape[-1]
    index = np.arange(rows) * classes + labels
    return np.bincount(index.ravel(), minlength=rows * classes).reshape(rows, classes)


def consistent_votes(labels: Array, classes: int) -> Array:
    """Count only parties whose students all agree, each with the weight of its students.

    [parties, students, rows] become [rows, classes]: s times the number of unanimous parties (Algorithm 1,
    line 19). Replacing one party moves at most two counts by s each.
    """
    _, students, rows = labels.shape
    unanimous = (labels == labels[:, :1]).all(axis=1)
    party, row = np.nonzero(unanimous)
    index = row * classes + labels[party, 0, row]
    parties = np.bincount(index, minlength=rows * classes).reshape(rows, classes)
    return np.asarray(students * parties)


def soft_vote(scores: Array) -> Array:
    """A voter's probabilities [rows, classes], at least 0 and of sum 1 at most; what is not a number is no vote."""
    clipped = np.clip(np.nan_to_num(np.asarray(scores, np.float64), posinf=0.0), 0.0, 1.0)
    return np.asarray(clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0))


def winners(votes: Array) -> Array:
    """The class with the most votes in each row; a tie goes to the lowest class number."""
    return np.asarray(votes.argmax(axis=1))


def answered(x: Array, labels: Array) -> tuple[Array, Array]:
    """The rows that have a label, with their labels."""
    there = labels != UNANSWERED
    return (x, labels) if there.all() else (x[there], labels[there])
