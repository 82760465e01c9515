"""Exact sums of feature vectors over rows, and linear classifiers on features."""

from dataclasses import dataclass, replace

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from limbeck.features.graph import UNIT
from limbeck.features.map import CONSTANT, STEPS, FeatureMap, unpack
from limbeck.knowledge.targets import NUMBER_STEPS, columns_of, target_vectors
from limbeck.models.onnx import number_outputs, packed
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Kind

BLOCK = 2**14  # rows that are mapped at once; sums of 2^14 products on the grids are exact in float64
MIN_SCORE = 1e-4  # of a class


def sums_of(features: FeatureMap, rows: Rows, classes: int, task: Kind = "multiclass") -> Array:
    """Sum w phi(x) t(y)^T over rows, where t(y) is the target vector of a label, and w the sample weight (1 without).

    Parameters
    ----------
    features : FeatureMap
        The map phi.
    rows : Rows
        Labelled rows.
    classes : int
        Number of classes.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    array of shape (1 + width, columns)
        The sum in float64. It is a sum of whole steps of the grid, so that the order of the rows changes no bit of it.

    Notes
    -----
    Weights are steps of 1 / `NUMBER_STEPS`, rounded down. If a weight is above 1, which only happens without noise, all
    are steps of 2^k / `NUMBER_STEPS`, where 2^k is the smallest power of two that no weight exceeds.
    """
    return _totals(features, rows, classes, False, task)[0]


def gram_of(features: FeatureMap, x: Array) -> Array:
    """Sum phi(x) phi(x)^T over rows.

    Parameters
    ----------
    features : FeatureMap
        The map phi.
    x : array of shape (rows, ...)
        Rows.

    Returns
    -------
    array of shape (1 + width, 1 + width)
        The sum in float64. No rounding depends on the order of the rows while the sum is below 2^21.
    """
    return _totals(features, Rows(x, np.zeros(len(x), np.int64)), 1, True)[1]


def _totals(
    features: FeatureMap, rows: Rows, classes: int, with_gram: bool, task: Kind = "multiclass"
) -> tuple[Array, Array]:
    """Sum by target and Gram matrix, or an empty one; every row is mapped once."""
    if rows.weight is not None:
        return _weighted_totals(features, rows, rows.weight, classes, with_gram, task)
    width = 1 + features.width
    sums, gram = (
        np.zeros((width, columns_of(task, classes)), np.int64),
        np.zeros((width, width) if with_gram else (0, 0), np.int64),
    )
    for start in range(0, len(rows), BLOCK):
        steps = features.steps(rows.x[start : start + BLOCK]).astype(np.float64)
        sums += (steps.T @ target_vectors(rows.y[start : start + BLOCK], task, classes)).astype(np.int64)
        if with_gram:
            gram += (steps.T @ steps).astype(np.int64)
    return np.asarray(sums / (STEPS * NUMBER_STEPS)), np.asarray(gram / STEPS**2)


def _weighted_totals(
    features: FeatureMap, rows: Rows, weight: Array, classes: int, with_gram: bool, task: Kind
) -> tuple[Array, Array]:
    """Weighted sums. The Gram matrix, which never gets noise, is rounded as floating-point sums are."""
    width, unit = 1 + features.width, 2.0 ** np.ceil(np.log2(max(1.0, float(weight.max(initial=0.0)))))
    sums, gram = (
        np.zeros((width, columns_of(task, classes)), np.int64),
        np.zeros((width, width) if with_gram else (0, 0)),
    )
    for start in range(0, len(rows), BLOCK):
        steps = features.steps(rows.x[start : start + BLOCK]).astype(np.float64)
        shares = weight[start : start + BLOCK] / unit
        targets = target_vectors(rows.y[start : start + BLOCK], task, classes, shares)
        sums += (steps.T @ targets).astype(np.int64)
        if with_gram:
            gram += steps.T @ (steps * (np.floor(shares * NUMBER_STEPS) / NUMBER_STEPS)[:, None])
    return np.asarray(sums * (unit / (STEPS * NUMBER_STEPS))), np.asarray(gram * (unit / STEPS**2))


