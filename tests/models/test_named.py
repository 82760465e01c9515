"""Every named model: it learns, speaks of all classes in one order, and its packed self votes as it does."""

import numpy as np
import pytest

from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.models.named import CLASSIFIERS, model_from, parameters_of
from limbeck.models.onnx import PackedModel
from limbeck.models.sklearn import SklearnModel
from limbeck.protocol.rows import Array, Rows

FAST = {"mlp": {"max_iter": 40}, "xgboost": {"n_estimators": 20}, "lightgbm": {"n_estimators": 20}}
NO_PROBABILITIES = {"svm"}
NEAR = 1e-5


def halves(name: str) -> tuple[Rows, Rows, int]:
    data = load(name)
    parts = draw_parts(data, None, Draw(0.5), seed=0)
    assert parts.test is not None
    return data.rows(parts.private), parts.test, len(data.classes)


def margin(scores: Array) -> Array:
    """How far the top two scores lie apart."""
    top = np.sort(scores, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


@pytest.mark.parametrize("data", ["digits", "breast-cancer"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_packed_and_native_votes_agree(name: str, data: str) -> None:
    train, test, classes = halves(data)
    fitted = model_from({"name": name, **FAST.get(name, {})}).fit(train.x, train.y, classes, seed=0)
    packed = PackedModel(fitted.pack())
    clear = margin(fitted.scores(test.x)) >= NEAR
    assert clear.mean() > 0.95
    assert np.array_equal(fitted.vote(test.x)[clear], packed.vote(test.x)[clear])
    assert (packed.vote(test.x) == test.y).mean() > 0.75
    assert packed.has_probabilities == (name not in NO_PROBABILITIES)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_are_over_all_classes_whatever_was_seen(name: str) -> None:
    train, test, classes = halves("digits")
    seen = np.isin(train.y, [2, 3, 8])
    fitted = model_from({"name": name, **FAST.get(name, {})}).fit(train.x[seen], train.y[seen], classes, seed=0)
    for model in (fitted, PackedModel(fitted.pack())):
        scores = model.scores(test.x)
        assert scores.shape == (len(test), 10)
        assert set(np.flatnonzero(scores.max(axis=0))) <= {2, 3, 8}
        assert np.allclose(scores.sum(axis=1), 1, atol=1e-3)
        assert set(model.vote(test.x)) == {2, 3, 8}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    train, _, classes = halves("breast-cancer")
    model = model_from({"name": name, **FAST.get(name, {})})
    first, second = (model.fit(train.x, train.y, classes, seed=5).pack() for _ in range(2))
    assert first == second


def test_parameters_reach_the_estimator_inside_a_pipeline() -> None:
    svm, forest = model_from({"name": "svm", "C": 3.0}), model_from({"name": "random-forest", "max_depth": 6})
    assert isinstance(svm, SklearnModel)
    assert isinstance(forest, SklearnModel)
    assert svm.estimator[-1].C == 3.0
    assert forest.estimator.max_depth == 6


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ({"name": "random-forst"}, "unknown model 'random-forst'; did you mean 'random-forest'?"),
        ({"name": "random-forest", "max_dept": 3}, "no parameter 'max_dept'; did you mean 'max_depth'?"),
        ({"name": "xgboost", "n_estimator": 3}, "no parameter 'n_estimator'; did you mean 'n_estimators'?"),
        ({"name": "python:nowhere:model"}, "No module named 'nowhere'"),
        ({"name": "python:factories:nothing"}, "no attribute 'nothing'"),
        ({"name": "python:factories"}, "write python:package.module:thing"),
        ({"name": "python:factories:not_callable"}, "it must be a function or a class"),
        ({"name": "python:factories:small_tree", "dept": 2}, "no parameter 'dept'; did you mean 'depth'?"),
    ],
)
def test_a_wrong_name_or_parameter_is_reported(description: dict[str, object], complaint: str) -> None:
    with pytest.raises(LimbeckError) as refusal:
        model_from(description)
    assert complaint in str(refusal.value)


def test_a_users_own_factory() -> None:
    model = model_from({"name": "python:factories:small_tree", "depth": 3})
    assert isinstance(model, SklearnModel)
    assert model.estimator.max_depth == 3
    assert model.name == "python:factories:small_tree"
    assert parameters_of("python:factories:small_tree") == {"depth", "recipe"}
