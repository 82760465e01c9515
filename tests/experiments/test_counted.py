"""Metrics from counts, beside those of the rows themselves."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    recall_score,
    roc_auc_score,
)

from limbeck.experiments.counted import FIGURES, metrics_of_counts, uncertainty_of
from limbeck.knowledge.counts import PredictionCounts, number_of_counts

BINS = 20


def rows(classes: int, number: int = 600, seed: int = 0) -> tuple[Any, Any, Any]:
    """Classes, predicted classes and probabilities of a model that is right more often than not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=number)
    logits = rng.normal(size=(number, classes)) + 1.5 * np.eye(classes)[y]
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return y, scores.argmax(axis=1), scores


def test_two_classes_as_sklearn_has_them() -> None:
    y, labels, scores = rows(2)
    found = metrics_of_counts(PredictionCounts.of(y, labels, scores, 2, BINS))
    exact = {
        "accuracy": accuracy_score(y, labels),
        "balanced_accuracy": balanced_accuracy_score(y, labels),
        "sensitivity": recall_score(y, labels),
        "specificity": recall_score(y, labels, pos_label=0),
        "f1": f1_score(y, labels),
    }
    assert {name: getattr(found, name) for name in exact} == pytest.approx(exact, abs=1e-12)
    assert found.confusion == confusion_matrix(y, labels).tolist()
    assert found.roc_auc == pytest.approx(roc_auc_score(y, scores[:, 1]), abs=1 / BINS)
    assert found.roc_auc == pytest.approx(roc_auc_score(y, scores[:, 1]), abs=0.01)
    assert found.pr_auc == pytest.approx(average_precision_score(y, scores[:, 1]), abs=0.02)
    assert found.brier == pytest.approx(brier_score_loss(y, scores[:, 1]), abs=0.005)
    assert found.calibration_error == pytest.approx(_calibration_error(scores[:, 1], y == 1), abs=0.01)


def test_more_classes_as_sklearn_has_them() -> None:
    y, labels, scores = rows(4)
    found = metrics_of_counts(PredictionCounts.of(y, labels, scores, 4, BINS))
    assert found.confusion == confusion_matrix(y, labels).tolist()
    assert found.f1 == pytest.approx(f1_score(y, labels, average="macro"), abs=1e-12)
    assert (found.sensitivity, found.specificity) == (None, None)
    areas = [average_precision_score(y == k, scores[:, k]) for k in range(4)]
    assert found.pr_auc == pytest.approx(np.mean(areas), abs=0.03)
    assert found.roc_auc == pytest.approx(roc_auc_score(y, scores, multi_class="ovr"), abs=0.01)
    assert found.brier == pytest.approx(((scores - np.eye(4)[y]) ** 2).sum(axis=1).mean(), abs=0.01)
    best = scores.max(axis=1), scores.argmax(axis=1) == y
    assert found.calibration_error == pytest.approx(_calibration_error(*best), abs=0.01)


def _calibration_error(shares: Any, truth: Any) -> float:
    """Over ten intervals of equal width."""
    places = np.minimum((shares * 10).astype(int), 9)
    return float(sum(abs((shares - truth)[places == place].sum()) for place in range(10)) / len(truth))


def test_what_has_no_rows_is_none() -> None:
    none = metrics_of_counts(PredictionCounts.from_vector(np.zeros(number_of_counts(2, 4)), 2, 4))
    assert all(getattr(none, name) is None for name in FIGURES)
    one = metrics_of_counts(PredictionCounts.of(np.zeros(3), np.array([0, 0, 1]), np.full((3, 2), 0.5), 2, 4))
    assert one.accuracy == pytest.approx(2 / 3)
    assert (one.roc_auc, one.pr_auc, one.sensitivity, one.f1) == (None, None, None, None)
    votes = metrics_of_counts(PredictionCounts.of(*rows(3), 3, 4), has_probabilities=False)
    assert votes.accuracy is not None
    assert (votes.roc_auc, votes.pr_auc, votes.brier, votes.calibration_error) == (None, None, None, None)


@pytest.mark.parametrize("sigma", [0.0, 6.0])
def test_intervals_cover_the_metric_of_all_rows_that_there_could_be(sigma: float) -> None:
    """Samples of 400 rows, of a model whose true metrics are those of very many rows."""
    truth = metrics_of_counts(PredictionCounts.of(*rows(2, 200_000, seed=99), 2, BINS))
    rng, names = np.random.default_rng(0), ("accuracy", "roc_auc", "sensitivity", "f1", "brier")
    covered = dict.fromkeys(names, 0)
    for seed in range(20):
        exact = PredictionCounts.of(*rows(2, 400, seed), 2, BINS)
        noisy = PredictionCounts.from_vector(exact.vector + rng.normal(scale=sigma, size=exact.vector.size), 2, BINS)
        found = uncertainty_of(noisy.without_noise(), sigma, seed=seed)
        for name in names:
            covered[name] += found[name].low <= getattr(truth, name) <= found[name].high
            assert (found[name].noise > 0) == (sigma > 0)
    assert min(covered.values()) >= 15, covered
