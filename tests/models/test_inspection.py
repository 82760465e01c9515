"""Models from strangers: bombs, files elsewhere, operators of their own; none is run by the server."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from limbeck.errors import LimbeckError
from limbeck.models import inspection
from limbeck.models.inspection import Limits, inspect, try_out
from limbeck.models.named import CLASSIFIERS, model_from
from limbeck.models.onnx import packed
from limbeck.protocol.rows import Array

ROWS = np.random.default_rng(0).random((40, 4), np.float32)
LABELS = np.arange(40) % 3
QUICK = Limits(memory=2**30, seconds=10.0)


def honest(name: str = "decision-tree") -> bytes:
    return model_from({"name": name}).fit(ROWS, LABELS, 3, 0).pack()


def changed(change: Callable[[onnx.ModelProto], object]) -> bytes:
    model = onnx.load_from_string(honest())
    change(model)
    return bytes(model.SerializeToString())


def graph(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto] | None = None) -> bytes:
    return packed(nodes, weights or [], [4], 3, True)


@pytest.mark.parametrize("name", [n for n in CLASSIFIERS if n not in ("xgboost", "lightgbm")])
def test_what_our_own_parties_send_passes(name: str) -> None:
    inspect(honest(name))


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_so_do_boosters(name: str) -> None:
    pytest.importorskip(name)
    inspect(honest(name))


def test_so_do_networks() -> None:
    pytest.importorskip("torch")
    for spec in ({"name": "torch-mlp", "hidden": [4]}, {"name": "conv-net", "filters": [4, 4]}):
        rows = np.random.default_rng(0).random((12, 12, 12), np.float32)
        inspect(model_from({**spec, "recipe": {"epochs": 1}}).fit(rows, np.arange(12) % 3, 3, 0).pack())


def test_an_honest_model_is_tried_out_in_a_process_of_its_own() -> None:
    try_out([honest(), honest("svm")], ROWS, 3, QUICK)


def external(model: onnx.ModelProto) -> None:
    tensor = TensorProto(name="far", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    model.graph.initializer.append(tensor)


def external_in_a_constant(model: onnx.ModelProto) -> None:
    tensor = TensorProto(name="far", data_type=TensorProto.FLOAT, dims=[4])
    tensor.external_data.add(key="location", value="../../secret")
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))


def nested(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([helper.make_node("RandomNormal", [], ["r"], shape=[1])], "inner", [], [])
    model.graph.node.append(helper.make_node("Scan", [], ["s"], body=inner, num_scan_inputs=0))


def deep(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "core", [], [])
    for level in range(6):
        body = helper.make_graph(
            [helper.make_node("Scan", [], ["s"], body=body, num_scan_inputs=0)], str(level), [], []
        )
    model.graph.node.append(helper.make_node("Scan", [], ["s"], body=body, num_scan_inputs=0))


def own_function(model: onnx.ModelProto) -> None:
    function = helper.make_function(
        "mine", "Mine", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)]
    )
    model.functions.append(function)


FORBIDDEN = [
    *(
        "Dropout",
        "Loop",
        "If",
        "RandomNormal",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "ConstantOfShape",
        "Tile",
    ),
    *("Range", "EyeLike", "NonZero", "Unique", "StringNormalizer", "TfIdfVectorizer", "SequenceConstruct", "Optional"),
    *("GridSample", "STFT", "ImageDecoder", "RegexFullMatch", "Invented"),
]
TAMPERED: dict[str, Callable[[onnx.ModelProto], object]] = {
    "weights in another file": external,
    "a constant in another file": external_in_a_constant,
    "chance within a loop": nested,
    "loops within loops": deep,
    "a function of its own": own_function,
    "another domain": lambda m: m.opset_import.append(helper.make_opsetid("com.microsoft", 1)),
    "a domain of its own": lambda m: m.opset_import.append(helper.make_opsetid("evil", 1)),
    "an opset to come": lambda m: m.opset_import.append(helper.make_opsetid("", 99)),
    "an old opset": lambda m: m.opset_import.append(helper.make_opsetid("", 5)),
    "an operator of another domain": lambda m: m.graph.node.append(
        helper.make_node("Relu", ["rows"], ["z"], domain="com.microsoft")
    ),
    "a format to come": lambda m: setattr(m, "ir_version", 99),
    "no format": lambda m: setattr(m, "ir_version", 0),
    "no graph": lambda m: m.ClearField("graph"),
    "a cycle": lambda m: m.graph.node.append(helper.make_node("Relu", ["loop"], ["loop"])),
    "training": lambda m: m.training_info.add(),
    "sparse weights": lambda m: m.graph.sparse_initializer.add(),
    "weights that are not there": lambda m: m.graph.node.append(helper.make_node("Relu", ["nothing"], ["z"])),
}


@pytest.mark.parametrize("operator", FORBIDDEN)
def test_a_model_with_an_operator_that_is_not_on_the_list_is_refused_unrun(operator: str) -> None:
    with pytest.raises(LimbeckError, match=f"the operator ai.onnx.{operator}"):
        inspect(changed(lambda m: m.graph.node.append(helper.make_node(operator, ["rows"], ["z"]))))


@pytest.mark.parametrize("what", TAMPERED)
def test_a_model_with_what_no_model_needs_is_refused_unrun(what: str) -> None:
    with pytest.raises(LimbeckError):
        inspect(changed(TAMPERED[what]))


@pytest.mark.parametrize("data", [b"", b"\x80\x04}.", b"PK\x03\x04", b"\x08" * 100, b"\xff" * 1000, b"<html>"])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(LimbeckError):
        inspect(data)


def test_a_model_that_weighs_too_much_is_refused() -> None:
    with pytest.raises(LimbeckError, match="at most 100 are allowed"):
        inspect(honest(), Limits(bytes=100))


def test_a_model_is_read_in_the_other_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may unpack to gigabytes: not here."""
    monkeypatch.setattr(onnx.ModelProto, "FromString", None)
    try_out([honest()], ROWS, 3)


