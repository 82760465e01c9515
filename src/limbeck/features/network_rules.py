"""Rules for the network of an encoder, beside those for every model: what a row costs does not depend on its values.

The server sends the network, and parties run it on private rows. If the size of an array depended on the values of a
row, or if a value could crash the process, then a party's silence would reveal something about a row.
"""

from collections.abc import Iterator

import onnx
from onnx import ModelProto, NodeProto, TensorProto, shape_inference

from limbeck.errors import LimbeckError

SIZES = {  # inputs that decide the shape of the result
    **dict.fromkeys(("Expand", "Reshape", "Split", "Squeeze", "Unsqueeze"), (1,)),
    "Pad": (1, 3),
    **dict.fromkeys(("ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"), (1,)),
    "Slice": (1, 2, 3, 4),
}
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def check_network(model: ModelProto, row: tuple[int, ...]) -> None:
    """Raise LimbeckError unless a model can be the network of an encoder.

    Parameters
    ----------
    model : ModelProto
        The model, whose operators are allowed.
    row : tuple of int
        Shape of a row.

    Raises
    ------
    LimbeckError
        The message says what is wrong.
    """
    _check_input(model, row)
    for node in model.graph.node:
        if node.domain:
            raise LimbeckError(f"the operator {node.domain}.{node.op_type} is not allowed; use operators of ai.onnx")
        if node.op_type == "TopK":  # its sorting may fail on NaN
            raise LimbeckError("the operator TopK is not allowed in an encoder")
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                raise LimbeckError(f"{node.op_type} with a graph of its own is not allowed in an encoder")
            if node.op_type == "BatchNormalization" and attribute.name == "training_mode" and attribute.i:
                raise LimbeckError(
                    "BatchNormalization is in training mode, so that rows depend on each other: call eval() on the "
                    "network before it is exported"
                )
    types = _types(model)
    for node, inputs in _from_rows(model):
        if any(index in inputs for index in SIZES.get(node.op_type, ())):
            raise LimbeckError(f"the shape of the result of {node.op_type} must not depend on the values of a row")
        if node.op_type == "Div" and inputs and types.get(node.output[0]) not in FLOATS:
            raise LimbeckError("a division of whole numbers that depend on the values of a row is not allowed")


def input_of(model: ModelProto) -> onnx.ValueInfoProto:
    """Return the only input of a network; constants that are listed as inputs do not count."""
    constants = {weight.name for weight in model.graph.initializer}
    inputs: list[onnx.ValueInfoProto] = [each for each in model.graph.input if each.name not in constants]
    if len(inputs) != 1 or not model.graph.output:
        raise LimbeckError(f"it has {len(inputs)} inputs and {len(model.graph.output)} outputs; it must have one input")
    return inputs[0]


def _check_input(model: ModelProto, row: tuple[int, ...]) -> None:
    entry = input_of(model).type.tensor_type
    if entry.elem_type != TensorProto.FLOAT:
        raise LimbeckError(f"its input has the type {TensorProto.DataType.Name(entry.elem_type)}; it must be FLOAT")
    shape = [each.dim_value if each.HasField("dim_value") else None for each in entry.shape.dim]
    wrong = len(shape) != len(row) + 1 or any(a not in (None, b) for a, b in zip(shape[1:], row, strict=False))
    if wrong:
        text = ", ".join("?" if each is None else str(each) for each in shape)
        right = ", ".join(["rows", *map(str, row)])
        raise LimbeckError(f"its input has the shape ({text}); for this data it must have the shape ({right})")


def _types(model: ModelProto) -> dict[str, int]:
    """Type of each value, as far as it can be inferred."""
    try:
        graph = shape_inference.infer_shapes(model).graph
    except Exception as error:  # onnx raises several unrelated types
        raise LimbeckError(f"not a valid ONNX model: {' '.join(str(error).split())[:120]}") from error
    return {each.name: each.type.tensor_type.elem_type for each in (*graph.value_info, *graph.output)}


def _from_rows(model: ModelProto) -> Iterator[tuple[NodeProto, set[int]]]:
    """Each node, with the numbers of those inputs that depend on the values of the rows. A shape does not."""
    depends = {input_of(model).name}
    for node in model.graph.node:
        inputs = {number for number, name in enumerate(node.input) if name in depends}
        if inputs and node.op_type != "Shape":
            depends.update(filter(None, node.output))
        yield node, inputs
