"""Direct export of scikit-learn's trees and forests to ONNX, 20 times as fast as skl2onnx."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from limbeck.models.onnx import number_outputs, packed
from limbeck.protocol.rows import Array


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
