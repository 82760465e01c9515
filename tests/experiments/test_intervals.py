"""Bootstrap intervals against the plain bootstrap, with scikit-learn's metrics of each resample."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, r2_score, roc_auc_score

from limbeck.experiments.intervals import intervals, metrics_by_times
from limbeck.experiments.metrics import Metrics, metrics_of_classes, metrics_of_numbers, metrics_of_several
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

ROWS = 120


def predictions(classes: int) -> tuple[Array, Array, Array]:
    """Labels, probabilities with many ties, and classes."""
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, ROWS)
    scores = np.round(rng.random((ROWS, classes)) + 0.6 * np.eye(classes)[y], 1) + 0.05
    scores /= scores.sum(axis=1, keepdims=True)
    return scores.argmax(axis=1), scores, y


def resampled(times: Array, *arrays: Array) -> list[Array]:
    return [np.repeat(array, times.astype(int), axis=0) for array in arrays]


def check(times: Array, found: dict[str, Array], metrics: Metrics, number: int) -> None:
    for name, values in found.items():
        expected = getattr(metrics, name)
        assert values[number] == pytest.approx(np.nan if expected is None else expected, nan_ok=True), name


@pytest.mark.parametrize("classes", [2, 3])
def test_every_resample_has_the_metrics_of_its_rows(classes: int) -> None:
    labels, scores, y = predictions(classes)
    times = np.random.default_rng(0).integers(0, 3, (5, ROWS)).astype(float)
    found = metrics_by_times(labels, scores, y, classes)(times)
    assert {"accuracy", "balanced_accuracy", "roc_auc", "pr_auc", "f1", "brier", "calibration_error"} <= set(found)
    assert ("sensitivity" in found) == (classes == 2)
    for number, each in enumerate(times):
        own_labels, own_scores, own_y = resampled(each, labels, scores, y)
        check(times, found, metrics_of_classes(own_labels, own_scores, own_y, classes), number)


def test_several_labels_and_numbers_too() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(-1, 2, (ROWS, 3))
    scores = np.round(np.clip(0.4 * y + 0.6 * rng.random((ROWS, 3)), 0, 1), 1)
    times = rng.integers(0, 3, (4, ROWS)).astype(float)
    found = metrics_by_times((scores > 0.5).astype(int), scores, y, 3, "multilabel")(times)
    numbers = metrics_by_times(scores[:, 0], None, scores[:, 1], 1, "regression")(times)
    for number, each in enumerate(times):
        own_scores, own_y = resampled(each, scores, y)
        check(times, found, metrics_of_several(own_scores, own_y), number)
        own = resampled(each, scores[:, 0], scores[:, 1])
        check(times, numbers, metrics_of_numbers(own[0], own[1]), number)
        assert numbers["r2"][number] == pytest.approx(r2_score(own[1], own[0]))


def test_ends_are_the_quantiles_of_a_plain_bootstrap() -> None:
    labels, scores, y = predictions(2)
    found, rng = intervals(labels, scores, y, classes=2, resamples=2000), np.random.default_rng(5)
    plain: dict[str, Any] = {"roc_auc": [], "pr_auc": [], "f1": []}
    for _ in range(400):
        rows = rng.integers(ROWS, size=ROWS)
        plain["roc_auc"].append(roc_auc_score(y[rows], scores[rows, 1]))
        plain["pr_auc"].append(average_precision_score(y[rows], scores[rows, 1]))
        plain["f1"].append(f1_score(y[rows], labels[rows]))
    for name, values in plain.items():
        assert found[name] == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.02)


def test_it_repeats_and_follows_its_seed_whatever_is_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores, y = predictions(2)
    first = intervals(labels, scores, y, 2, resamples=50)
    assert intervals(labels, scores, y, 2, resamples=50, seed=1) != first
    monkeypatch.setattr("limbeck.experiments.intervals.AT_ONCE", 7 * ROWS)
    again = intervals(labels, scores, y, 2, resamples=50)
    assert {name: pytest.approx(ends) for name, ends in first.items()} == again


def test_resamples_of_one_class_do_not_count() -> None:
    y = np.array([1, 0, 0, 0])
    scores = np.stack([1 - y * 0.9, y * 0.9], axis=1)
    found = intervals(y, scores, y, 2)
    assert found["roc_auc"] == found["pr_auc"] == found["sensitivity"] == (1.0, 1.0)
    kind: Kind = "multiclass"
    one_class = intervals(np.zeros(4, int), scores, np.zeros(4, int), 2, kind)
    assert {"roc_auc", "pr_auc", "sensitivity", "f1"} & set(one_class) == set()
    assert "brier" not in intervals(y, None, y, 2)
    assert "brier" not in intervals(y, np.full((4, 2), np.nan), y, 2)
