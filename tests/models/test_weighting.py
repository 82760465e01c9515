"""Sample weights in training: what a weight means, which models take weights, and the same result on every trainer."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from limbeck.data.sets import load
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError
from limbeck.models.caching import key_of_job
from limbeck.models.device import Device
from limbeck.models.jobs import Fit, FitAndScore, FitAndVote, Refit
from limbeck.models.named import adapted, model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.tasks import for_task
from limbeck.models.torch import TorchModel
from limbeck.models.weighting import beside_others, rows_that_count, takes_weights
from limbeck.protocol.learning import Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

IRIS = load("iris")
X, Y = IRIS.x.astype(np.float32), IRIS.y
TIMES = np.random.default_rng(0).integers(0, 4, len(X))
MANY = np.repeat(np.arange(len(X)), TIMES)
SEVERAL = np.stack([Y == 1, Y == 2], axis=1).astype(np.int8)
LABELS: dict[str, tuple[Array, int]] = {
    "multiclass": (Y, 3),
    "multilabel": (SEVERAL, 2),
    "regression": ((X[:, 0] / 8).astype(np.float32), 1),
}


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(shape[0], classes)


def hidden(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, classes))


WEIGHTED = TorchModel(hidden, Recipe(epochs=4, batch=16, patience=2, learning_rate=0.02))


def scores(model: Model, rows: Array, y: Array, weight: Array | None, classes: int = 3) -> Array:
    return FitAndScore(model, rows, y, X, weight).run(classes, seed=0)


@pytest.mark.parametrize("task", list(LABELS))
def test_a_weight_of_two_is_a_row_that_is_there_twice(task: Any) -> None:
    y, classes = LABELS[task]
    model = for_task(model_from({"name": "decision-tree", "max_depth": 2}), task)
    weighted = scores(model, X, y, TIMES.astype(np.float64), classes)
    assert np.allclose(weighted, scores(model, X[MANY], y[MANY], None, classes), atol=1e-5)
    assert not np.allclose(weighted, scores(model, X, y, None, classes), atol=1e-5)


@pytest.mark.parametrize("task", list(LABELS))
def test_so_it_is_in_a_step_of_a_network_with_all_rows(task: Any) -> None:
    y, classes = LABELS[task]
    recipe = Recipe(epochs=3, batch=1000, optimizer="sgd", learning_rate=0.5, weight_decay=0.0)
    model = TorchModel(linear, Recipe(), task=task)
    found = [
        Refit(model, rows, labels, None, recipe, weight=weight)
        for rows, labels, weight in ((X, y, TIMES * 0.1), (X[MANY], y[MANY], None), (X, y, None))
    ]
    own, repeated, plain = (model.with_weights(job.run(classes, 0), X.shape[1:], classes).logits(X) for job in found)
    assert np.allclose(own, repeated, atol=1e-4)
    assert not np.allclose(own, plain, atol=1e-3)


@pytest.mark.parametrize("task", list(LABELS))
def test_stacked_networks_are_those_that_are_trained_alone(task: Any) -> None:
    y, classes = LABELS[task]
    model, rng = for_task(WEIGHTED, task), np.random.default_rng(1)
    sets = [rng.permutation(len(X))[:size] for size in (90, 60, 30)]
    weights = [rng.random(len(rows)) * (rng.random(len(rows)) < 0.9) for rows in sets]
    kind = FitAndVote if task == "multiclass" else FitAndScore
    jobs: list[Any] = [kind(model, X[rows], y[rows], X, weight) for rows, weight in zip(sets, weights, strict=True)]
    jobs += [Fit(model, X[sets[0]], y[sets[0]]), FitAndScore(model, X[sets[0]], y[sets[0]], X)]
    exact = Device(precision="float64")
    stacked = StackedTrainer(exact, SequentialTrainer(exact))
    together, alone = (trainer.run(jobs, classes, range(5)) for trainer in (stacked, SequentialTrainer(exact)))
    assert [note["networks"] for note in stacked.stacks] == [3, 2]
    for one, other in zip(together, alone, strict=True):
        if not isinstance(one, bytes):
            assert np.allclose(one, other, atol=1e-6)
    unweighted = together[4].argmax(axis=1) if task == "multiclass" else together[4]
    assert not np.allclose(together[0], unweighted, atol=1e-3)


def test_rows_of_weight_zero_and_the_scale_of_weights_change_nothing() -> None:
    rng = np.random.default_rng(0)
    weight = rng.random(len(X))
    weight[Y == 1] = 0
    for model in (model_from({"name": "random-forest", "n_estimators": 5}), model_from({"name": "xgboost"}), WEIGHTED):
        found = scores(model, X, Y, weight)
        assert (found == scores(model, X[Y != 1], Y[Y != 1], weight[Y != 1])).all()
        assert np.allclose(found, scores(model, X, Y, weight / 1000), atol=1e-3)
    only = (Y == 2).astype(float)
    assert PackedModel(Fit(WEIGHTED, X, Y, weight=only).run(3, 0)).vote(X).tolist() == [2] * len(X)


def test_equal_weights_are_none_and_no_weights_are_no_rows() -> None:
    assert rows_that_count(X, Y, np.full(len(X), 0.1))[2] is None
    empty = Fit(WEIGHTED, X, Y, weight=np.zeros(len(X)))
    assert len(empty.rows) == 0
    with pytest.raises(LimbeckError, match="no row has a label"):
        empty.run(3, 0)
    assert beside_others(3, None) is None


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        (model_from({"name": "knn"}), False),
        (adapted(make_pipeline(StandardScaler(), LogisticRegression())), True),
        (adapted(make_pipeline(StandardScaler(), KNeighborsClassifier())), False),
        (for_task(model_from({"name": "knn"}), "multilabel"), False),
        (for_task(model_from({"name": "knn"}), "regression"), False),
        (model_from({"name": "prior-corrected", "model": {"name": "knn"}}), True),
        (model_from({"name": "tfidf-linear"}), True),
        (WEIGHTED, True),
    ],
)
def test_which_models_take_weights(model: Model, takes: bool) -> None:
    assert takes_weights(model) is takes


def test_a_model_without_weights_is_not_fitted_to_weighted_rows() -> None:
    with pytest.raises(LimbeckError, match="model 'knn' does not use sample weights or class weights"):
        scores(model_from({"name": "knn"}), X, Y, TIMES + 1.0)


def test_a_prior_corrected_model_keeps_the_ratios_within_a_class() -> None:
    """A class has its share of the prior, whatever its weights are; rows within it have their own."""
    model = model_from({"name": "prior-corrected", "model": {"name": "naive-bayes"}, "prior": "uniform"})
    by_class = np.array([1.0, 0.2, 0.5])[Y]
    assert np.allclose(scores(model, X, Y, by_class), scores(model, X, Y, None), atol=1e-4)
    rng = np.random.default_rng(0)
    assert not np.allclose(scores(model, X, Y, rng.random(len(Y))), scores(model, X, Y, None), atol=1e-4)


def test_texts_have_weights_too() -> None:
    rows = Tokens(length=4).encode(["a film", "a book", "a film", "a book"])
    model, y = model_from({"name": "tfidf-linear"}), np.array([0, 1, 1, 0])
    film = FitAndScore(model, rows, y, rows, np.array([1.0, 0.9, 0.1, 0.1])).run(2, 0)
    assert film.argmax(axis=1).tolist() == [0, 1, 0, 1]


def test_a_cached_result_is_for_its_weights() -> None:
    weights = (None, np.arange(150.0) + 1, np.arange(150.0) + 2)
    keys = {key_of_job(Fit(WEIGHTED, X, Y, weight=weight), 3, 0, {}) for weight in weights}
    assert len(keys) == 3
    assert key_of_job(Fit(WEIGHTED, X, Y, weight=np.arange(150.0) + 1), 3, 0, {}) in keys