@pytest.mark.parametrize("field", [b"\x0a\x00", b"\x2a\x00", b"\x6a\x00"])
def test_a_model_of_countless_empty_parts_is_refused(field: bytes) -> None:
    """Nodes, weights, descriptions of values: each of two bytes."""
    graph = field * 100_000
    length = bytes([len(graph) & 127 | 128, len(graph) >> 7 & 127 | 128, len(graph) >> 14])
    with pytest.raises(LimbeckError, match="too many parts"):
        try_out([b"\x08\x0a\x42\x02\x10\x15\x3a" + length + graph], ROWS, 3)


def test_every_cut_of_a_model_is_refused() -> None:
    data = honest()
    for cut in np.linspace(0, len(data) - 1, 40).astype(int):
        with pytest.raises(LimbeckError):
            inspect(data[:cut])


def _expanding(values: int) -> bytes:
    """A few bytes that make an array of so many values."""
    nodes = [
        helper.make_node("Expand", ["one", "shape"], ["huge"]),
        helper.make_node("ReduceSum", ["huge"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["rows", "weights"], ["plain"]),
        helper.make_node("Add", ["plain", "sum"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    weights: dict[str, Array] = {
        "one": np.ones(1, np.float32),
        "shape": np.array([values], np.int64),
        "weights": np.ones((4, 3), np.float32),
    }
    return graph(nodes, [numpy_helper.from_array(value, name) for name, value in weights.items()])


def test_a_small_array_may_be_made() -> None:
    try_out([_expanding(1000)], ROWS, 3, QUICK)


def test_a_model_that_takes_all_memory_dies_in_its_own_process() -> None:
    with pytest.raises(LimbeckError, match="cannot be used"):
        try_out([_expanding(10 * 2**30)], ROWS, 3, QUICK)


def _long(steps: int) -> bytes:
    """One product of large matrices after the other."""
    nodes = [
        helper.make_node("Expand", ["one", "shape"], ["v0"]),
        *(helper.make_node("MatMul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(steps)),
        helper.make_node("ReduceSum", [f"v{steps}"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["rows", "weights"], ["plain"]),
        helper.make_node("Add", ["plain", "sum"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    weights: dict[str, Array] = {
        "one": np.zeros((1, 1), np.float32),
        "shape": np.array([3000, 3000], np.int64),
        "weights": np.ones((4, 3), np.float32),
    }
    return graph(nodes, [numpy_helper.from_array(value, name) for name, value in weights.items()])


def test_a_model_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(LimbeckError, match=r"cannot be used|longer than"):
        try_out([_long(400)], ROWS, 3, Limits(memory=2 * 2**30, seconds=2.0))


def _saying(scores: Array, label: Array | None = None) -> bytes:
    """The same of every row."""
    nodes = [
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["count"]),
        helper.make_node("Concat", ["count", "classes"], ["wide"], axis=0),
        helper.make_node("Expand", ["stored", "wide"], ["scores"]),
        helper.make_node("Expand", ["named", "count"], ["label"]),
    ]
    weights: dict[str, Array] = {
        "first": np.zeros(1, np.int64),
        "classes": np.array([scores.shape[1]], np.int64),
        "stored": scores.astype(np.float32),
        "named": np.zeros(1, np.int64) if label is None else label,
    }
    return graph(nodes, [numpy_helper.from_array(value, name) for name, value in weights.items()])


@pytest.mark.parametrize(
    "data",
    [
        _saying(np.full((1, 3), np.nan)),
        _saying(np.full((1, 3), np.inf)),
        _saying(np.ones((1, 4))),
        _saying(np.ones((1, 3)), np.full(1, 7)),
        _saying(np.ones((1, 3)), np.full(1, -1)),
    ],
)
def test_a_model_that_answers_other_than_it_was_asked_is_refused(data: bytes) -> None:
    with pytest.raises(LimbeckError, match="cannot be used"):
        try_out([data], ROWS, 3, QUICK)


def test_the_trial_may_write_nothing(tmp_path: object) -> None:
    """In the child's limits there is no file larger than nothing."""
    code = (
        "import resource, sys; sys.argv = ['x']; from pathlib import Path; from limbeck.models import inspection as i;"
        f"import numpy as np; p = Path({str(tmp_path)!r}); np.save(p / 'rows.npy', np.ones((2, 4), np.float32));"
        "i._trial(p, i.Limits(memory=2**30, seconds=5.0), 3, 'multiclass'); print(resource.getrlimit(resource.RLIMIT_FSIZE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(0, 0)"
    assert inspection.SLACK > 0
