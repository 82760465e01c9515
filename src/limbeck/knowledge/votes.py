"""Votes: labels that are counted as in FedKT, and soft votes, which are probabilities."""

import numpy as np

from limbeck.protocol.rows import UNANSWERED, Array


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
        Number of votes.

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
    index = np.arange(rows) * classes + labels
    return np.bincount(index.ravel(), minlength=rows * classes).reshape(rows, classes)


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
        s votes for each party whose s students agree.

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
    _, students, rows = labels.shape
    unanimous = (labels == labels[:, :1]).all(axis=1)
    party, row = np.nonzero(unanimous)
    index = row * classes + labels[party, 0, row]
    parties = np.bincount(index, minlength=rows * classes).reshape(rows, classes)
    return np.asarray(students * parties)


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
