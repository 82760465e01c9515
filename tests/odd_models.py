"""Packed models of rows with two values and three classes, as a server could send them."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from limbeck.models.onnx import packed


def constant(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value), name)


def node(kind: str, ins: str, out: str, **more: Any) -> Any:
    return helper.make_node(kind, ins.split(), [out], **more)


def linear() -> bytes:
    """Probabilities; they are no numbers for rows with NaN or large values."""
    nodes = [
        node("MatMul", "rows slope", "values"),
        node("Softmax", "values", "scores"),
        node("ArgMax", "scores", "label", axis=1, keepdims=0),
    ]
    slope = np.array([[-2, 0, 2], [0, 0.5, 0]], np.float32)
    return packed(nodes, [constant("slope", slope)], (2,), 3, probabilities=True)


def of_all_rows() -> bytes:
    """Scores that depend on the largest value of a batch: a row above it changes those of all others."""
    nodes = [
        node("MatMul", "rows slope", "values"),
        node("ReduceMax", "values all", "most", keepdims=1),
        node("Div", "values most", "scores"),
        node("ArgMax", "scores", "label", axis=1, keepdims=0),
    ]
    weights = [constant("slope", np.eye(2, 3, dtype=np.float32)), constant("all", np.array([0, 1]))]
    return packed(nodes, weights, (2,), 3, probabilities=True)


def of_expensive_rows() -> bytes:
    """Multiply a square matrix by itself whose size is the first value of the row."""
    nodes = [
        node("Slice", "rows zero one axis", "first"),
        node("Cast", "first", "whole", to=TensorProto.INT64),
        node("Max", "whole least", "size"),
        node("Reshape", "size flat", "side"),
        node("Concat", "side side", "shape", axis=0),
        node("Expand", "small shape", "matrix"),
        node("MatMul", "matrix matrix", "product"),
        node("ReduceMax", "product", "number", keepdims=0),
        node("Mul", "number nothing", "zeros"),
        node("Add", "zeros third", "scores"),
        node("ArgMax", "scores", "label", axis=1, keepdims=0),
    ]
    values = {"zero": [0], "one": [1], "axis": [1], "least": [[1]], "flat": [1]}
    weights = [constant(name, np.array(value, np.int64)) for name, value in values.items()]
    weights += [constant("small", np.float32(1)), constant("nothing", np.float32(0))]
    weights.append(constant("third", np.array([[0.2, 0.5, 0.3]], np.float32)))
    return packed(nodes, weights, (2,), 3, probabilities=True)
