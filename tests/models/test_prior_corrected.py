"""A model that learns as if classes had the shares of a prior."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.errors import LimbeckError
from limbeck.models.named import model_from
from limbeck.models.prior_corrected import class_weights, resampled


def clouds() -> tuple[Any, Any]:
    """Two clouds that overlap, nine rows of the one for each row of the other."""
    labels = np.repeat([0, 1], [270, 30])
    return (np.random.default_rng(0).normal(size=(300, 2)) + labels[:, None]).astype(np.float32), labels


@pytest.mark.parametrize(
    "model",
    [
        {"name": "logistic-regression"},
        {"name": "torch-mlp", "recipe": {"epochs": 30, "batch": 16, "learning_rate": 0.01}},
    ],
)
def test_classes_weigh_as_in_the_prior(model: dict[str, Any]) -> None:
    if model["name"] == "torch-mlp":
        pytest.importorskip("torch")
    x, y = clouds()

    def share(model: dict[str, Any]) -> float:
        """The mean probability of the second class among its own rows."""
        return float(model_from(model).fit(x, y, 2, 0).scores(x)[y == 1, 1].mean())

    plain = share(model)
    even = share({"name": "prior-corrected", "model": model})
    as_it_is = share({"name": "prior-corrected", "model": model, "prior": [0.9, 0.1]})
    assert even > plain + 0.25
    assert as_it_is == pytest.approx(plain, abs=0.05)


def test_rows_of_one_class_give_a_constant() -> None:
    fitted = model_from({"name": "prior-corrected", "model": {"name": "decision-tree"}}).fit(
        np.ones((5, 2), np.float32), np.ones(5, int), 3, 0
    )
    assert fitted.vote(np.zeros((2, 2), np.float32)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "model is missing"),
        ({"model": {"name": "knn"}, "prior": "even"}, "prior = 'even'"),
        ({"model": {"name": "knn"}, "prior": [0.0, 0.0]}, "not all of them 0"),
        ({"model": {"name": "knn"}, "prior": ["a"]}, "a share for each class"),
        ({"model": {"name": "knn"}, "priors": [1.0]}, "unknown key 'priors'"),
        ({"model": {"name": "kn"}}, "unknown model 'kn'"),
    ],
)
def test_wrong_tables_are_reported(table: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        model_from({"name": "prior-corrected", **table})


def test_a_prior_for_other_classes_is_reported() -> None:
    model = model_from({"name": "prior-corrected", "model": {"name": "decision-tree"}, "prior": [0.5, 0.5]})
    with pytest.raises(LimbeckError, match="prior has 2 shares, but there are 3 classes"):
        model.fit(np.eye(3, dtype=np.float32), np.arange(3), 3, 0)


def test_weights_give_classes_the_shares_of_the_prior() -> None:
    labels = np.repeat([0, 1, 2], [90, 10, 0])
    weights = class_weights(labels, np.array([0.2, 0.3, 0.5]))
    assert np.bincount(labels, weights) / 100 == pytest.approx([0.4, 0.6])
    assert class_weights(labels[:5], np.array([0.0, 0.5, 0.5])).tolist() == [1.0] * 5


def test_rare_rows_are_repeated() -> None:
    labels = np.repeat([0, 1], [90, 10])
    weights = class_weights(labels, np.array([0.5, 0.5]))
    rows = resampled(weights, 0)
    assert set(rows) == set(range(100))
    assert abs(labels[rows].mean() - 0.5) < 0.03
    assert np.array_equal(rows, resampled(weights, 0))
    rare = class_weights(np.repeat([0, 1], [999, 1]), np.array([0.5, 0.5]))
    assert len(resampled(rare, 0)) < 3.1 * 1000


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.0, 5e-324, 15e-324, 1e-310, 1e-7, 1e-6, 0.3, 1.0]), min_size=3, max_size=3),
)
def test_whatever_the_prior_is_rows_are_weighted_and_drawn(labels: list[int], prior: list[float]) -> None:
    weights = class_weights(np.array(labels), np.array(prior))
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert len(resampled(weights, 0)) <= 4 * len(labels)
