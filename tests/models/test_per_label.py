"""Several labels a row with any classifier: one binary model for each class."""

from typing import Any

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.models.jobs import answers, constant_model
from limbeck.models.named import CLASSIFIERS, model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.per_label import PerLabel

SMALL: dict[str, dict[str, Any]] = {
    "random-forest": {"n_estimators": 3},
    "extra-trees": {"n_estimators": 3},
    "xgboost": {"n_estimators": 3},
    "lightgbm": {"n_estimators": 3},
    "mlp": {"max_iter": 20},
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.stack([X[:, 0] > 0, X[:, 1] > 0.3, X[:, 2] > 0, X[:, 0] > 9], axis=1).astype(np.int8)
Y[::3, 1], Y[:, 2] = -1, -1  # some labels of one class are unknown, all of another; the last one has no positives


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_packed_model_is_the_models_of_all_classes(name: str) -> None:
    model = model_from({"name": name, **SMALL.get(name, {})})
    fitted = PerLabel(model).fit(X, Y, 4, seed=5)
    packed = PackedModel(fitted.pack())
    labels, scores = packed.run(X)
    assert np.allclose(scores, fitted.scores(X), atol=1e-5)
    assert (labels == fitted.vote(X))[np.abs(scores - 0.5) > 1e-5].all()
    assert labels.shape == scores.shape == (60, 4)
    known = Y[:, 1] >= 0
    alone = model.fit(X[known], Y[known, 1].astype(np.int64), 2, 6)
    assert np.allclose(scores[:, 1], alone.scores(X)[:, 1], atol=1e-5), "unknown labels are left out"
    assert (scores[:, 2] == 0.5).all(), "no model of a class without labels"
    assert (labels[:, 2:] == 0).all()
    assert answers(fitted.pack(), X, 4, task="multilabel")


def test_one_class_is_the_binary_classifier() -> None:
    tree = model_from({"name": "decision-tree", "max_depth": 3})
    several = PerLabel(tree).fit(X, Y[:, :1], 1, seed=3)
    binary = tree.fit(X, Y[:, 0].astype(np.int64), 2, 3)
    assert (several.scores(X)[:, 0] == binary.scores(X)[:, 1]).all()
    assert (several.vote(X)[:, 0] == binary.vote(X)).all()


def test_nothing_known_at_all_is_a_model_too() -> None:
    fitted = PerLabel(model_from({"name": "knn"})).fit(X, np.full((60, 2), -1), 2, 0)
    labels, scores = PackedModel(fitted.pack()).run(X)
    assert (scores == 0.5).all()
    assert (labels == 0).all()


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(LimbeckError, match=r"labels of shape \(60,\); for several labels a row it is \(60, 2\)"):
        PerLabel(model_from({"name": "knn"})).fit(X, Y[:, 0], 2, 0)


@pytest.mark.parametrize(("task", "classes"), [("multilabel", 3), ("regression", 1)])
def test_a_model_in_place_of_a_failed_training_knows_nothing(task: Any, classes: int) -> None:
    packed = constant_model(7, classes, (3,), task)
    labels, scores = PackedModel(packed).run(X)
    assert (scores == 0.5).all()
    assert scores.shape == (60, classes)
    assert (labels == (0 if task == "multilabel" else 0.5)).all()
    assert answers(packed, X, classes, task=task)
