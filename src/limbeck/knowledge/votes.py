"""Votes: how many voters, or agreeing parties, chose each class (FedKT, section 3)."""

import numpy as np

from limbeck.protocol.rows import Array


def tally(labels: Array, classes: int) -> Array:
    """Count the votes: [voters, rows] class numbers become [rows, classes] counts."""
    rows = labels.shape[1]
    cell = np.arange(rows) * classes + labels
    return np.bincount(cell.ravel(), minlength=rows * classes).reshape(rows, classes)


def consistent_votes(labels: Array, classes: int) -> Array:
    """Count only parties whose students all agree, each with the weight of its students.

    [parties, students, rows] become [rows, classes]: s times the number of unanimous parties (Algorithm 1,
    line 19). Replacing one party moves at most two counts by s each.
    """
    _, students, rows = labels.shape
    unanimous = (labels == labels[:, :1]).all(axis=1)
    party, row = np.nonzero(unanimous)
    cell = row * classes + labels[party, 0, row]
    parties = np.bincount(cell, minlength=rows * classes).reshape(rows, classes)
    return np.asarray(students * parties)


def winners(votes: Array) -> Array:
    """The class with the most votes in each row; a tie goes to the lowest class number."""
    return np.asarray(votes.argmax(axis=1))
