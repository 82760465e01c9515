"""Several packed models made into one: it asks them all and counts their votes."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import compose, helper, numpy_helper, version_converter

from limbeck.models.onnx import OPSETS, packed


def voting(models: Sequence[bytes]) -> bytes:
    """One model whose scores are the shares of votes; a tie goes to the lowest class number."""
    members = [_member(data, f"m{index}/") for index, data in enumerate(models)]
    classes = members[0].graph.output[1].type.tensor_type.shape.dim[1].dim_value
    row = [dim.dim_value for dim in members[0].graph.input[0].type.tensor_type.shape.dim][1:]
    weights = [numpy_helper.from_array(np.eye(classes, dtype=np.float32) / len(members), "vote")]
    nodes, opsets = [], dict(OPSETS)
    for index, member in enumerate(members):
        graph, prefix = member.graph, f"m{index}/"
        shape = [-1, *(dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim[1:])]
        weights += [numpy_helper.from_array(np.array(shape, np.int64), f"shape{index}"), *graph.initializer]
        nodes += [helper.make_node("Reshape", ["rows", f"shape{index}"], [f"{prefix}rows"]), *graph.node]
        nodes.append(helper.make_node("Gather", ["vote", f"{prefix}label"], [f"voted{index}"]))
        opsets |= {opset.domain: opset.version for opset in member.opset_import}
    nodes.append(helper.make_node("Sum", [f"voted{index}" for index in range(len(members))], ["scores"]))
    nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    return packed(nodes, weights, row, classes, probabilities=True, opsets=opsets)


def _member(data: bytes, prefix: str) -> onnx.ModelProto:
    """A packed model in the common version of ONNX, its names kept apart from other members'."""
    model = onnx.load_from_string(data)
    if any(opset.domain == "" and opset.version != OPSETS[""] for opset in model.opset_import):
        model = version_converter.convert_version(model, OPSETS[""])
    return compose.add_prefix(model, prefix)
