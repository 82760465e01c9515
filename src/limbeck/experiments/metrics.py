"""Metrics of models on test rows."""

from dataclasses import dataclass

import numpy as np

from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a model on test rows, as fractions.

    Parameters
    ----------
    accuracy : float
        Share of rows that are predicted correctly.
    balanced_accuracy : float
        Mean recall over the classes of the test rows.
    roc_auc : float or None
        Area under the ROC curve, one class against the rest. None if the model has no finite probabilities or the test
        rows have one class only.
    """

    accuracy: float
    balanced_accuracy: float
    roc_auc: float | None


def score(model: PackedModel, test: Rows) -> Metrics:
    """Evaluate a model.

    Parameters
    ----------
    model : PackedModel
        Fitted model.
    test : Rows
        Test rows.

    Returns
    -------
    Metrics
        Metrics on these rows.
    """
    labels, scores = model.run(test.x)
    hit = labels == test.y
    recalls = [hit[test.y == label].mean() for label in np.unique(test.y)]
    auc = _roc_auc(scores, test.y) if model.has_probabilities else None
    return Metrics(float(hit.mean()), float(np.mean(recalls)), auc)


def mean_metrics(each: list[Metrics]) -> Metrics:
    """Unweighted mean of the metrics of several parties.

    Parameters
    ----------
    each : list of Metrics
        Metrics of each party.

    Returns
    -------
    Metrics
        Their means; `roc_auc` is None if a party has none.

    Examples
    --------
    >>> mean_metrics([Metrics(0.5, 0.5, None), Metrics(1.0, 0.75, 0.9)])
    Metrics(accuracy=0.75, balanced_accuracy=0.625, roc_auc=None)
    """
    aucs = [metrics.roc_auc for metrics in each if metrics.roc_auc is not None]
    return Metrics(
        accuracy=float(np.mean([metrics.accuracy for metrics in each])),
        balanced_accuracy=float(np.mean([metrics.balanced_accuracy for metrics in each])),
        roc_auc=float(np.mean(aucs)) if len(aucs) == len(each) else None,
    )


def constant_accuracy(private: list[Rows], test: Rows, classes: int) -> float:
    """Accuracy of the constant predictor: a model that always predicts the most frequent private class.

    Parameters
    ----------
    private : list of Rows
        Private rows of each party.
    test : Rows
        Test rows.
    classes : int
        Number of classes.

    Returns
    -------
    float
        Accuracy. A method is only useful if it is better.

    Examples
    --------
    >>> x, y = np.zeros((4, 1)), np.array([0, 1, 1, 1])
    >>> constant_accuracy([Rows(x, y)], Rows(x, y), 2)
    0.75
    """
    counts = np.bincount(np.concatenate([rows.y for rows in private]), minlength=classes)
    return float((test.y == counts.argmax()).mean())


def _roc_auc(scores: Array, y: Array) -> float | None:
    """One class against the rest, averaged over the classes of the test rows."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(y)
    if len(present) < 2 or not np.isfinite(scores).all():
        return None
    if scores.shape[1] == 2:
        return float(roc_auc_score(y, scores[:, 1]))
    return float(np.mean([roc_auc_score(y == label, scores[:, label]) for label in present]))
