"""Labels as vectors: what a sum of features is multiplied with, row by row."""

import numpy as np

from limbeck.protocol.rows import Array
from limbeck.protocol.task import POSITIVE, UNKNOWN, Kind

NUMBER_STEPS = 2**12  # grid of numbers, so that sums of many rows are exact


def columns_of(task: Kind, classes: int) -> int:
    """Return the length of a target vector: the classes, two for each of several labels, or two for a number."""
    return classes if task == "multiclass" else 2 * classes


def groups_of(task: Kind, classes: int) -> list[slice]:
    """Return the groups of columns; within a group a row's numbers have the sum 1, or are all 0 if it has no label.

    Parameters
    ----------
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    classes : int
        Number of classes.

    Examples
    --------
    >>> groups_of("multilabel", 2)
    [slice(0, 2, None), slice(2, 4, None)]
    """
    if task == "multiclass":
        return [slice(0, classes)]
    return [slice(2 * number, 2 * number + 2) for number in range(classes)]


def target_vectors(y: Array, task: Kind, classes: int, weight: Array | None = None) -> Array:
    """Return the target vectors of labels, in steps of 1 / `NUMBER_STEPS`.

    Parameters
    ----------
    y : array
        Labels of the kind.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    classes : int
        Number of classes.
    weight : array of shape (rows,), optional
        Sample weights in [0, 1], which the vectors are multiplied with. The products are rounded down to whole steps,
        so that no number becomes larger, and none becomes negative.

    Returns
    -------
    array of shape (rows, columns)
        Whole numbers in float64, at least 0. One class: 1 for the class. Several labels: for each class (negative,
        positive), both 0 if the label is unknown. A number y: (1 - y, y). A row's vector has at most the length
        sqrt(groups), and two rows' vectors have no negative product.

    Examples
    --------
    >>> (target_vectors(np.array([[1, -1]]), "multilabel", 2) / NUMBER_STEPS).tolist()
    [[0.0, 1.0, 0.0, 0.0]]
    >>> (target_vectors(np.array([0.25]), "regression", 1) / NUMBER_STEPS).tolist()
    [[0.75, 0.25]]
    """
    if weight is not None:
        return np.asarray(np.floor(target_vectors(y, task, classes) * weight[:, None]))
    if task == "multiclass":
        return np.eye(classes)[y] * NUMBER_STEPS
    if task == "multilabel":
        known, positive = y != UNKNOWN, y == POSITIVE
        pairs = np.stack([known & ~positive, positive], axis=2)
        return pairs.reshape(len(y), 2 * classes).astype(np.float64) * NUMBER_STEPS
    steps = np.rint(np.clip(np.nan_to_num(np.asarray(y, np.float64)), 0.0, 1.0) * NUMBER_STEPS)
    return np.stack([NUMBER_STEPS - steps, steps], axis=1)


def rows_of_columns(y: Array, task: Kind, classes: int, weight: Array | None = None) -> Array:
    """Count the rows of each column: of each class, or the negatives and positives of each of several labels.

    With sample weights, it is the sum of the weights of these rows.
    """
    vectors = target_vectors(y, task, classes) / NUMBER_STEPS
    return np.asarray((vectors if weight is None else vectors * weight[:, None]).sum(axis=0))


def linear_weights(weights: Array, task: Kind) -> Array:
    """Combine the weights of all columns to one column for each class: the difference of a pair.

    Parameters
    ----------
    weights : array of shape (features, columns)
        Weights for each column; the first feature is constant, sqrt(1/2).
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    array of shape (features, classes)
        Weights whose scores `pack_linear` understands: above 0 for a positive label, or the number in [0, 1].
    """
    if task == "multiclass":
        return weights
    difference = weights[:, 1::2] - weights[:, ::2]
    if task == "regression":
        difference = difference / 2
        difference[0] += 0.5 / np.sqrt(0.5)
    return np.asarray(difference)


def labels_in(scores: Array, task: Kind) -> Array:
    """Return the labels that scores of all columns give.

    Parameters
    ----------
    scores : array of shape (rows, columns)
        Scores.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    array of shape (rows,) or (rows, classes)
        Labels of the kind.

    Examples
    --------
    >>> labels_in(np.array([[0.2, 0.7]]), "regression").tolist()
    [0.75]
    """
    if task == "multiclass":
        return np.asarray(scores.argmax(axis=1))
    difference = scores[:, 1::2] - scores[:, ::2]
    if task == "multilabel":
        return np.asarray(difference > 0, np.int8)
    return np.clip((1 + difference[:, 0]) / 2, 0.0, 1.0).astype(np.float32)
