"""One name of a model stands for a classifier, for several labels a row, and for a regressor."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from limbeck.errors import LimbeckError
from limbeck.models.heads import LOSS_OF
from limbeck.models.jobs import task_of
from limbeck.models.named import CLASSIFIERS, NAMED, adapted, model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.per_label import PerLabel
from limbeck.models.regression import SklearnRegressor
from limbeck.models.smoke_test import smoke_test
from limbeck.models.tasks import for_task
from limbeck.protocol.recipe import Recipe

NETWORK = {"name": "torch-mlp", "hidden": [8], "recipe": {"epochs": 30, "batch": 16}}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)


@pytest.mark.parametrize("name", [*CLASSIFIERS, "linear-regression"])
def test_a_table_model_for_each_task(name: str) -> None:
    model = model_from({"name": name})
    if name == "linear-regression":
        for task in ("multiclass", "multilabel"):
            with pytest.raises(LimbeckError, match="'linear-regression' is a regressor: it is for numbers, and"):
                for_task(model, task)
        return
    assert for_task(model, "multiclass") is model
    assert isinstance(for_task(model, "multilabel"), PerLabel)
    if NAMED[name].regressor:
        assert isinstance(for_task(model, "regression"), SklearnRegressor)
    else:
        with pytest.raises(LimbeckError, match=f"'{name}' is a classifier and cannot learn numbers; use for example"):
            for_task(model, "regression")
    assert for_task(model, "multilabel").description == model.description


def test_estimators_of_a_user() -> None:
    assert isinstance(for_task(adapted(Ridge()), "regression"), SklearnRegressor)
    with pytest.raises(LimbeckError, match="'LogisticRegression' is a classifier and cannot learn numbers"):
        for_task(adapted(LogisticRegression()), "regression")
    for task in ("multiclass", "multilabel"):
        with pytest.raises(LimbeckError, match="'Ridge' is a regressor: it is for numbers, and these labels are class"):
            for_task(adapted(Ridge()), task)


def test_a_model_of_a_task_stays_what_it_is() -> None:
    for task in LOSS_OF:
        for given in ({"name": "knn"}, NETWORK):
            once = for_task(model_from(given), task)
            assert for_task(once, task) is once
            assert task_of(once) == task


def test_parameters_that_the_regressor_lacks_are_named() -> None:
    with pytest.raises(LimbeckError, match=r"model 'decision-tree', task = \"regression\": .*'class_weight'"):
        for_task(model_from({"name": "decision-tree", "class_weight": "balanced"}), "regression")


@pytest.mark.parametrize("given", [{"name": "knn"}, NETWORK])
@pytest.mark.parametrize(("task", "classes"), [("multilabel", 1), ("multilabel", 4), ("regression", 1)])
def test_each_passes_its_smoke_test(given: Any, task: Any, classes: int) -> None:
    smoke_test(for_task(model_from(given), task), (3,), classes)


def test_a_network_with_sigmoid_heads_leaves_unknown_labels_out() -> None:
    """Wrong labels that are marked as unknown change nothing."""
    y = np.stack([X[:, 0] > 0, X[:, 1] > 0], axis=1).astype(np.int8)
    unknown = y.copy()
    unknown[:60, 1] = -1
    model = for_task(model_from(NETWORK), "multilabel")
    fitted: Any = model.fit(X, unknown, 2, 1)
    labels, scores = PackedModel(fitted.pack()).run(X)
    assert (labels[:, 0] == y[:, 0]).mean() > 0.9
    assert (labels[60:, 1] == y[60:, 1]).mean() > 0.8
    assert np.allclose(scores, 1 / (1 + np.exp(-fitted.logits(X))), atol=1e-5)
    nothing: Any = model.fit(X, np.full((120, 2), -1, np.int8), 2, 1)
    assert np.isfinite(nothing.logits(X)).all()


def test_a_network_of_one_output_predicts_numbers() -> None:
    y = np.clip(0.5 + 0.2 * X[:, 0], 0, 1).astype(np.float32)
    fitted: Any = for_task(model_from(NETWORK), "regression").fit(X, y, 1, 1)
    labels, _ = PackedModel(fitted.pack()).run(X)
    assert np.corrcoef(labels, y)[0, 1] > 0.8
    assert np.allclose(labels, np.clip(fitted.logits(X)[:, 0], 0, 1), atol=1e-5)
    assert np.allclose(fitted.vote(X), labels, atol=1e-5)


def test_the_loss_follows_from_the_task() -> None:
    for task, loss in LOSS_OF.items():
        network: Any = for_task(model_from(NETWORK), task)
        assert network.checked(np.zeros(2), None).loss == loss
    network = for_task(model_from(NETWORK), "regression")
    assert network.checked(np.zeros(2), Recipe(loss="mae")).loss == "mae"
