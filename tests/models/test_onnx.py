import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.onnx import PackedModel


@pytest.mark.parametrize("data", [b"", b"hello", bytes(100)])
def test_what_is_no_onnx_is_refused(data: bytes) -> None:
    with pytest.raises(LimbeckError, match="not a usable ONNX model"):
        PackedModel(data).vote(np.zeros((1, 2), np.float32))


def test_an_onnx_model_of_another_shape_is_refused() -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    with pytest.raises(LimbeckError, match="not a Limbeck model"):
        PackedModel(model.SerializeToString()).vote(np.zeros((1, 2), np.float32))


def test_rows_of_another_width_are_refused() -> None:
    model = PackedModel(Constant(0, 2, features=3).pack())
    with pytest.raises(LimbeckError, match="rows of 3 values, not 4"):
        model.vote(np.zeros((1, 4), np.float32))
