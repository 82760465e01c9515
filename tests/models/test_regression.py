"""Regressors: what is packed predicts what was fitted, limited to the range of the target."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from limbeck.errors import LimbeckError
from limbeck.models.named import NAMED, adapted, model_from
from limbeck.models.onnx import PackedModel, in_range
from limbeck.models.regression import SklearnRegressor
from limbeck.models.tasks import for_task
from limbeck.protocol.recipe import Recipe

SMALL: dict[str, dict[str, Any]] = {
    "random-forest": {"n_estimators": 3},
    "extra-trees": {"n_estimators": 3},
    "xgboost": {"n_estimators": 3},
    "lightgbm": {"n_estimators": 3},
    "mlp": {"max_iter": 20},
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.clip(0.5 + 0.3 * X[:, 0] + 0.05 * RNG.normal(size=60), 0, 1).astype(np.float32)
NAMES = [name for name in NAMED if NAMED[name].regressor]
OWN: list[Any] = [LinearRegression(), ElasticNet(alpha=0.01), make_pipeline(StandardScaler(), SVR())]


def fitted_of(model: Any, y: Any = Y, x: Any = X) -> Any:
    return for_task(model, "regression").fit(x, y, 1, 4)


@pytest.mark.parametrize("name", NAMES)
def test_the_packed_regressor_is_the_fitted_one(name: str) -> None:
    fitted = fitted_of(model_from({"name": name, **SMALL.get(name, {})}))
    labels, scores = PackedModel(fitted.pack()).run(X)
    assert np.allclose(labels, fitted.vote(X), atol=1e-5)
    assert (scores[:, 0] == labels).all()
    assert np.corrcoef(labels, Y)[0, 1] > 0.5
    assert ((labels >= 0) & (labels <= 1)).all()


@pytest.mark.parametrize("estimator", OWN, ids=str)
def test_a_users_own_regressor(estimator: Any) -> None:
    fitted = fitted_of(adapted(estimator))
    assert np.allclose(PackedModel(fitted.pack()).run(X)[0], fitted.vote(X), atol=1e-5)
    expected = estimator.fit(X, Y).predict(X)
    assert np.allclose(fitted.vote(X), np.clip(expected, 0, 1), atol=1e-5)


@pytest.mark.parametrize("name", [*NAMES, "one row"])
@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_a_constant_target_is_predicted(name: str, value: float) -> None:
    """A tree without any value above 0 and a support vector machine without vectors could not be packed."""
    x = X[:1] if name == "one row" else X
    fitted = fitted_of(model_from({"name": "knn" if name == "one row" else name}), np.full(len(x), value), x)
    assert (PackedModel(fitted.pack()).run(X)[0] == np.float32(value)).all()


def test_predictions_beyond_the_range_are_limited() -> None:
    fitted = fitted_of(model_from({"name": "linear-regression"}))
    far = np.array([[50, 0, 0], [-50, 0, 0]], np.float32)
    assert PackedModel(fitted.pack()).run(far)[0].tolist() == fitted.vote(far).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("low", "high"), [(-10.0, 30.0), (1e6, 1e6 + 8), (0.0, 1e-3)])
def test_a_model_file_predicts_in_the_unit_of_the_target(low: float, high: float) -> None:
    packed = fitted_of(model_from({"name": "decision-tree"})).pack()
    labels, scores = PackedModel(packed).run(X)
    wide, same = PackedModel(in_range(packed, low, high)).run(X)
    assert (same == scores).all()
    assert np.allclose(wide, low + (high - low) * labels.astype(float), rtol=1e-6, atol=1e-6 * (high - low))


def test_a_regressor_takes_no_recipe() -> None:
    model = for_task(model_from({"name": "decision-tree"}), "regression")
    assert isinstance(model, SklearnRegressor)
    with pytest.raises(LimbeckError, match="decision-tree is not trained in epochs and takes no recipe"):
        model.fit(X, Y, 1, 0, Recipe())
