"""Evaluate a fitted model on rows with labels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, shown
from limbeck.experiments.class_metrics import CalibrationBin, calibration_bins, confidence
from limbeck.experiments.intervals import intervals
from limbeck.experiments.labelled_rows import labelled_rows
from limbeck.experiments.metrics import Metrics, metrics_of_classes, metrics_of_numbers, metrics_of_several
from limbeck.experiments.record import finite
from limbeck.experiments.result import FinishedRun, Predictor, load
from limbeck.experiments.thresholds import check_threshold, threshold_of
from limbeck.experiments.usefulness import no_better_than_constant
from limbeck.protocol.rows import Array
from limbeck.protocol.task import POSITIVE, UNKNOWN, Kind


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a model reaches on rows with labels.

    Parameters
    ----------
    rows : int
        Number of rows.
    classes : sequence of str
        Class names, in the order of the class numbers; of two classes the second is the positive one.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    shares : mapping of str to float or None
        Share of the rows of each class; with several labels a row, of the known labels that are positive.
    metrics : Metrics
        Metrics of the model.
    intervals : mapping of str to (float, float)
        95 % bootstrap interval of each metric.
    constant : Metrics
        Metrics of the constant predictor: it predicts the most frequent class of these rows, with the shares of the
        classes as probabilities; or the mean of these numbers.
    calibration : sequence of CalibrationBin
        Points of the reliability curve; empty without probabilities.
    threshold : float or None
        Threshold of the predictions; None means the model's own.
    remark : str or None
        One line if the model is no better than the constant predictor.
    """

    rows: int
    classes: Sequence[str]
    task: Kind
    shares: Mapping[str, float | None]
    metrics: Metrics
    intervals: Mapping[str, tuple[float, float]]
    constant: Metrics
    calibration: Sequence[CalibrationBin]
    threshold: float | None
    remark: str | None

    def to_json(self) -> str:
        """Text of one JSON object."""
        return json.dumps(finite(asdict(self)), allow_nan=False)


def evaluate(
    model: Predictor | FinishedRun | str | Path,
    rows: Any,
    label: str | None = None,
    threshold: float | None = None,
    cost: tuple[float, float] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Evaluate a model on rows with labels.

    Parameters
    ----------
    model : Predictor, Result, str or Path
        The model, the result of a run that has one final model, or the ONNX file that a run wrote.
    rows : str, Path or (X, y)
        A table with labels, an NPZ file (its test rows, if it has any), or arrays.
    label : str or None
        The column of a table that has the labels; None means that of the training rows.
    threshold : float or None
        The probability from which the second of two classes, or one of several labels, is predicted.
    cost : (float, float) or None
        What a missed positive and a false alarm cost, instead of a threshold.
    reading : mapping or None
        How a table's file is read, as in `[data.reading]`; what is not stated is found.

    Returns
    -------
    Evaluation
        The metrics with 95 % bootstrap intervals, and those of the constant predictor.

    Raises
    ------
    LimbeckError
        If the rows do not fit the model or have no labels, or a threshold is not possible.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = lb.run(lb.Centralized(), [(X[:100], y[:100]), (X[100:300], y[100:300])]).model
    >>> found = lb.evaluate(model, (X[300:], y[300:]))
    >>> low, high = found.intervals["roc_auc"]
    >>> low < found.metrics.roc_auc < high, found.constant.roc_auc
    (True, 0.5)
    """
    predictor = _predictor(model)
    chosen = threshold_of(threshold, cost)
    classes, kind = len(predictor.classes_), predictor.task.kind
    if chosen is not None:
        check_threshold(kind, classes, predictor.packed.has_probabilities)
    x, y = labelled_rows(predictor, rows, label, reading)
    labels, scores = predictor.numbered(x, chosen)
    metrics = _metrics(labels, scores, y, classes, kind, chosen)
    constant = _metrics(*_constant(y, classes, kind), y, classes, kind)
    names = [str(name) for name in predictor.classes_]
    return Evaluation(
        rows=len(y),
        classes=names,
        task=kind,
        shares={} if kind == "regression" else dict(zip(names, _shares(y, classes, kind), strict=True)),
        metrics=metrics,
        intervals=intervals(labels, scores, y, classes, kind),
        constant=constant,
        calibration=[] if scores is None else calibration_bins(*_confidence(scores, y, kind)),
        threshold=chosen,
        remark=no_better_than_constant(metrics, constant.headline(kind), kind),
    )


def _predictor(given: Any) -> Predictor:
    """The model that is evaluated."""
    if isinstance(given, FinishedRun):
        if given.model is None:
            raise LimbeckError("model: each party of this run has a model of its own; give one of the result's models")
        return given.model
    if not isinstance(given, Predictor | str | Path):
        raise LimbeckError(
            "model must be a model, the Result of a run (that of a fitted estimator is its result_), or the path of "
            f"an ONNX file, not {shown(given)}"
        )
    return given if isinstance(given, Predictor) else load(given)


def _metrics(
    labels: Array, scores: Array | None, y: Array, classes: int, kind: Kind, threshold: float | None = None
) -> Metrics:
    if kind == "regression":
        return metrics_of_numbers(labels, y)
    if kind == "multiclass" or scores is None:
        return metrics_of_classes(labels, scores, y, classes)
    return metrics_of_several(scores, y, threshold)


def _shares(y: Array, classes: int, kind: Kind) -> list[float | None]:
    if kind == "multiclass":
        return [float(count / len(y)) for count in np.bincount(y, minlength=classes)]
    known = (y != UNKNOWN).sum(axis=0)
    positive = (y == POSITIVE).sum(axis=0)
    return [float(count / of) if of else None for count, of in zip(positive, known, strict=True)]


def _constant(y: Array, classes: int, kind: Kind) -> tuple[Array, Array | None]:
    """Predictions of the constant predictor."""
    if kind == "regression":
        return np.full(len(y), y.mean()), None
    shares = np.array([share or 0.0 for share in _shares(y, classes, kind)])
    labels = np.full(len(y), shares.argmax()) if kind == "multiclass" else np.tile(shares > 0.5, (len(y), 1))
    return labels.astype(np.int64), np.tile(shares, (len(y), 1))


def _confidence(scores: Array, y: Array, kind: Kind) -> tuple[Array, Array]:
    if kind == "multiclass":
        return confidence(scores, y)
    known = y != UNKNOWN
    return np.asarray(scores[known], np.float64), (y == POSITIVE)[known]
