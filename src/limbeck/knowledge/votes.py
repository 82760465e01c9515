"""Votes: labels that are counted as in FedKT, and soft votes, which are probabilities."""

import math
from collections.abc import Iterator

import numpy as np

from limbeck.protocol.rows import UNANSWERED, Array

BLOCK = 2**18  # counts that are computed at once, so that they stay in the processor's cache


def tally(labels: Array, classes: int) -> Array:
    """Count the votes of all voters for each row and class.

    Parameters
    ----------
    labels : array of shape (..., rows)
        Class number that each voter predicts for each row.
    classes : int
        Number of classes.

    Returns
    -------
    array of shape (rows, classes)
        Number of votes, in the smallest signed integers that hold the number of voters.

    Notes
    -----
    Algorithm 1, lines 6 to 8 of FedKT (Li, He & Song 2021).

    Examples
    --------
    Two voters and three rows:

    >>> tally(np.array([[0, 1, 1], [0, 0, 1]]), classes=2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    rows = labels.shape[-1]
    voters = labels.reshape(math.prod(labels.shape[:-1]), rows)
    counts = no_votes(rows, classes, len(voters))
    for block in blocks_of_rows(rows, classes):
        part = voters[:, block]
        index = np.arange(part.shape[1]) * classes + part
        counts[block] = np.bincount(index.ravel(), minlength=counts[block].size).reshape(-1, classes)
    return counts


def no_votes(rows: int, classes: int, most: int) -> Array:
    """Make counts to which votes are added: 0 for each row and class.

    Parameters
    ----------
    rows, classes : int
        Number of rows and of classes.
    most : int
        Largest number of votes for one class.

    Returns
    -------
    array of shape (rows, classes)
        Zeros, in the smallest signed integers that hold `most`.

    Examples
    --------
    >>> no_votes(2, 3, most=127).dtype, no_votes(2, 3, most=128).dtype
    (dtype('int8'), dtype('int16'))
    """
    return np.zeros((rows, classes), np.min_scalar_type(-most - 1))


def add_votes(counts: Array, labels: Array, consistent: bool) -> None:
    """Add the votes of one party's students to the counts of other parties.

    Parameters
    ----------
    counts : array of shape (rows, classes)
        Numbers of votes, which are changed; large enough integers, as `no_votes` makes them.
    labels : array of shape (students, rows)
        Class number that each student predicts for each row.
    consistent : bool
        Whether only rows count on which all students agree.

    Examples
    --------
    >>> counts = no_votes(2, 2, most=4)
    >>> for party in ([[0, 1], [0, 1]], [[0, 0], [0, 1]]):
    ...     add_votes(counts, np.array(party), consistent=True)
    >>> counts.tolist()
    [[4, 0], [0, 2]]
    """
    for block in blocks_of_rows(*counts.shape):
        here, part = counts[block], labels[:, block]
        if consistent:
            [agreed] = np.nonzero((part == part[0]).all(axis=0))
            here[agreed, part[0, agreed]] += len(labels)
            continue
        rows = np.arange(len(here))
        for voter in part:
            here[rows, voter] += 1


def blocks_of_rows(rows: int, classes: int) -> Iterator[slice]:
    """Divide rows into blocks that have at most `BLOCK` numbers each, if a row has not more.

    Parameters
    ----------
    rows, classes : int
        Shape of an array.

    Returns
    -------
    iterator of slice
        The rows of each block, in order.

    Examples
    --------
    >>> list(blocks_of_rows(3000, 100))
    [slice(0, 2621, None), slice(2621, 5242, None)]
    """
    size = max(1, BLOCK // max(1, classes))
    return (slice(start, start + size) for start in range(0, rows, size))


def consistent_votes(labels: Array, classes: int) -> Array:
    """Count, for each row, only parties whose students all agree.

    Parameters
    ----------
    labels : array of shape (parties, students, rows)
        Class number that each student predicts for each row.
    classes : int
        Number of classes.

    Returns
    -------
    array of shape (rows, classes)
        s votes for each party whose s students agree, in the smallest signed integers that hold all votes.

    Notes
    -----
    Algorithm 1, line 19 of FedKT (Li, He & Song 2021). Replacing one party changes at most two counts of a row by s
    each.

    Examples
    --------
    Two parties with two students each, and two rows. The students of the second party disagree on the second row:

    >>> consistent_votes(np.array([[[0, 1], [0, 1]], [[0, 0], [0, 1]]]), classes=2).tolist()
    [[4, 0], [0, 2]]
    """
    parties, students, rows = labels.shape
    counts = no_votes(rows, classes, parties * students)
    for party in labels:
        add_votes(counts, party, consistent=True)
    return counts


def soft_vote(scores: Array) -> Array:
    """Make soft votes from scores: at least 0, with a sum of at most 1 in each row.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities, possibly with invalid values.

    Returns
    -------
    array of shape (rows, classes)
        Soft votes. NaN and infinite values count as 0.

    Examples
    --------
    >>> soft_vote(np.array([[0.3, 0.7], [1.0, 1.0], [np.nan, 0.5]])).tolist()
    [[0.3, 0.7], [0.5, 0.5], [0.0, 0.5]]
    """
    clipped = np.clip(np.nan_to_num(np.asarray(scores, np.float64), posinf=0.0), 0.0, 1.0)
    return np.asarray(clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0))


def shares_voted(scores: Array) -> Array:
    """Make soft votes of several labels a row from scores: from 0 to 1 for each class; invalid ones count as 0.5."""
    return np.asarray(np.clip(np.nan_to_num(np.asarray(scores, np.float64), nan=0.5, posinf=1.0, neginf=0.0), 0.0, 1.0))


def winners(votes: Array) -> Array:
    """Return the class with the most votes in each row; a tie goes to the lowest class number.

    Parameters
    ----------
    votes : array of shape (rows, classes)
        Votes or scores.

    Returns
    -------
    array of shape (rows,)
        Class numbers.

    Examples
    --------
    >>> winners(np.array([[2, 0], [1, 1], [0, 2]])).tolist()
    [0, 0, 1]
    """
    return np.asarray(votes.argmax(axis=1))


def answered(x: Array, labels: Array) -> tuple[Array, Array]:
    """Select the rows that have a label.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows.
    labels : array of shape (rows,)
        Class numbers, or `UNANSWERED`.

    Returns
    -------
    tuple of array
        The rows with a label, and their labels.

    Examples
    --------
    >>> rows, labels = answered(np.array([[0.5], [0.7]]), np.array([UNANSWERED, 1]))
    >>> rows.tolist(), labels.tolist()
    ([[0.7]], [1])
    """
    there = labels != UNANSWERED
    return (x, labels) if there.all() else (x[there], labels[there])
