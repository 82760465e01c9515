"""Models of feature vectors, packed together with the map as models of raw rows."""

import onnx
from onnx import helper, version_converter

from limbeck.features.map import FeatureMap
from limbeck.models.onnx import IR_VERSION

VECTORS = "features.vectors"


def packed_behind(features: FeatureMap, data: bytes) -> bytes:
    """Pack a model of feature vectors together with the map, as a model of raw rows.

    Parameters
    ----------
    features : FeatureMap
        The map.
    data : bytes
        Packed model of the vectors that `FeatureMap.vectors` returns.

    Returns
    -------
    bytes
        Packed model of raw rows, with the metadata of the model.
    """
    model = _at_least(onnx.load_from_string(data), features.opset)
    first, constants = features.nodes(VECTORS)
    for node in model.graph.node:
        node.input[:] = [VECTORS if name == "rows" else name for name in node.input]
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, [None, *features.row])
    graph = helper.make_graph(
        [*first, *model.graph.node], "limbeck", [rows], model.graph.output, [*constants, *model.graph.initializer]
    )
    whole = helper.make_model(graph, opset_imports=model.opset_import, ir_version=IR_VERSION, producer_name="limbeck")
    helper.set_model_props(whole, {entry.key: entry.value for entry in model.metadata_props})
    return bytes(whole.SerializeToString(deterministic=True))


def _at_least(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Convert a model to an operator set, unless it has this one or a later one."""
    version = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    return model if version >= opset else version_converter.convert_version(model, opset)
