"""Forests of scikit-learn, grown and asked tree by tree: the same to the bit, in a half to a tenth of the time.

For each tree, a forest's `fit` clones an estimator, looks up its parameters, determines the classes again, and starts
two random generators. This takes ten times as long as it takes to grow a tree of a few dozen rows. Here, scikit-learn
fits a forest of one tree, which checks everything, and its tree builder then grows the others in the same way.
"""

import warnings
from collections.abc import Sequence
from copy import copy
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from limbeck.protocol.rows import Array

KINDS = ("Classifier", "Regressor")
TREES = frozenset(f"{name}{kind}" for name in ("DecisionTree", "ExtraTree") for kind in KINDS)
FORESTS = frozenset(f"{name}{kind}" for name in ("RandomForest", "ExtraTrees") for kind in KINDS)
VERSIONS = ("1.9.",)  # of scikit-learn, whose private parts are used here; with others a forest fits itself
PER_TREE = "balanced_subsample"  # class weights that each tree computes anew
PLAIN = {  # parameters that may differ from their defaults
    "bootstrap",
    "class_weight",
    "criterion",
    "max_depth",
    "max_features",
    "max_samples",
    "min_impurity_decrease",
    "min_samples_leaf",
    "min_samples_split",
    "min_weight_fraction_leaf",
    "n_estimators",
    "n_jobs",
    "random_state",
}


def trees_of(estimator: Any) -> list[Any] | None:
    """Fitted trees of a tree or forest of scikit-learn.

    Parameters
    ----------
    estimator : Any
        Fitted estimator.

    Returns
    -------
    list or None
        The trees; None for any other estimator.
    """
    if is_forest(estimator):
        return [member.tree_ for member in estimator.estimators_]
    return [estimator.tree_] if _is_one_of(TREES, estimator) else None


def is_forest(estimator: Any) -> bool:
    """Whether an estimator is a random forest or an extra-trees forest of scikit-learn."""
    return _is_one_of(FORESTS, estimator)


def _is_one_of(names: frozenset[str], estimator: Any) -> bool:
    return type(estimator).__module__.startswith("sklearn.") and type(estimator).__name__ in names


def fit_estimator(estimator: Any, rows: Array, targets: Array, **weights: Array) -> Any:
    """Fit an estimator; a forest is grown tree by tree if it can be.

    Parameters
    ----------
    estimator : Any
        Unfitted estimator, whose `random_state` is set.
    rows : array of shape (rows, features)
        Training rows.
    targets : array of shape (rows,)
        Class numbers 0, 1, ... that all occur; or numbers, for regression.
    **weights : array of shape (rows,)
        Sample weights, by the name that `fit` of the estimator gives them.

    Returns
    -------
    estimator
        Fitted estimator, equal to the bit to what its `fit` returns.
    """
    if not is_forest(estimator):
        with warnings.catch_warnings():  # which is not for threads, in which forests may be fitted
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "'n_jobs' has no effect", FutureWarning)
            return estimator.fit(rows, targets, **weights)
    if not _can_grow(estimator, rows):
        return estimator.fit(rows, targets, **weights)
    forest = clone(estimator).set_params(n_estimators=1).fit(rows, targets, **weights)
    rows = np.asarray(rows, np.float32)
    seeds = np.random.RandomState(estimator.random_state).randint(np.iinfo(np.int32).max, size=estimator.n_estimators)
    [first], forest.estimators_ = forest.estimators_, []
    for seed, tree in zip(seeds.tolist(), _grown(forest, first, rows, targets, seeds), strict=True):
        member = copy(first)
        member.random_state, member.tree_ = seed, tree
        forest.estimators_.append(member)
    return forest.set_params(n_estimators=estimator.n_estimators)


def mean_prediction(trees: Sequence[Any], rows: Array) -> Array:
    """Mean of what trees predict, as `predict_proba` (regression: `predict`) of their forest computes it.

    Parameters
    ----------
    trees : sequence
        Fitted trees of scikit-learn (`tree_`).
    rows : array of shape (rows, features)
        The rows.

    Returns
    -------
    array of shape (rows, classes)
        Shares of the classes; or one number, for regression.
    """
    rows = np.asarray(rows, np.float32)
    total = trees[0].predict(rows)
    for tree in trees[1:]:
        total += tree.predict(rows)
    return np.asarray(total / len(trees))


def _can_grow(estimator: Any, rows: Array) -> bool:
    """Whether a forest has nothing that only its own `fit` does."""
    if not sklearn.__version__.startswith(VERSIONS):
        return False
    given, default = estimator.get_params(), type(estimator)().get_params()
    is_plain = all(key in PLAIN or np.array_equal(value, default[key]) for key, value in given.items())
    known = isinstance(given["criterion"], str) and isinstance(given["random_state"], Integral)
    known = known and isinstance(given["n_estimators"], Integral) and int(given["n_estimators"]) > 0
    return is_plain and known and given.get("class_weight") != PER_TREE and not np.isnan(rows).any()


def _grown(forest: Any, first: Any, rows: Array, targets: Array, seeds: Array) -> list[Any]:
    """Trees of a forest, one from each seed; `first` is a tree that it has fitted itself."""
    from sklearn.tree._classes import DENSE_SPLITTERS  # private names, which other versions may not have
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    at_least = _number(forest.min_samples_leaf, len(rows))
    to_split = max(2, _number(forest.min_samples_split, len(rows)), 2 * at_least)
    depth = np.iinfo(np.int32).max if forest.max_depth is None else forest.max_depth
    classes = np.array([getattr(forest, "n_classes_", 1)], np.intp)
    target, generator = np.ascontiguousarray(targets[:, None], np.float64), np.random.RandomState()
    found = []
    for seed in seeds:
        weight = _weight(forest, generator, seed, len(rows))
        least = forest.min_weight_fraction_leaf * (len(rows) if weight is None else weight.sum())
        generator.seed(seed)
        split = DENSE_SPLITTERS[first.splitter]
        splitter = split(_criterion(forest, classes, len(rows)), first.max_features_, at_least, least, generator, None)
        builder = DepthFirstTreeBuilder(splitter, to_split, at_least, least, depth, forest.min_impurity_decrease)
        found.append(Tree(rows.shape[1], classes, 1))
        builder.build(found[-1], rows, target, weight, None)
    return found


def _criterion(forest: Any, classes: Array, rows: int) -> Any:
    from sklearn.tree._classes import CRITERIA_CLF, CRITERIA_REG

    if hasattr(forest, "classes_"):
        return CRITERIA_CLF[forest.criterion](1, classes)
    return CRITERIA_REG[forest.criterion](1, rows)


def _weight(forest: Any, generator: np.random.RandomState, seed: int, rows: int) -> Array | None:
    """Weights of rows for one tree: how often each is drawn, if the forest draws rows; else their own."""
    own, draws = forest._sample_weight, forest._n_samples_bootstrap
    if not forest.bootstrap:
        return None if own is None else np.asarray(own, np.float64)
    generator.seed(seed)
    drawn = generator.randint(0, rows, draws) if own is None else generator.choice(rows, draws, p=own / np.sum(own))
    return np.bincount(drawn, minlength=rows).astype(np.float64)


def _number(amount: float, rows: int) -> int:
    """A number of rows that is given as such, or as a share of the rows."""
    return int(amount) if isinstance(amount, Integral) else ceil(amount * rows)
