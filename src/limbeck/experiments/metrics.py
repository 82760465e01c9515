"""Metrics of models on test rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from limbeck.experiments.class_metrics import (
    MAX_CONFUSED,
    calibration_bins,
    confidence,
    confusion_matrix,
    expected_error,
    f1_of_classes,
    mean_over_classes,
    squared_errors,
)
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import MULTICLASS, POSITIVE, UNKNOWN, Kind, Task

HEADLINES: dict[Kind, tuple[str, ...]] = {  # the metrics of tables; the first one is that of curves
    "multiclass": ("accuracy", "balanced_accuracy"),
    "multilabel": ("roc_auc", "balanced_accuracy"),
    "regression": ("r2", "rmse", "mae"),
}
RARE = 0.2  # share of the rarer of two classes below which tables show the area under the precision-recall curve


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
    rmse, mae, r2 : float or None
        For numbers: root mean squared error and mean absolute error in the target's unit, and the coefficient of
        determination.
    pr_auc : float or None
        Area under the precision-recall curve (average precision): of class number 1 if there are two classes,
        otherwise the mean over the classes. None where `roc_auc` is.
    f1 : float or None
        Harmonic mean of precision and recall: of class number 1 if there are two classes, otherwise the mean over the
        classes.
    sensitivity, specificity : float or None
        For two classes, the share of the rows of class 1, and of class 0, that are predicted correctly.
    brier : float or None
        Mean squared error of the probabilities of class number 1, with more than two classes summed over the classes.
    calibration_error : float or None
        Expected calibration error over ten intervals of equal width: of the probability of class number 1, with more
        than two classes of the highest probability of each row.
    confusion : list of list of int, optional
        Rows of each class (row) by the predicted class (column), for at most 20 classes. The mean over parties has
        their sum.
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

    @property
    def are_of_two_classes(self) -> bool:
        """Whether each row has one of two classes."""
        return len(self.confusion or ()) == 2

    def shown(self, task: Kind) -> tuple[str, ...]:
        """Return the metrics of tables: with two classes also the area under the curve, of a rare class both areas."""
        if not self.are_of_two_classes or self.confusion is None:
            return HEADLINES[task]
        rows = [sum(row) for row in self.confusion]
        areas = ("roc_auc", "pr_auc") if min(rows) < RARE * sum(rows) else ("roc_auc",)
        return (*HEADLINES[task], *areas)

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
    return metrics_of_classes(labels, scores if model.has_probabilities else None, test.y, scores.shape[1])


def metrics_of_classes(labels: Array, scores: Array | None, y: Array, classes: int) -> Metrics:
    """Compute the metrics of one class a row.

    Parameters
    ----------
    labels : array of shape (rows,)
        Predicted class numbers.
    scores : array of shape (rows, classes) or None
        Probabilities.
    y : array of shape (rows,)
        Class numbers.
    classes : int
        Number of classes.

    Returns
    -------
    Metrics
        The metrics.

    Examples
    --------
    >>> found = metrics_of_classes(np.array([1, 1, 0, 0]), None, np.array([1, 0, 0, 0]), classes=2)
    >>> found.sensitivity, found.specificity, found.f1, found.brier
    (1.0, 0.6666666666666666, 0.6666666666666666, None)
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    hit = labels == y
    recalls = {int(label): float(hit[y == label].mean()) for label in np.unique(y)}
    known = None if scores is None or not np.isfinite(scores).all() else scores
    two = recalls if classes == 2 else {}
    return Metrics(
        accuracy=float(hit.mean()),
        balanced_accuracy=float(np.mean(list(recalls.values()))),
        roc_auc=None if known is None else mean_over_classes(roc_auc_score, known, y),
        pr_auc=None if known is None else mean_over_classes(average_precision_score, known, y),
        f1=f1_of_classes(labels, y, classes),
        sensitivity=two.get(1),
        specificity=two.get(0),
        brier=None if known is None else float(squared_errors(known, y).mean()),
        calibration_error=None if known is None else expected_error(calibration_bins(*confidence(known, y))),
        confusion=confusion_matrix(labels, y, classes) if classes <= MAX_CONFUSED else None,
    )


def metrics_of_several(scores: Array, y: Array, threshold: float | None = None) -> Metrics:
    """Compute the metrics of several labels a row; unknown labels are left out.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities.
    y : array of shape (rows, classes)
        Labels 1, 0 and -1 (unknown).
    threshold : float or None
        Probability from which a label is positive; None means above 0.5.

    Returns
    -------
    Metrics
        The metrics.

    Examples
    --------
    >>> metrics_of_several(np.array([[0.9, 0.2], [0.1, 0.3]]), np.array([[1, -1], [0, 0]])).class_auc
    [1.0, None]
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    known, positive = y != UNKNOWN, y == POSITIVE
    chosen = scores > 0.5 if threshold is None else scores >= threshold
    hit = chosen == positive
    aucs, recalls = list[float | None](), list[float]()
    areas, f1s = list[float](), list[float | None]()
    for column in range(y.shape[1]):
        rows = known[:, column]
        truth = positive[rows, column]
        recalls += [float(hit[rows, column][truth == label].mean()) for label in np.unique(truth)]
        both = len(np.unique(truth)) == 2 and bool(np.isfinite(scores[rows, column]).all())
        aucs.append(float(roc_auc_score(truth, scores[rows, column])) if both else None)
        areas += [float(average_precision_score(truth, scores[rows, column]))] if both else []
        f1s.append(f1_of_classes(chosen[rows, column].astype(int), truth.astype(int), 2))
    f1s = [f1 for f1 in f1s if f1 is not None]
    there = [auc for auc in aucs if auc is not None]
    return Metrics(
        accuracy=float(hit[known].mean()) if known.any() else None,
        balanced_accuracy=float(np.mean(recalls)) if recalls else None,
        roc_auc=float(np.mean(there)) if there else None,
        class_auc=aucs,
        pr_auc=float(np.mean(areas)) if areas else None,
        f1=float(np.mean(f1s)) if f1s else None,  # type: ignore[arg-type]
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
    counts = [table.pop("confusion") for table in tables]
    means = {name: _mean([table[name] for table in tables]) for name in tables[0]}
    several = None if None in by_class else [_mean(list(column)) for column in zip(*by_class, strict=True)]
    return Metrics(**means, class_auc=several, confusion=None if None in counts else np.sum(counts, axis=0).tolist())


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
