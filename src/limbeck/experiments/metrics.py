"""How good a model is on the test rows."""

from dataclasses import dataclass

import numpy as np

from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows


@dataclass(frozen=True, slots=True)
class Metrics:
    """Fractions; `roc_auc` is None where a model has no finite probabilities or the test rows are of one class."""

    accuracy: float
    balanced_accuracy: float
    roc_auc: float | None


def score(model: PackedModel, test: Rows) -> Metrics:
    labels, scores = model.run(test.x)
    hit = labels == test.y
    recalls = [hit[test.y == label].mean() for label in np.unique(test.y)]
    auc = _roc_auc(scores, test.y) if model.has_probabilities else None
    return Metrics(float(hit.mean()), float(np.mean(recalls)), auc)


def mean_metrics(each: list[Metrics]) -> Metrics:
    """The unweighted mean over parties."""
    aucs = [metrics.roc_auc for metrics in each if metrics.roc_auc is not None]
    return Metrics(
        accuracy=float(np.mean([metrics.accuracy for metrics in each])),
        balanced_accuracy=float(np.mean([metrics.balanced_accuracy for metrics in each])),
        roc_auc=float(np.mean(aucs)) if len(aucs) == len(each) else None,
    )


def constant_accuracy(private: list[Rows], test: Rows, classes: int) -> float:
    """What always saying the commonest private class scores: learning starts above it."""
    counts = np.bincount(np.concatenate([rows.y for rows in private]), minlength=classes)
    return float((test.y == counts.argmax()).mean())


def _roc_auc(scores: Array, y: Array) -> float | None:
    """One class against the rest, averaged over the classes that the test rows hold."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(y)
    if len(present) < 2 or not np.isfinite(scores).all():
        return None
    if scores.shape[1] == 2:
        return float(roc_auc_score(y, scores[:, 1]))
    return float(np.mean([roc_auc_score(y == label, scores[:, label]) for label in present]))
