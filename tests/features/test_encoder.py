"""Encoders: a frozen network of the user, run one row at a time; what could mix rows or reveal one is refused."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.datasets import load_digits

import limbeck as lb
from encoders import DENSE, convolution, network, node, normal
from limbeck.checks import small_federation
from limbeck.consortium.agreement import changed, read_parameters
from limbeck.errors import LimbeckError
from limbeck.experiments.run import run_file
from limbeck.features.encoder import NETWORK, Encoder, try_network
from limbeck.features.map import STEPS, FeatureMap, unpack
from limbeck.features.network_file import one_form, read_network
from limbeck.features.settings import Features
from limbeck.features.sums import SumFeatures, pack_linear
from limbeck.models.inspection import Limits
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
FITTED = FeatureMap.fit("encoder", X, 0, 20, DENSE)
EXTREMES = np.array([0.0, 1e30, -3e38, 1e-38, np.nan, np.inf], np.float32)


def fit(data: bytes, folder: Path, x: Array = X) -> FeatureMap:
    (folder / "net.onnx").write_bytes(data)
    return Features("encoder", number=20, path="net.onnx").fit(x, 0, folder)


def forged(data: bytes, width: int) -> FeatureMap:
    """A map as a hostile server may send it, with honest arrays of the right size."""
    fitted = FeatureMap.fit("standard", normal(50, width), 0, 6)
    return FeatureMap("encoder", {**fitted.arrays, NETWORK: np.frombuffer(data, np.uint8)}, (5,))


RANDOM = network([node("RandomNormalLike", "in")])
MEAN = [node("ReduceMean", "in axis", "mean", keepdims=1), node("Sub", "in mean")]
AXIS = {"axis": np.array([0])}
NORM = {name: np.ones(5, np.float32) for name in ("scale", "bias", "m", "v")}
QUANTIZED = [
    helper.make_node("DynamicQuantizeLinear", ["in"], ["q", "s", "z"]),
    node("DequantizeLinear", "q s z"),
]
TRAINED = helper.make_node("BatchNormalization", ["in", "scale", "bias", "m", "v"], ["out", "a", "b"], training_mode=1)
TWO = onnx.load_from_string(DENSE)
TWO.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [None, 5]))
REFUSED = {
    "batch statistics": (network([TRAINED], NORM), "training mode"),
    "the mean of the batch": (network(MEAN, AXIS), "depend on the other rows"),
    "a softmax over the rows": (network([node("Softmax", "in", axis=0)]), "depend on the other rows"),
    "one vector for the whole batch": (network([node("ReduceMean", "in axis", keepdims=1)], AXIS), "variable number"),
    "a batch of one row": (
        network([node("Reshape", "in shape")], {"shape": np.array([1, 5])}, batch=1),
        "fails on 2 rows",
    ),
    "dynamic quantization": (network(QUANTIZED), "DynamicQuantizeLinear is not allowed"),
    "whole matrices": (network([node("MatMulInteger", "in in")]), "MatMulInteger is not allowed"),
    "chance": (RANDOM, "RandomNormalLike is not allowed"),
    "outputs that are no numbers": (network([node("Log", "in")]), "not finite for 58 of 60"),
    "a logarithm of some rows": (network([node("Sqrt", "in")]), "not finite"),
    "another shape": (network([node("Relu", "in")], row=(4,)), r"shape \(\?, 4\); .* shape \(rows, 5\)"),
    "another rank": (network([node("Relu", "in")], row=(1, 5)), "its input has the shape"),
    "another type": (network([node("Cast", "in", to=1)], kind=TensorProto.INT64), "INT64; it must be FLOAT"),
    "two inputs": (TWO.SerializeToString(), "it has 2 inputs"),
    "an operator of others": (
        network([node("Gelu", "in", domain="com.microsoft")], domain="com.microsoft"),
        "com.micro",
    ),
    "no model": (b"<html>", "neither an ONNX nor a TorchScript"),
    "nothing": (b"", "neither an ONNX nor a TorchScript"),
    "a pickle": (b"\x80\x02}q\x00.", "torch.jit.save"),
    "a ZIP file": (b"PK\x03\x04....", "neither an ONNX nor a TorchScript"),
    "an operator set to come": (network([node("Relu", "in")], opset=99), "operator set 99"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_network_that_may_combine_rows_or_fail_is_refused_with_its_name(what: str, tmp_path: Path) -> None:
    data, line = REFUSED[what]
    with pytest.raises(LimbeckError, match=line) as caught:
        fit(data, tmp_path)
    assert str(caught.value).startswith("features.path = 'net.onnx': ")
    assert "\n" not in str(caught.value)


def test_batch_normalization_in_evaluation_mode_is_allowed(tmp_path: Path) -> None:
    frozen = node("BatchNormalization", "in scale bias m v")
    assert fit(network([frozen], NORM), tmp_path).width == 20


def test_missing_and_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimbeckError, match=r"no\.onnx: No such file"):
        Features("encoder", path="no.onnx").fit(X, 0, tmp_path)
    monkeypatch.setattr("limbeck.features.network_file.Limits", lambda: Limits(bytes=100))
    with pytest.raises(LimbeckError, match="at most 100 are allowed"):
        fit(DENSE, tmp_path)


def test_a_path_belongs_to_an_encoder() -> None:
    with pytest.raises(LimbeckError, match='path: kind = "encoder" needs'):
        Features("encoder")
    with pytest.raises(LimbeckError, match='path is for kind = "encoder", not "fourier"'):
        Features("fourier", path="net.onnx")


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
def test_operator_sets_are_converted(opset: int, tmp_path: Path) -> None:
    images = normal(40, 8, 8)
    found = fit(convolution(8, opset), tmp_path, images)
    assert found.opset == 21
    assert np.allclose(found.unit(images), FeatureMap.fit("encoder", images, 0, 20, convolution(8)).unit(images))


def test_descriptions_and_unused_sets_do_not_travel() -> None:
    model = onnx.load_from_string(DENSE)
    model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = "/home/someone/net.py"
    model.graph.input[0].doc_string = model.producer_name = "/home/someone/net.py"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert b"someone" not in one_form(model.SerializeToString())
    Encoder(one_form(model.SerializeToString()), (5,)).outputs(X)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first = fit(DENSE, tmp_path)
    second = fit(network([node("Tanh", "in")]), tmp_path)
    assert first.hash != second.hash


@pytest.mark.parametrize("offset", range(4))
def test_outputs_do_not_depend_on_where_a_row_lies_in_memory(offset: int) -> None:
    """Sums may have another order at another alignment."""
    data = network([node("ReduceSum", "in axis", keepdims=1)], {"axis": np.array([1])}, (37,))
    rows, encoder = normal(20, 37), Encoder(data, (37,))
    memory = np.zeros(20 * 37 + 4, np.float32)
    there = memory[offset : offset + rows.size].reshape(rows.shape)
    there[:] = rows
    assert np.array_equal(encoder.outputs(there), encoder.outputs(rows))


def test_the_packed_model_takes_raw_rows() -> None:
    images = normal(40, 8, 8)
    for features, x in ((FITTED, X), (FeatureMap.fit("encoder", images, 0, 20, convolution(8)), images)):
        weights = np.random.default_rng(0).normal(size=(21, 3))
        data = pack_linear(features, weights)
        values = features.steps(x) / STEPS @ weights
        labels, scores = PackedModel(data).run(x)
        clear = np.diff(np.sort(values, axis=1)[:, -2:])[:, 0] > 1e-3
        assert clear.sum() > 20
        assert np.array_equal(labels[clear], values.argmax(axis=1)[clear])
        assert np.allclose(scores.sum(axis=1), 1)
        nodes, _ = features.nodes("features")
        assert len({name for each in nodes for name in each.output}) == sum(len(each.output) for each in nodes)


def test_the_packed_model_predicts_where_outputs_are_not_finite() -> None:
    features = FeatureMap.fit("encoder", np.abs(X), 0, 20, network([node("Sqrt", "in")]))
    labels, scores = PackedModel(pack_linear(features, normal(21, 3))).run(np.concatenate([-X, np.abs(X) * 1e37]))
    assert np.isfinite(scores).all()
    assert labels.max() < 3


HOSTILE = {
    "the mean of the batch": network(MEAN, AXIS),
    "huge outputs": network([node("Mul", "in huge")], {"huge": np.full(1, 3e38, np.float32)}),
    "no numbers": network([node("Log", "in")]),
    "the exponential": network([node("Exp", "in")]),
    "constant outputs": network([node("Mul", "in huge")], {"huge": np.zeros(1, np.float32)}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_networks_give_no_longer_vectors_and_combine_no_rows(what: str) -> None:
    found = forged(HOSTILE[what], 5)
    found = unpack("encoder", found.pack(), (5,))
    x = np.concatenate([X, *(np.full((1, 5), each, np.float32) for each in EXTREMES)])
    steps = found.steps(x)
    assert (steps.astype(object) ** 2).sum(axis=1).max() <= STEPS**2
    assert np.array_equal(np.concatenate([found.steps(x[i : i + 1]) for i in range(len(x))]), steps)
    assert np.array_equal(found.steps(x[::-1]), steps[::-1])


def test_a_row_that_is_not_finite_or_has_no_finite_output_gets_the_fixed_vector() -> None:
    found = forged(network([node("Sqrt", "in")]), 5)
    steps = found.steps(np.array([[-1.0] * 5, [np.nan] * 5, [4.0, 1.0, 0.0, 3.0, 9.0]], np.float32))
    assert not steps[:2, 1:].any()
    assert steps[2, 1:].any()


def test_a_row_for_which_the_network_fails_gets_the_fixed_vector_and_moves_no_other_row() -> None:
    """A failure of the whole job would reveal the row."""
    nodes = [node("Cast", "in", "index", to=TensorProto.INT64), node("Gather", "table index")]
    found = forged(network(nodes, {"table": normal(3)}), 5)
    x = np.array([[0, 1, 2, 1, 0], [0, 1, 2, 3, 0], [1, 1, 1, 1, 0]], np.float32)
    steps = found.steps(x)
    assert not steps[1, 1:].any()
    assert np.array_equal(steps[[0, 2]], found.steps(x[[0, 2]]))
    rows = Rows(x, np.array([0, 1, 0]))
    sums, _ = SumFeatures("encoder", found.pack(), rows).run(2, 0)
    assert sums[0].tolist() == [2 * steps[0, 0] / STEPS, steps[0, 0] / STEPS]


CAST = node("Cast", "in", "whole", to=TensorProto.INT64)
COSTLY = {
    "a shape from the row": (
        network([CAST, node("ReduceMax", "whole", "shape", keepdims=0), node("Expand", "in shape")]),
        "Expand must not depend on the values",
    ),
    "a slice from the row": (
        network([CAST, node("Reshape", "whole flat", "ends"), node("Slice", "in start ends")], {
            "flat": np.array([-1]), "start": np.zeros(5, np.int64),
        }),
        "Slice must not depend on the values",
    ),
    "a division by zero": (
        network([CAST, node("Div", "one whole", "d"), node("Cast", "d", to=1)], {"one": np.array([1])}),
        "division of whole numbers",
    ),
    "sorting": (
        network([helper.make_node("TopK", ["in", "k"], ["out", "i"])], {"k": np.array([2])}),
        "TopK is not allowed",
    ),
    "gigabytes": (network([node("Expand", "in shape")], {"shape": np.array([2**20, 2**12, 5])}, rank=3), "cannot be used"),
    "too many outputs": (network([node("Expand", "in shape")], {"shape": np.array([2**15, 5])}), "65536 floats are allowed"),
    "chance": (RANDOM, "RandomNormalLike is not allowed"),
    "a network for other rows": (network([node("Relu", "in")], row=(4,)), "its input has the shape"),
    "no network": (b"no network", "cannot be used"),
}  # fmt: skip


def with_false_type() -> bytes:
    """A division of whole numbers that claims to be one of floats."""
    model = onnx.load_from_string(COSTLY["a division by zero"][0])
    model.graph.value_info.append(helper.make_tensor_value_info("d", TensorProto.FLOAT, [None, 5]))
    return bytes(model.SerializeToString())


COSTLY["a false type"] = (with_false_type(), "does not match expected type|not a usable ONNX model")


@pytest.mark.parametrize("what", COSTLY)
def test_a_party_refuses_networks_whose_cost_depends_on_a_row_or_is_too_high(what: str) -> None:
    data, line = COSTLY[what]
    with pytest.raises(LimbeckError, match=line) as caught:
        unpack("encoder", forged(data, 5).pack(), (5,))
    assert "the model cannot be used: " in str(caught.value)


def test_a_party_reads_a_network_in_another_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.ModelProto, "FromString", None)
    try_network.cache_clear()
    unpack("encoder", FITTED.pack(), (5,))
    with pytest.raises(LimbeckError, match="cannot be used"):
        unpack("encoder", forged(RANDOM, 5).pack(), (5,))


def test_a_map_without_its_network_or_with_another_type_is_refused() -> None:
    lacking = {name: array for name, array in FITTED.arrays.items() if name != NETWORK}
    with pytest.raises(LimbeckError, match="it has no network"):
        _ = unpack("encoder", FeatureMap("encoder", lacking, (5,)).pack(), (5,)).width
    floats = {**FITTED.arrays, NETWORK: np.ones(3, np.float32)}
    with pytest.raises(LimbeckError, match="known kind"):
        unpack("encoder", FeatureMap("encoder", floats, (5,)).pack(), (5,))
    with pytest.raises(LimbeckError, match="known kind"):
        unpack("standard", FITTED.pack(), (5,))


def test_the_hash_covers_the_network_and_the_numbers() -> None:
    other = {**FITTED.arrays, "largest": FITTED.arrays["largest"] * 2}
    network_ = {**FITTED.arrays, NETWORK: FITTED.arrays[NETWORK][::-1].copy()}
    assert len({FITTED.hash, *(FeatureMap("encoder", each, (5,)).hash for each in (other, network_))}) == 3


def test_a_party_agrees_to_the_kind_and_needs_no_path() -> None:
    algorithm = lb.FedRidge(features=Features("encoder", path="models/net.onnx"))
    assert changed(algorithm) == {"features": {"kind": "encoder"}}
    agreed = read_parameters(lb.FedRidge, {"features": {"kind": "encoder"}})
    assert agreed.difference(algorithm) is None
    assert agreed.difference(lb.FedRidge(features=Features("encoder", 10, "net.onnx"))) == "features.number"
    assert read_parameters(lb.FedRidge, {}).difference(algorithm) == "features.kind"


def torchscript(folder: Path, name: str, training: bool = False) -> Any:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    parts = [nn.Conv1d(8, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(24, 9)]
    built = nn.Sequential(*parts).train(training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(built), folder / name)
    return built


@pytest.mark.parametrize("training", [False, True])
def test_torchscript_is_converted_in_evaluation_mode(training: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    built, x = torchscript(tmp_path, "net.pt", training), normal(40, 8, 8)
    outputs = Encoder(read_network(tmp_path / "net.pt", (8, 8)), (8, 8)).outputs(x)
    with torch.no_grad():
        assert np.allclose(outputs, built.eval()(torch.from_numpy(x)).numpy(), atol=1e-4)
    features = Features("encoder", 9, "net.pt").fit(x, 0, tmp_path)
    assert np.array_equal(np.concatenate([features.unit(x[i : i + 1]) for i in range(40)]), features.unit(x))
    assert PackedModel(pack_linear(features, normal(10, 3))).run(x)[0].shape == (40,)


def test_pickles_of_torch_are_not_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for new in (True, False):
        torch.save(torch.nn.Linear(5, 2), tmp_path / "net.pt", _use_new_zipfile_serialization=new)
        with pytest.raises(LimbeckError, match=r"'net\.pt': it is a pickle.*torch\.jit\.save"):
            Features("encoder", path="net.pt").fit(X, 0, tmp_path)


def test_torchscript_that_onnx_cannot_express_is_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    torch.jit.save(torch.jit.trace(torch.nn.AdaptiveAvgPool1d(3), torch.zeros(2, 8, 8)), tmp_path / "net.pt")
    with pytest.raises(LimbeckError, match=r"cannot be exported to ONNX.*adaptive_avg_pool1d"):
        Features("encoder", path="net.pt").fit(normal(40, 8, 8), 0, tmp_path)
    assert capfd.readouterr().out == ""


def test_torchscript_for_other_rows_is_refused_in_one_line(tmp_path: Path) -> None:
    torchscript(tmp_path, "net.pt")
    with pytest.raises(LimbeckError, match=r"cannot be exported to ONNX for rows of shape \(5,\): ") as caught:
        Features("encoder", path="net.pt").fit(X, 0, tmp_path)
    assert "\n" not in str(caught.value)


def test_onnx_encoders_do_not_import_torch(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(DENSE)
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np; from pathlib import Path; from limbeck.features.settings import Features;"
        f"p = Path({str(tmp_path)!r}); Features('encoder', path='net.onnx').fit(np.load(p / 'x.npy'), 0, p);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_run_on_digits_with_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(convolution(8))
    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, 8, 8).astype(np.float32)
    parties = [(x[i : i + 400], y[i : i + 400]) for i in (0, 400, 800)]
    features = lb.Features("encoder", path=str(tmp_path / "net.onnx"))
    result = lb.run(lb.FedRidge(features=features), parties, public=x[1200:1400], test=(x[1400:], y[1400:]))
    assert result.accuracy is not None
    assert result.model is not None
    assert result.accuracy > 0.7
    assert np.mean(result.model.predict(x[1400:]) == y[1400:]) == pytest.approx(result.accuracy)
    result.model.save(tmp_path / "model.onnx")
    assert np.array_equal(lb.load(tmp_path / "model.onnx").predict(x[1400:]), result.model.predict(x[1400:]))


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [lb.Privacy(), lb.Privacy(level="L2", epsilon=3.0)])
def test_a_run_keeps_the_rules_of_all_algorithms(privacy: lb.Privacy, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(network([node("Tanh", "in")], row=(4,)))
    features = Features("encoder", path=str(tmp_path / "net.onnx"))
    algorithm = lb.FedRidge(features=features, privacy=privacy)
    lb.check_algorithm(algorithm, federation=small_federation(algorithm))


def test_the_path_in_an_experiment_file_is_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(network([node("Relu", "in")], row=(4,)))
    text = """
    data = { name = "iris", parties = 2, public = 0.3, test = 0.2 }
    model = { name = "decision-tree" }
    [algorithm]
    name = "fedridge"
    features = { kind = "encoder", path = "net.onnx" }
    """
    (tmp_path / "ridge.toml").write_text(text)
    result = run_file(tmp_path / "ridge.toml")
    assert result.accuracy is not None
    assert result.accuracy > 0.6