@dataclass(frozen=True, slots=True)
class SumFeatures:
    """Job that sums the features of rows.

    Parameters
    ----------
    kind : str
        Kind of the map.
    features : bytes
        The packed map, which `unpack` accepted before.
    rows : Rows
        Labelled rows.
    with_gram : bool
        Whether the Gram matrix is computed.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    """

    kind: str
    features: bytes
    rows: Rows
    with_gram: bool = False
    task: Kind = "multiclass"

    def __str__(self) -> str:
        return f"a sum of {len(self.rows)} rows"

    def run(self, classes: int, seed: int) -> tuple[Array, Array]:
        """Return the sum and the Gram matrix, which is empty where it is not used."""
        features = unpack(self.kind, self.features, self.rows.x.shape[1:], tried=True)
        return _totals(features, self.rows, classes, self.with_gram, self.task)

    def substitute(self, classes: int, seed: int, number: int) -> tuple[Array, Array]:
        """Return sums over no rows."""
        return replace(self, rows=self.rows[np.arange(0)]).run(classes, seed)


def pack_linear(features: FeatureMap, weights: Array, task: Kind = "multiclass") -> bytes:
    """Pack a linear model together with its features as an ONNX model of raw rows.

    Parameters
    ----------
    features : FeatureMap
        The map phi.
    weights : array of shape (1 + width, classes)
        Weights of phi(x).
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    bytes
        A packed model. With one class a row, its label is the class with the largest phi(x) weights; its scores are
        these numbers, limited to at least `MIN_SCORE` and scaled to sum 1. With several labels a row, a class is
        positive where phi(x) weights is above 0, and its score is the logistic function of twice this number. For
        regression it is the number itself.
    """
    slope = (np.sqrt(1 - CONSTANT**2) * weights[1:]).astype(np.float64)
    constants = [
        numpy_helper.from_array(slope, "linear.slope"),
        numpy_helper.from_array((CONSTANT * weights[0]).astype(np.float64), "linear.constant"),
    ]
    nodes = [
        helper.make_node("MatMul", [UNIT, "linear.slope"], ["linear.product"]),
        helper.make_node("Add", ["linear.product", "linear.constant"], ["linear.values"]),
    ]
    ends, added = _classes_of("linear.values") if task == "multiclass" else _numbers_of("linear.values", task)
    graph = features.model.graph
    every, initial = [*graph.node, *nodes, *ends], [*graph.initializer, *constants, *added]
    opsets = {"": features.opset}
    return packed(every, initial, features.row, weights.shape[1], probabilities=True, opsets=opsets, task=task)


def _numbers_of(values: str, task: Kind) -> tuple[list[NodeProto], list[TensorProto]]:
    """Outputs for several labels a row, or a number."""
    nodes, constants, last = list[NodeProto](), list[TensorProto](), values
    if task == "multilabel":
        constants.append(numpy_helper.from_array(np.array(2.0), "linear.two"))
        nodes.append(helper.make_node("Mul", [values, "linear.two"], ["linear.twice"]))
        nodes.append(helper.make_node("Sigmoid", ["linear.twice"], ["linear.share"]))
        last = "linear.share"
    nodes.append(helper.make_node("Cast", [last], ["linear.numbers"], to=TensorProto.FLOAT))
    outputs, limits = number_outputs("linear.numbers", task)
    return [*nodes, *outputs], [*constants, *limits]


def _classes_of(values: str) -> tuple[list[NodeProto], list[TensorProto]]:
    """Outputs for one class a row."""
    constants = [
        numpy_helper.from_array(np.array(MIN_SCORE), "linear.least"),
        numpy_helper.from_array(np.array([1]), "linear.axis"),
    ]
    nodes = [
        helper.make_node("ArgMax", [values], ["label"], axis=1, keepdims=0),
        helper.make_node("Max", [values, "linear.least"], ["linear.positive"]),
        helper.make_node("ReduceSum", ["linear.positive", "linear.axis"], ["linear.sum"], keepdims=1),
        helper.make_node("Div", ["linear.positive", "linear.sum"], ["linear.shares"]),
        helper.make_node("Cast", ["linear.shares"], ["scores"], to=TensorProto.FLOAT),
    ]
    return nodes, constants
