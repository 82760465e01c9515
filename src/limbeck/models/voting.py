"""Several packed models combined into one model that counts their votes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import compose, helper, numpy_helper, version_converter

from limbeck.models.onnx import OPSETS, packed


def voting(models: Sequence[bytes]) -> bytes:
    """Combine packed models into one model whose scores are the shares of their votes.

    Parameters
    ----------
    models : sequence of bytes
        Packed models with the same classes and the same number of values in a row.

    Returns
    -------
    bytes
        The packed model. A tie goes to the lowest class number.

    Examples
    --------
    >>> from limbeck.models.constant import Constant
    >>> from limbeck.models.onnx import PackedModel
    >>> members = [Constant(label, classes=3, features=2).pack() for label in (2, 1, 2, 0)]
    >>> PackedModel(voting(members)).scores(np.zeros((1, 2)))
    array([[0.25, 0.25, 0.5 ]], dtype=float32)
    """
    members = merged(models)
    count, classes = len(models), members.classes
    weights = [numpy_helper.from_array(np.eye(classes, dtype=np.float32) / count, "vote"), *members.weights]
    nodes = list[onnx.NodeProto]()
    for index, own in enumerate(members.nodes):
        nodes += [*own, helper.make_node("Gather", ["vote", f"m{index}/label"], [f"voted{index}"])]
    nodes.append(helper.make_node("Sum", [f"voted{index}" for index in range(count)], ["scores"]))
    nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    return packed(nodes, weights, members.row, classes, probabilities=True, opsets=members.opsets)


@dataclass(frozen=True, slots=True)
class MergedModels:
    """Several packed models in one graph; the outputs of model i are `m<i>/label` and `m<i>/scores`.

    Parameters
    ----------
    nodes : list of list of NodeProto
        Nodes of each model.
    weights : list of TensorProto
        Constants of all models.
    row : list of int
        Shape of a row.
    classes : int
        Number of classes of the first model.
    opsets : dict
        Version of each ONNX operator set.
    """

    nodes: list[list[onnx.NodeProto]]
    weights: list[onnx.TensorProto]
    row: list[int]
    classes: int
    opsets: dict[str, int]


def merged(models: Sequence[bytes]) -> MergedModels:
    """Put packed models into one graph.

    Parameters
    ----------
    models : sequence of bytes
        Packed models with the same number of values in a row.

    Returns
    -------
    MergedModels
        The nodes and constants of the graph.
    """
    members = [_member(data, f"m{index}/") for index, data in enumerate(models)]
    classes = members[0].graph.output[1].type.tensor_type.shape.dim[1].dim_value
    row = [dim.dim_value for dim in members[0].graph.input[0].type.tensor_type.shape.dim][1:]
    nodes, weights, opsets = list[list[onnx.NodeProto]](), list[onnx.TensorProto](), dict(OPSETS)
    for index, member in enumerate(members):
        graph, prefix = member.graph, f"m{index}/"
        shape = [-1, *(dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim[1:])]
        weights += [numpy_helper.from_array(np.array(shape, np.int64), f"shape{index}"), *graph.initializer]
        nodes.append([helper.make_node("Reshape", ["rows", f"shape{index}"], [f"{prefix}rows"]), *graph.node])
        opsets |= {opset.domain: opset.version for opset in member.opset_import}
    return MergedModels(nodes, weights, row, classes, opsets)


def _member(data: bytes, prefix: str) -> onnx.ModelProto:
    """A packed model in the common ONNX version, with a prefix to all its names."""
    model = onnx.load_from_string(data)
    if any(opset.domain == "" and opset.version != OPSETS[""] for opset in model.opset_import):
        model = version_converter.convert_version(model, OPSETS[""])
    return compose.add_prefix(model, prefix)
