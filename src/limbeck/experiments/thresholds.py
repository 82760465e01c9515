"""Thresholds: from which probability on a model predicts the positive class."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, shown
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

ROUNDING = 1e-6  # of probabilities in float32, and as they are printed


def threshold_of(threshold: float | None, cost: Sequence[float] | None) -> float | None:
    """Find the threshold that a user gives, directly or by what errors cost.

    Parameters
    ----------
    threshold : float or None
        A probability.
    cost : sequence of two floats or None
        Cost of a missed positive, and of a false alarm.

    Returns
    -------
    float or None
        The threshold; None means the model's own predictions.

    Raises
    ------
    LimbeckError
        If both are given, or one of them is not possible.

    Notes
    -----
    With the true probability p of class 1, predicting class 0 costs p FN on average, and predicting class 1 costs
    (1 - p) FP. Class 1 is cheaper if p >= FP / (FN + FP).

    Examples
    --------
    >>> threshold_of(None, (9.0, 1.0)), threshold_of(0.3, None)
    (0.1, 0.3)
    """
    if cost is None:
        if threshold is not None and not (_is_number(threshold) and 0 <= threshold <= 1):
            given = f"{threshold:g}" if _is_number(threshold) else shown(threshold)
            raise LimbeckError(f"threshold = {given}: give a probability from 0 to 1")
        return threshold
    if threshold is not None:
        raise LimbeckError("threshold and cost: give one of them; the costs determine a threshold")
    if not _are_costs(cost):
        raise LimbeckError(
            "cost: give two numbers, at least 0 and not both 0: the cost of a missed positive, and of a false alarm, "
            f"not {shown(cost)}"
        )
    missed, false_alarm = cost
    return false_alarm / (missed + false_alarm)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)


def _are_costs(given: Any) -> bool:
    if not isinstance(given, list | tuple | np.ndarray) or len(given) != 2:
        return False
    return all(_is_number(each) and math.isfinite(each) and each >= 0 for each in given) and sum(given) > 0


def check_threshold(task: Kind, classes: int, has_probabilities: bool) -> None:
    """Raise LimbeckError unless a model can predict with a threshold.

    Parameters
    ----------
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    classes : int
        Number of classes.
    has_probabilities : bool
        Whether the model has probabilities.
    """
    if task == "regression":
        raise LimbeckError("threshold: this model predicts numbers; a threshold is for classes")
    if task == "multiclass" and classes != 2:
        raise LimbeckError(f"threshold: this model has {classes} classes; a threshold is for two classes")
    if task == "multiclass" and not has_probabilities:
        raise LimbeckError(
            "threshold: this model predicts classes by a vote and has no probabilities; "
            "use another model, such as random-forest"
        )


def labels_above(scores: Array, threshold: float, task: Kind) -> Array:
    """Return the labels for which the probability reaches a threshold.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities.
    threshold : float
        Threshold.
    task : {"multiclass", "multilabel"}
        Kind of the labels.

    Returns
    -------
    int64 array of shape (rows,) or (rows, classes)
        Class number 1 or 0; with several labels a row 1 or 0 for each class.

    Examples
    --------
    >>> labels_above(np.array([[0.7, 0.3], [0.9, 0.1]]), 0.2, "multiclass").tolist()
    [1, 0]
    """
    return np.asarray((scores if task == "multilabel" else scores[:, 1]) >= threshold - ROUNDING, np.int64)
