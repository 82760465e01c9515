"""Small ONNX networks, honest and hostile, for features of the kind `encoder`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from limbeck.protocol.rows import Array

Node = tuple[Any, ...]


def network(
    nodes: Sequence[NodeProto],
    weights: Mapping[str, Array] | None = None,
    row: Sequence[int | None] = (5,),
    rank: int = 2,
    opset: int = 21,
    batch: int | None = None,
    kind: int = TensorProto.FLOAT,
    domain: str = "",
) -> bytes:
    """ONNX model from `in` to `out`."""
    entry = helper.make_tensor_value_info("in", kind, [batch, *row])
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, [None] * rank)
    constants = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "network", [entry], [output], constants)
    sets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString())


def node(operator: str, inputs: str, output: str = "out", **attributes: Any) -> NodeProto:
    """Node with inputs that are separated by spaces."""
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def normal(*shape: int) -> Array:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def convolution(side: int, opset: int = 21) -> bytes:
    """Conv, Relu, Gemm of images of one colour that are stored without a channel."""
    size = (side - 2) ** 2 * 4
    nodes = [
        node("Reshape", "in image", "image4"),
        node("Conv", "image4 kernels", "filtered", kernel_shape=[3, 3]),
        node("Relu", "filtered", "active"),
        node("Flatten", "active", "flat"),
        node("Gemm", "flat weights bias"),
    ]
    weights = {"image": np.array([-1, 1, side, side]), "kernels": normal(4, 1, 3, 3)}
    return network(nodes, {**weights, "weights": normal(size, 99) / side, "bias": normal(99)}, (side, side), 2, opset)


DENSE = network([node("Gemm", "in w", "h"), node("Relu", "h")], {"w": normal(5, 30)})
