"""Ridge regression from sums: what it becomes without noise, and that noise shrinks it."""

import numpy as np
import pytest

from limbeck.knowledge.ridge import label_variance, ridge


def problem(rows: int = 400, features: int = 6, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)) * np.linspace(1, 0.1, features)
    truth = rng.normal(size=(features, classes))
    return x.T @ x / rows, x.T @ x / rows @ truth, truth


def test_without_errors_it_is_least_squares() -> None:
    gram, mean, truth = problem()
    weights, _ = ridge(mean, gram, np.zeros(2))
    assert np.allclose(weights, truth, atol=1e-6)


def test_an_error_in_proportion_to_the_eigenvalues_is_ridge_regression() -> None:
    """Error[1] g in direction g gives r / (g + error[1] / t), which is ridge regression with that regularization."""
    gram, mean, _ = problem()
    weights, regularization = ridge(mean, gram, np.array([0.0, 0.05]))
    assert np.allclose(weights, np.linalg.solve(gram + regularization * np.eye(6), mean), atol=1e-10)
    assert regularization > 0


def test_noise_shrinks_weak_directions_first() -> None:
    gram, mean, truth = problem()
    noise = 0.05
    noisy = mean + noise * np.random.default_rng(1).normal(size=mean.shape)
    known, _ = ridge(noisy, gram, np.array([noise**2, 0.0]))
    ignored, _ = ridge(noisy, gram, np.zeros(2))
    assert np.linalg.norm(known - truth) < 0.5 * np.linalg.norm(ignored - truth)


def test_pure_noise_gives_next_to_no_weights() -> None:
    gram, _, _ = problem()
    noise = np.random.default_rng(2).normal(size=(6, 3))
    weights, _ = ridge(noise, gram, np.array([1.0, 0.0]))
    assert np.abs(weights).max() < 0.05 * np.abs(np.linalg.solve(gram, noise)).max()


def test_directions_without_public_rows_get_no_weight() -> None:
    weights, _ = ridge(np.array([[1.0], [1.0]]), np.diag([1.0, 0.0]), np.array([1e-6, 0.0]))
    assert weights[1, 0] == pytest.approx(0.0)
    assert weights[0, 0] == pytest.approx(1.0, abs=1e-3)


def test_label_variance_stays_within_its_range() -> None:
    assert label_variance(np.array([0.5, 0.5])) == 0.25
    assert label_variance(np.array([1.4, -0.4])) == 1e-3
