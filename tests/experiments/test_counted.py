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
from limbeck.knowledge.counts import Bins, PredictionCounts, number_of_counts

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
    found = metrics_of_counts(PredictionCounts.of(y, labels, scores, Bins.equal(2, BINS).edges))
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
    found = metrics_of_counts(PredictionCounts.of(y, labels, scores, Bins.equal(4, BINS).edges))
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
    one = metrics_of_counts(
        PredictionCounts.of(np.zeros(3), np.array([0, 0, 1]), np.full((3, 2), 0.5), Bins.equal(2, 4).edges)
    )
    assert one.accuracy == pytest.approx(2 / 3)
    assert (one.roc_auc, one.pr_auc, one.sensitivity, one.f1) == (None, None, None, None)
    votes = metrics_of_counts(PredictionCounts.of(*rows(3), Bins.equal(3, 4).edges), has_probabilities=False)
    assert votes.accuracy is not None
    assert (votes.roc_auc, votes.pr_auc, votes.brier, votes.calibration_error) == (None, None, None, None)


@pytest.mark.parametrize("sigma", [0.0, 6.0])
def test_intervals_cover_the_metric_of_all_rows_that_there_could_be(sigma: float) -> None:
    """Samples of 400 rows, of a model whose true metrics are those of very many rows."""
    truth = metrics_of_counts(PredictionCounts.of(*rows(2, 200_000, seed=99), Bins.equal(2, BINS).edges))
    rng, names = np.random.default_rng(0), ("accuracy", "roc_auc", "sensitivity", "f1", "brier")
    covered = dict.fromkeys(names, 0)
    for seed in range(20):
        exact = PredictionCounts.of(*rows(2, 400, seed), Bins.equal(2, BINS).edges)
        noisy = PredictionCounts.from_vector(exact.vector + rng.normal(scale=sigma, size=exact.vector.size), 2, BINS)
        found = uncertainty_of(noisy.without_noise(), sigma, seed=seed)
        for name in names:
            covered[name] += found[name].low <= getattr(truth, name) <= found[name].high
            assert (found[name].noise > 0) == (sigma > 0)
    assert min(covered.values()) >= 15, covered


def test_bins_of_public_rows_suit_a_rare_class() -> None:
    """One row in twenty is positive, and no probability is above one half: bins of equal width lose the areas."""
    rng = np.random.default_rng(0)
    shares = rng.beta(0.5, 9.5, 20_000)
    y = (rng.random(20_000) < shares).astype(int)
    scores, public = np.stack([1 - shares, shares], axis=1), rng.beta(0.5, 9.5, 2000)
    bins = Bins.of_public(np.stack([1 - public, public], axis=1), 20)
    labels = np.zeros(20_000, int)
    found = metrics_of_counts(PredictionCounts.of(y, labels, scores, bins.edges), bins)
    assert found.roc_auc == pytest.approx(roc_auc_score(y, shares), abs=0.003)
    assert found.pr_auc == pytest.approx(average_precision_score(y, shares), abs=0.02)
    assert found.brier == pytest.approx(np.mean((y - shares) ** 2), abs=0.002)
    noisy = PredictionCounts.of(y, labels, scores, bins.edges).vector
    counts = (PredictionCounts.from_vector(noisy + rng.normal(0, 20, noisy.size), 2, 20) for _ in range(200))
    draws = [area for each in counts if (area := metrics_of_counts(each, bins).roc_auc) is not None]
    assert np.mean(draws) == pytest.approx(found.roc_auc, abs=4 * np.std(draws) / 200**0.5)  # no bias


@pytest.mark.parametrize("scores", [np.full((9, 2), 0.5), np.eye(2)[[0, 1, 1]], np.array([[0.2, 0.3, 0.5]])])
def test_every_bin_of_any_public_rows_has_a_point(scores: Any) -> None:
    bins = Bins.of_public(scores, 20)
    for edges, points in zip(bins.edges, bins.points, strict=True):
        assert (np.diff(edges) >= 0).all()
        filled = np.bincount(np.searchsorted(edges, points, side="right"), minlength=20)
        wide = np.diff(np.r_[0.0, edges, 1.0]) > 0
        assert (filled[wide] > 0).all()
