"""Metrics of models on test rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import MULTICLASS, POSITIVE, UNKNOWN, Kind, Task

HEADLINES: dict[Kind, tuple[str, ...]] = {  # the metrics of tables; the first one is that of curves
    "multiclass": ("accuracy", "balanced_accuracy"),
    "multilabel": ("roc_auc", "balanced_accuracy"),
    "regression": ("r2", "rmse", "mae"),
}


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a model on test rows. Those that the task does not have are None.

    Parameters
    ----------
    accuracy : float or None
        Share of rows, or of known labels, that are predicted correctly.
    balanced_accuracy : float or None
        Mean recall over the classes of the test rows; with several labels a row, over both labels of each class.
    roc_auc : float or None
        Area under the ROC curve, the mean over the classes, each against the rest. None if the model has no finite
        probabilities or the test rows have one class only.
    class_auc : list of float or None
        With several labels a row, the area for each class; None for a class whose test rows have one label only.
    pr_auc, f1, sensitivity, specificity, brier, calibration_error : float or None
        Area under the precision-recall curve, F1, sensitivity and specificity of class 1, Brier score and calibration
        error.
    confusion : list of lists of int or None
        Rows of each class (first axis) and predicted class.
    rmse, mae, r2 : float or None
        For numbers: root mean squared error and mean absolute error in the target's unit, and the coefficient of
        determination.
    """

    accuracy: float | None = None
    balanced_accuracy: float | None = None
    roc_auc: float | None = None
    class_auc: list[float | None] | None = None
    rmse: float | None = None
    mae: float | None = None
    r2: float | None = None
    pr_auc: float | None = None
    f1: float | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    brier: float | None = None
    calibration_error: float | None = None
    confusion: list[list[int]] | None = None

    def headline(self, task: Kind) -> float | None:
        """Return the metric by which runs of a task are compared."""
        value: float | None = getattr(self, HEADLINES[task][0])
        return value


def score(model: PackedModel, test: Rows, task: Task = MULTICLASS) -> Metrics:
    """Evaluate a model.

    Parameters
    ----------
    model : PackedModel
        Fitted model.
    test : Rows
        Test rows.
    task : Task
        Kind of the labels.

    Returns
    -------
    Metrics
        Metrics on these rows.
    """
    labels, scores = model.run(test.x)
    if task.kind == "regression":
        return metrics_of_numbers(task.unscaled(labels), task.unscaled(test.y))
    if task.kind == "multilabel":
        return metrics_of_several(scores, test.y)
    hit = labels == test.y
    recalls = [hit[test.y == label].mean() for label in np.unique(test.y)]
    auc = _roc_auc(scores, test.y) if model.has_probabilities else None
    return Metrics(float(hit.mean()), float(np.mean(recalls)), auc)


def metrics_of_several(scores: Array, y: Array) -> Metrics:
    """Compute the metrics of several labels a row; unknown labels are left out.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities.
    y : array of shape (rows, classes)
        Labels 1, 0 and -1 (unknown).

    Returns
    -------
    Metrics
        The metrics.

    Examples
    --------
    >>> metrics_of_several(np.array([[0.9, 0.2], [0.1, 0.3]]), np.array([[1, -1], [0, 0]])).class_auc
    [1.0, None]
    """
    from sklearn.metrics import roc_auc_score

    known, positive = y != UNKNOWN, y == POSITIVE
    hit = (scores > 0.5) == positive
    aucs, recalls = list[float | None](), list[float]()
    for column in range(y.shape[1]):
        rows = known[:, column]
        truth = positive[rows, column]
        recalls += [float(hit[rows, column][truth == label].mean()) for label in np.unique(truth)]
        both = len(np.unique(truth)) == 2 and bool(np.isfinite(scores[rows, column]).all())
        aucs.append(float(roc_auc_score(truth, scores[rows, column])) if both else None)
    there = [auc for auc in aucs if auc is not None]
    return Metrics(
        accuracy=float(hit[known].mean()) if known.any() else None,
        balanced_accuracy=float(np.mean(recalls)) if recalls else None,
        roc_auc=float(np.mean(there)) if there else None,
        class_auc=aucs,
    )


def metrics_of_numbers(predicted: Array, target: Array) -> Metrics:
    """Compute the metrics of numbers; R2 is None if all targets are the same.

    Examples
    --------
    >>> metrics_of_numbers(np.array([1.0, 2.0]), np.array([1.0, 4.0])).mae
    1.0
    """
    errors = np.asarray(predicted, np.float64) - target
    spread = float(((target - target.mean()) ** 2).sum())
    r2 = 1 - float((errors**2).sum()) / spread if spread > 0 else None
    return Metrics(rmse=float(np.sqrt((errors**2).mean())), mae=float(np.abs(errors).mean()), r2=r2)


def mean_metrics(each: Sequence[Metrics]) -> Metrics:
    """Unweighted mean of the metrics of several parties.

    Parameters
    ----------
    each : sequence of Metrics
        Metrics of each party.

    Returns
    -------
    Metrics
        Their means; a metric is None if a party has none.

    Examples
    --------
    >>> found = mean_metrics([Metrics(0.5, 0.5, None), Metrics(1.0, 0.75, 0.9)])
    >>> found.accuracy, found.balanced_accuracy, found.roc_auc
    (0.75, 0.625, None)
    """
    tables = [asdict(metrics) for metrics in each]
    by_class = [table.pop("class_auc") for table in tables]
    means: Any = {name: _mean([table[name] for table in tables]) for name in tables[0]}
    several = None if None in by_class else [_mean(list(column)) for column in zip(*by_class, strict=True)]
    return Metrics(**means, class_auc=several)


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if len(there) == len(values) else None


def constant_metric(private: list[Rows], test: Rows, classes: int, task: Task = MULTICLASS) -> float | None:
    """Headline metric of the constant predictor: the most frequent private class, or the mean of the private numbers.

    Parameters
    ----------
    private : list of Rows
        Private rows of each party.
    test : Rows
        Test rows.
    classes : int
        Number of classes.
    task : Task
        Kind of the labels.

    Returns
    -------
    float or None
        Accuracy, the area 0.5 for several labels a row, or R2. A method is only useful if it is better.

    Examples
    --------
    >>> x, y = np.zeros((4, 1)), np.array([0, 1, 1, 1])
    >>> constant_metric([Rows(x, y)], Rows(x, y), 2)
    0.75
    """
    if task.kind == "multilabel":
        return 0.5
    labels = np.concatenate([rows.y for rows in private])
    if task.kind == "regression":
        return metrics_of_numbers(np.full(len(test.y), labels.mean()), test.y).r2
    return float((test.y == np.bincount(labels, minlength=classes).argmax()).mean())


def _roc_auc(scores: Array, y: Array) -> float | None:
    """One class against the rest, averaged over the classes of the test rows."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(y)
    if len(present) < 2 or not np.isfinite(scores).all():
        return None
    if scores.shape[1] == 2:
        return float(roc_auc_score(y, scores[:, 1]))
    return float(np.mean([roc_auc_score(y == label, scores[:, label]) for label in present]))
