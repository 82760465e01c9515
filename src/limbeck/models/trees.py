"""Direct export of scikit-learn's trees and forests to ONNX, 20 times as fast as skl2onnx."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from onnx import helper
from sklearn.base import BaseEstimator
from sklearn.tree import _classes as tree_classes

from limbeck.models.onnx import number_outputs, packed
from limbeck.protocol.rows import Array

KINDS = ("Classifier", "Regressor")
TREES = frozenset(f"{name}{kind}" for name in ("DecisionTree", "ExtraTree") for kind in KINDS)
FORESTS = frozenset(f"{name}{kind}" for name in ("RandomForest", "ExtraTrees") for kind in KINDS)


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
    kind = type(estimator)
    if not kind.__module__.startswith("sklearn."):
        return None
    if kind.__name__ in TREES:
        return [estimator.tree_]
    return [member.tree_ for member in estimator.estimators_] if kind.__name__ in FORESTS else None


def is_forest(estimator: Any) -> bool:
    """Whether an estimator is a random forest or an extra-trees forest of scikit-learn."""
    return type(estimator).__module__.startswith("sklearn.") and type(estimator).__name__ in FORESTS


@contextmanager
def without_formalities() -> Iterator[None]:
    """Context in which a forest's trees skip checks that the forest has already done: half of a small tree's time.

    Each tree would look up the names of its parameters, determine the kind of its targets, and check its weights. The
    trees are the same to the bit.
    """
    with _growing.lock:
        _growing.forests += 1
        if _growing.forests == 1:
            _growing.before = _replaced(_QUICK)
    try:
        yield
    finally:
        with _growing.lock:
            _growing.forests -= 1
            if _growing.forests == 0:
                _replaced(_growing.before)


@dataclass(slots=True)
class _Growing:
    """How many forests are being fitted in all threads, and what the first of them replaced."""

    forests: int = 0
    before: list[tuple[Any, str, Any]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)


def _replaced(parts: Sequence[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """Replace attributes that exist; returns the earlier ones."""
    there = [(owner, name, part) for owner, name, part in parts if name in vars(owner)]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in there]
    for owner, name, part in there:
        setattr(owner, name, part)
    return before


_names: Any = cache(BaseEstimator._get_param_names.__func__)
_QUICK: tuple[tuple[Any, str, Any], ...] = (
    (BaseEstimator, "_get_param_names", classmethod(_names)),
    (tree_classes, "check_classification_targets", lambda y: None),
    (tree_classes, "_check_sample_weight", lambda weights, *_, **__: np.asarray(weights, np.float64)),
)
_growing = _Growing()


def pack_trees(trees: Sequence[Any], seen: Array | None, classes: int, features: int) -> bytes:
    """Pack trees as one model whose scores are their mean class shares, or for regression their mean number.

    Parameters
    ----------
    trees : sequence
        Fitted trees of scikit-learn (`tree_`).
    seen : array of int or None
        Class numbers that the trees' own 0, 1, ... stand for; None for regression.
    classes : int
        Number of all classes.
    features : int
        Number of values in a row.

    Returns
    -------
    bytes
        Packed model.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from limbeck.models.onnx import PackedModel
    >>> rows = np.array([[0.0], [1.0]], np.float32)
    >>> tree = DecisionTreeClassifier().fit(rows, [0, 1])
    >>> PackedModel(pack_trees([tree.tree_], np.array([2, 0]), classes=3, features=1)).vote(rows).tolist()
    [2, 0]
    """
    sizes = [tree.node_count for tree in trees]
    tree = np.repeat(np.arange(len(trees)), sizes)
    node = np.concatenate([np.arange(size) for size in sizes])
    left, right, feature, threshold = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "feature", "threshold")
    )
    leaf = left < 0
    value = np.concatenate([tree.value[:, 0, :] for tree in trees])
    share = value / (value.sum(axis=1, keepdims=True) if seen is not None else 1.0) / len(trees)
    at, column = np.nonzero(leaf[:, None] & (share > 0))
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["rows"],
        ["scores" if seen is not None else "numbers"],
        domain="ai.onnx.ml",
        n_targets=classes,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_featureids=np.where(leaf, 0, feature).tolist(),
        nodes_values=np.where(leaf, 0, _rounded_down(threshold)).tolist(),
        nodes_truenodeids=np.where(leaf, 0, left).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, right).tolist(),
        target_treeids=tree[at].tolist(),
        target_nodeids=node[at].tolist(),
        target_ids=(column if seen is None else seen[column]).tolist(),
        target_weights=share[at, column].astype(np.float32).tolist(),
    )
    if seen is None:
        outputs, constants = number_outputs("numbers", "regression")
        return packed([ensemble, *outputs], constants, [features], classes, probabilities=True, task="regression")
    vote = helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0)
    return packed([ensemble, vote], [], [features], classes, probabilities=True)


def _rounded_down(threshold: Array) -> Array:
    """Largest float32 that is not above each threshold, so that float32 rows fall on the same side."""
    nearest = threshold.astype(np.float32)
    return np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest)
