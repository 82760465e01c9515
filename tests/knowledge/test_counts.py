"""Counts of test rows: what they count, how far a row moves them, and what is left of noise."""

from itertools import product

import numpy as np
import pytest

from limbeck.knowledge.counts import Bins, PredictionCounts, nearest_counts, number_of_counts, sensitivity_of_counts


def every_row(classes: int, bins: int) -> list[tuple[int, int, list[float]]]:
    """All kinds of rows: class, predicted class, and a bin of each probability, which need not add up to 1."""
    middles = (np.arange(bins) + 0.5) / bins
    return [
        (y, label, list(scores))
        for y in range(classes)
        for label in range(classes)
        for scores in product(middles, repeat=classes)
    ]


def vector(rows: list[tuple[int, int, list[float]]], classes: int, bins: int) -> np.ndarray:
    y, labels, scores = zip(*rows, strict=True)
    return PredictionCounts.of(np.array(y), np.array(labels), np.array(scores), Bins.equal(classes, bins).edges).vector


@pytest.mark.parametrize(("classes", "bins"), [(2, 3), (3, 2), (4, 2)])
def test_no_two_neighbours_differ_more_than_the_sensitivity_and_some_differ_as_much(classes: int, bins: int) -> None:
    kinds = np.stack([vector([row], classes, bins) for row in every_row(classes, bins)])
    assert kinds.shape[1] == number_of_counts(classes, bins)
    squares = (kinds**2).sum(axis=1)
    distances = squares[:, None] + squares[None] - 2 * kinds @ kinds.T
    assert np.sqrt(distances.max()) == pytest.approx(sensitivity_of_counts(classes, replaced=True), abs=1e-12)
    assert np.sqrt(squares.max()) == pytest.approx(sensitivity_of_counts(classes, replaced=False), abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_vector_of_rows_is_the_sum_of_their_vectors(classes: int) -> None:
    rows = every_row(classes, 2)[::7]
    assert np.array_equal(vector(rows, classes, 2), np.sum([vector([row], classes, 2) for row in rows], axis=0))


@pytest.mark.parametrize("classes", [2, 3])
def test_counts_of_rows_are_consistent_and_their_own_nearest_counts(classes: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(classes), 200)
    counts = PredictionCounts.of(
        rng.integers(classes, size=200), scores.argmax(axis=1), scores, Bins.equal(classes, 20).edges
    )
    assert counts.are_consistent
    assert np.array_equal(counts.without_noise().vector, counts.vector)
    again = PredictionCounts.from_vector(counts.vector, classes, 20)
    assert np.array_equal(again.histograms, counts.histograms)
    moved = counts.vector.copy()
    moved[-1] += 1
    assert not PredictionCounts.from_vector(moved, classes, 20).are_consistent


def test_odd_probabilities_count_in_the_outer_bins() -> None:
    scores = np.array([[0.0, 1.0], [2.0, -1.0], [0.0, 7.0]])
    assert PredictionCounts.of(np.zeros(3), np.zeros(3), scores, Bins.equal(2, 4).edges).histograms[0].tolist() == [
        [1, 0, 0, 2],
        [0, 0, 0, 0],
    ]


def test_nearest_counts_are_the_nearest() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.normal(scale=5.0, size=6) + np.array([30, 0, 0, 10, 0, 0])
    found = nearest_counts(noisy, 40.0)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(40.0)
    others = rng.dirichlet(np.ones(6), 20_000) * 40
    assert ((others - noisy) ** 2).sum(axis=1).min() >= ((found - noisy) ** 2).sum()
    assert nearest_counts(noisy, -3.0).tolist() == [0.0] * 6


def test_without_noise_nothing_is_negative_and_all_agrees() -> None:
    rng = np.random.default_rng(1)
    found = PredictionCounts.from_vector(rng.normal(5, 30, number_of_counts(3, 20)), 3, 20).without_noise()
    assert found.vector.min() >= 0
    totals = found.confusion.sum(axis=1)
    assert found.histograms.sum(axis=2)[:3, 1] == pytest.approx(totals)
    assert found.histograms.sum(axis=(1, 2)) == pytest.approx(np.full(4, totals.sum()))
