"""Metrics of predicted classes and of their probabilities, from arrays."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from limbeck.protocol.rows import Array

BINS = 10  # of equal width, for the calibration error
MAX_CONFUSED = 20  # classes up to which metrics have a confusion matrix


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Rows whose predicted probability is in one interval: a point of the reliability curve.

    Parameters
    ----------
    low, high : float
        The interval; `high` belongs to the next one, except 1.
    rows : int
        Number of rows.
    predicted : float
        Mean predicted probability.
    observed : float
        Share of these rows for which the prediction is right.
    """

    low: float
    high: float
    rows: int
    predicted: float
    observed: float


def confusion_matrix(labels: Array, y: Array, classes: int) -> list[list[int]]:
    """Count the rows of each class (row) by the class that is predicted (column).

    Examples
    --------
    >>> confusion_matrix(np.array([1, 1, 0]), np.array([0, 1, 0]), classes=2)
    [[1, 1], [0, 1]]
    """
    counts: list[list[int]] = np.bincount(y * classes + labels, minlength=classes**2).reshape(classes, -1).tolist()
    return counts


def f1_of_classes(labels: Array, y: Array, classes: int) -> float | None:
    """F1 of class number 1 if there are two classes, otherwise the mean over the classes of the test rows."""
    from sklearn.metrics import f1_score

    if classes == 2:
        return float(f1_score(y == 1, labels == 1, zero_division=0)) if (y == 1).any() else None
    return float(f1_score(y, labels, average="macro", labels=np.unique(y), zero_division=0))


def mean_over_classes(metric: Callable[[Array, Array], float], scores: Array, y: Array) -> float | None:
    """Compute an area under a curve: of class number 1 if there are two classes, otherwise the mean over the classes.

    Parameters
    ----------
    metric : callable
        A function of the truth of a class and its scores.
    scores : array of shape (rows, classes)
        Finite probabilities.
    y : array of shape (rows,)
        Class numbers.

    Returns
    -------
    float or None
        Each class of the test rows against the rest. None if there is only one class.
    """
    present = np.unique(y)
    if len(present) < 2:
        return None
    if scores.shape[1] == 2:
        return float(metric(y == 1, scores[:, 1]))
    return float(np.mean([metric(y == label, scores[:, label]) for label in present]))


def squared_errors(scores: Array, y: Array) -> Array:
    """Compute the Brier score of each row: squared errors of class number 1, or with more classes of all classes.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities.
    y : array of shape (rows,)
        Class numbers.

    Returns
    -------
    array of shape (rows,)
        Squared errors, with more than two classes their sum.

    Examples
    --------
    >>> squared_errors(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([1, 1])).tolist()
    [0.25, 0.0]
    """
    scores = np.asarray(scores, np.float64)
    if scores.shape[1] == 2:
        return np.asarray((scores[:, 1] - y) ** 2)
    return np.asarray((scores**2).sum(axis=1) - 2 * scores[np.arange(len(y)), y] + 1)


def confidence(scores: Array, y: Array) -> tuple[Array, Array]:
    """Return what calibration compares: for two classes p(class 1) and whether it is class 1; else of the best class.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities.
    y : array of shape (rows,)
        Class numbers.

    Returns
    -------
    predicted : array of shape (rows,)
        Probabilities.
    observed : bool array of shape (rows,)
        Whether the predicted event occurred.
    """
    if scores.shape[1] == 2:
        return np.asarray(scores[:, 1], np.float64), y == 1
    return np.asarray(scores.max(axis=1), np.float64), scores.argmax(axis=1) == y


def bin_of(predicted: Array) -> Array:
    """Return the number of the calibration bin of each probability."""
    return np.clip((predicted * BINS).astype(np.int64), 0, BINS - 1)


def calibration_bins(predicted: Array, observed: Array) -> list[CalibrationBin]:
    """Compute the reliability curve over ten intervals of equal width; intervals without rows are left out.

    Examples
    --------
    >>> [found] = calibration_bins(np.array([0.75, 0.7]), np.array([True, False]))
    >>> found.rows, found.predicted, found.observed
    (2, 0.725, 0.5)
    """
    member, found = bin_of(predicted), []
    for number in np.unique(member).tolist():
        rows = member == number
        means = float(predicted[rows].mean()), float(observed[rows].mean())
        found.append(CalibrationBin(number / BINS, (number + 1) / BINS, int(rows.sum()), *means))
    return found


def expected_error(bins: list[CalibrationBin]) -> float:
    """Compute the expected calibration error: the mean distance of prediction and observation, weighted by rows.

    Examples
    --------
    >>> expected_error([CalibrationBin(0.9, 1.0, 30, 1.0, 0.75), CalibrationBin(0.0, 0.1, 10, 0.0, 0.25)])
    0.25
    """
    distances = [each.rows * abs(each.predicted - each.observed) for each in bins]
    return sum(distances) / sum(each.rows for each in bins)
