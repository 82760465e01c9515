"""Forests that are grown tree by tree, against scikit-learn's own `fit` and `predict`, to the bit."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeRegressor

from limbeck.models import forests
from limbeck.models.forests import fit_estimator, mean_prediction, trees_of
from limbeck.protocol.rows import Array

SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_depth": 4, "criterion": "entropy"},
    {"min_samples_leaf": 0.02, "min_samples_split": 0.1, "max_features": 0.3},
    {"min_samples_leaf": 3, "min_samples_split": 2, "max_features": None, "min_impurity_decrease": 0.01},
    {"bootstrap": False, "max_features": "log2", "min_weight_fraction_leaf": 0.05},
    {"bootstrap": True, "max_samples": 0.5, "max_features": 3, "min_weight_fraction_leaf": 0.05},
    {"class_weight": "balanced"},
    {"class_weight": {0: 3.0}, "bootstrap": False},
]
FITTED_BY_ITSELF: list[dict[str, Any]] = [
    {"class_weight": "balanced_subsample"},
    {"max_leaf_nodes": 5},
    {"ccp_alpha": 0.01},
    {"bootstrap": True, "oob_score": True},
    {"monotonic_cst": [1, *[0] * 29]},
]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_classifiers_are_the_same_to_the_bit(kind: Any, settings: dict[str, Any], weighted: bool) -> None:
    x, y = load_digits(return_X_y=True)
    forest = kind(12, random_state=3, **settings)
    assert forests._can_grow(_sent(forest), x)
    _check_same(forest, x[:300].astype(np.float32), y[:300], weighted)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("settings", [{}, {"criterion": "friedman_mse", "max_depth": 3}, *SETTINGS[2:6]], ids=str)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_regressors_are_the_same_to_the_bit(kind: Any, settings: dict[str, Any], weighted: bool) -> None:
    x, y = load_diabetes(return_X_y=True)
    _check_same(kind(12, random_state=3, **settings), x.astype(np.float32), y / y.max(), weighted)


@pytest.mark.parametrize("settings", FITTED_BY_ITSELF, ids=str)
def test_forests_with_other_settings_fit_themselves(settings: dict[str, Any]) -> None:
    x, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0, **settings)
    assert not forests._can_grow(forest, x)
    _check_same(forest, x.astype(np.float32), y, weighted=False)


def test_forests_of_rows_with_missing_values_fit_themselves() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x[::5, 3] = np.nan
    forest = RandomForestClassifier(10, random_state=0)
    assert not forests._can_grow(forest, x)
    _check_same(forest, x.astype(np.float32), y, weighted=False)


def test_scikit_learn_still_checks_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="Unknown label type"):
        fit_estimator(RandomForestClassifier(random_state=0), x, y + 0.5)
    wrongs: list[dict[str, Any]] = [{"max_depth": -1}, {"n_estimators": 0}, {"n_estimators": "many"}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter"):
            fit_estimator(RandomForestClassifier(random_state=0).set_params(**wrong), x, y)
    assert forests._can_grow(RandomForestClassifier(random_state=0), x)
    monkeypatch.setattr("sklearn.__version__", "2.0.0")
    assert not forests._can_grow(RandomForestClassifier(random_state=0), x)


def test_rows_in_float64_are_rounded_as_scikit_learn_does() -> None:
    x, y = load_diabetes(return_X_y=True)
    _check_same(RandomForestRegressor(5, random_state=0), x, y, weighted=False)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeRegressor])
def test_single_trees_predict_the_same(kind: Any) -> None:
    x, y = load_digits(return_X_y=True)
    fitted = kind(random_state=0, max_depth=4).fit(x[:500], y[:500])
    assert np.array_equal(_own_prediction(fitted, x), mean_prediction(trees_of(fitted) or [], x))


def test_only_scikit_learns_own_trees() -> None:
    from factories import Deadly

    assert trees_of(Deadly()) is None
    assert trees_of(LogisticRegression()) is None


def _check_same(estimator: Any, x: Array, y: Array, weighted: bool) -> None:
    weights = {"sample_weight": np.random.default_rng(0).random(len(x)) + 0.1} if weighted else {}
    theirs, ours = clone(estimator).fit(x, y, **weights), fit_estimator(_sent(estimator), x, y, **weights)
    assert ours.get_params() == theirs.get_params()
    assert [tree.random_state for tree in ours.estimators_] == [tree.random_state for tree in theirs.estimators_]
    for one, other in zip(trees_of(ours) or [], trees_of(theirs) or [], strict=True):
        assert one.__getstate__()["nodes"].tobytes() == other.__getstate__()["nodes"].tobytes()
        assert np.array_equal(one.value, other.value)
    assert np.array_equal(_own_prediction(theirs, x), mean_prediction(trees_of(ours) or [], x))
    assert np.array_equal(ours.predict(x), theirs.predict(x))


def _sent(estimator: Any) -> Any:
    """An estimator as a process of the pool gets it: equal parameters are not the same objects."""
    return pickle.loads(pickle.dumps(estimator))  # noqa: S301


def _own_prediction(fitted: Any, x: Array) -> Array:
    return np.asarray(fitted.predict_proba(x) if hasattr(fitted, "predict_proba") else fitted.predict(x)[:, None])
