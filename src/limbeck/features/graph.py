"""Graphs of exact arithmetic: ONNX nodes whose results do not depend on the other rows of a batch, nor on the machine.

Sums of floating-point numbers depend on the order of the terms, and this order depends on the size of the batch. Here,
every number that is summed is a whole number, and no sum exceeds what its type holds exactly (2^24 in float32, 2^53 in
float64). All other operations work on single numbers and are rounded correctly by IEEE 754.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from limbeck.protocol.rows import Array

OPSET = 17  # the nodes mean the same from operator set 13 to 21
IR_VERSION = 10
ROWS, UNIT = "rows", "features.unit"
COLUMN_STEPS = 2**10  # grid of standardized columns
WEIGHT_STEPS = 2**20  # grid of projections
CLIP = 8.0  # standard deviations; what is farther counts as that far
MAX_INPUT = 1e18  # larger numbers count as this one, so that no product overflows
MAX_SCALE = 1e12  # of a column
MAX_EXACT = 2.0**53  # whole numbers up to this are exact in float64
MAX_WIDTH = 2**11  # features: a sum of so many squares up to MAX_UNIT^2 is exact
MAX_WEIGHT = 1.0  # of a projection, so that its sums are exact
UNIT_STEPS, MAX_UNIT = 2**20, 2**21  # grid of features before they get length 1; the public rows' largest is one step


class Graph:
    """ONNX graph that is built node by node.

    Examples
    --------
    >>> graph = Graph((2,))
    >>> graph.add("Identity", graph.add("Mul", ROWS, np.float32(2)), output="doubled")
    'doubled'
    >>> [node.op_type for node in graph.nodes]
    ['Mul', 'Identity']
    """

    def __init__(self, row: Sequence[int]) -> None:
        self.row = tuple(row)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str | Array | np.generic, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output.

        Parameters
        ----------
        operator : str
            ONNX operator.
        *inputs : str or array
            Names of other nodes' outputs, or constants.
        output : str
            Name of the output; by default a number.
        **attributes : Any
            Attributes of the operator.
        """
        names = [each if isinstance(each, str) else self._constant(np.asarray(each)) for each in inputs]
        output = output or f"features.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def _constant(self, value: Array) -> str:
        name = f"features.c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def model(self) -> onnx.ModelProto:
        """Return the model that maps `rows` (float32) to `features.unit` (float64)."""
        rows = helper.make_tensor_value_info(ROWS, TensorProto.FLOAT, [None, *self.row])
        unit = helper.make_tensor_value_info(UNIT, TensorProto.DOUBLE, [None, None])
        graph = helper.make_graph(self.nodes, "features", [rows], [unit], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def standardized(graph: Graph, columns: str, mean: Array, scale: Array) -> str:
    """Add the standardization of columns, on a grid: whole numbers of `COLUMN_STEPS` per standard deviation (float64).

    Parameters
    ----------
    graph : Graph
        The graph.
    columns : str
        Values of shape (rows, columns), float32.
    mean, scale : array of shape (columns,)
        What is subtracted, and what the difference is multiplied with.

    Returns
    -------
    str
        Name of the result.
    """
    limit = np.float32(MAX_INPUT)
    clipped = graph.add("Clip", columns, -limit, limit)
    centred = graph.add("Sub", clipped, np.clip(mean, -limit, limit).astype(np.float32))
    scaled = graph.add("Mul", centred, np.clip(scale, 0, MAX_SCALE).astype(np.float32))
    near = graph.add("Clip", scaled, np.float32(-CLIP), np.float32(CLIP))
    steps = graph.add("Round", graph.add("Mul", near, np.float32(COLUMN_STEPS)))
    return graph.add("Cast", steps, to=TensorProto.DOUBLE)


def projected(graph: Graph, whole: str, matrix: Array, largest: float = CLIP * COLUMN_STEPS) -> tuple[str, float]:
    """Add a matrix product of whole numbers: (rows, n) times (n, m), in steps of `WEIGHT_STEPS`.

    Parameters
    ----------
    graph : Graph
        The graph.
    whole : str
        Whole numbers of shape (rows, n), float64.
    matrix : array of shape (n, m)
        Weights. They are rounded to the grid.
    largest : float
        Largest absolute value of `whole`.

    Returns
    -------
    tuple of str and float
        Name of the result, float64, and the largest absolute value that it can have.

    Raises
    ------
    ValueError
        If float64 does not hold every sum exactly. No map that was fitted on rows has such weights.
    """
    steps = np.rint(np.clip(matrix, -MAX_WEIGHT, MAX_WEIGHT) * WEIGHT_STEPS)
    bound = largest * float(np.abs(steps).sum(axis=0).max(initial=0.0))
    if bound > MAX_EXACT:
        raise ValueError("sums of the map are too large to be exact")
    return graph.add("MatMul", whole, steps.astype(np.float64)), bound


def of_length_one(graph: Graph, values: str, scale: float, width: int) -> None:
    """Add the last nodes: values on a grid, then scaled to length 1; rows of zeros stay zero.

    Parameters
    ----------
    graph : Graph
        The graph.
    values : str
        Values of shape (rows, features), float64, each of which depends on its row alone.
    scale : float
        Largest absolute value among the public rows. What is more than twice as large is clipped.
    width : int
        Number of features.

    Raises
    ------
    ValueError
        If there are more than `MAX_WIDTH` features.
    """
    if width > MAX_WIDTH:
        raise ValueError(f"{width} features; at most {MAX_WIDTH} are allowed")
    step = np.float64(UNIT_STEPS / max(scale, 1.0))
    rounded = graph.add("Round", graph.add("Mul", values, step))
    whole = graph.add("Clip", rounded, np.float64(-MAX_UNIT), np.float64(MAX_UNIT))
    squares = graph.add("ReduceSum", graph.add("Mul", whole, whole), np.array([1]), keepdims=1)
    length = graph.add("Max", graph.add("Sqrt", squares), np.float64(1))
    graph.add("Div", whole, length, output=UNIT)
