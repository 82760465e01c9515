"""A stranger's model, looked at before it is used: what it is made of, and what it takes to run it.

The models that a party sends are read and run on the public rows once, in a process of their own that may take so much
memory and time; what they answer there is what they will answer at the server: no allowed operator draws chance.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, TensorProto

from limbeck.errors import LimbeckError
from limbeck.models.onnx import PackedModel, check_answers
from limbeck.protocol.rows import Array

DOMAINS = {"": (13, 21), "ai.onnx.ml": (1, 3)}  # lowest and highest version
IR_VERSIONS = range(7, 11)
PLAIN = """
Abs Add And ArgMax ArgMin AveragePool BatchNormalization Cast Clip Concat Constant Conv Div Elu Equal Erf Exp
Expand Flatten Floor Gather GatherElements Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual Identity
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max MaxPool Mean Min Mul Neg Not Or Pad Pow
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape Round Scan Shape Sigmoid Sign
Slice Softmax Softplus Split Sqrt Squeeze Sub Sum Tanh TopK Transpose Unsqueeze Where
"""
CLASSICAL = """
ArrayFeatureExtractor Binarizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder
SVMClassifier SVMRegressor Scaler TreeEnsembleClassifier TreeEnsembleRegressor
"""
OPERATORS = {"": frozenset(PLAIN.split()), "ai.onnx.ml": frozenset(CLASSICAL.split())}
MAX_GRAPH_PARTS = 20_000  # of a graph, of each kind
SLACK = 2**30  # bytes of address space that Python and its libraries take by themselves


@dataclass(frozen=True, slots=True)
class Limits:
    """What a stranger's model may weigh, and take while it is tried."""

    bytes: int = 256 * 2**20
    memory: int = 4 * 2**30
    seconds: float = 120.0


def inspect(data: bytes, limits: Limits = Limits()) -> None:  # noqa: B008
    """Refuse a file that is not a plain model: the rest of it is never read."""
    _check_size(data, limits)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise LimbeckError("no ONNX model") from error
    if model.ir_version not in IR_VERSIONS:
        raise LimbeckError(f"a model of ONNX's format {model.ir_version}")
    for opset in model.opset_import:
        domain = "" if opset.domain == "ai.onnx" else opset.domain
        if domain not in DOMAINS or not DOMAINS[domain][0] <= opset.version <= DOMAINS[domain][1]:
            raise LimbeckError(f"a model that needs {domain or 'ai.onnx'} {opset.version}")
    if model.functions or model.training_info:
        raise LimbeckError("a model with functions of its own")
    _inspect_graph(model.graph)
    try:
        onnx.checker.check_model(data)
    except Exception as error:  # onnx raises several unrelated types for a bad model
        raise LimbeckError(f"no sound ONNX model: {' '.join(str(error).split())[:120]}") from error


def _check_size(data: bytes, limits: Limits) -> None:
    if len(data) > limits.bytes:
        raise LimbeckError(f"a model of {len(data)} bytes, of which {limits.bytes} are allowed")


def _inspect_graph(graph: GraphProto, depth: int = 0) -> None:
    parts = (graph.node, graph.initializer, graph.input, graph.output, graph.value_info)
    if max(map(len, parts)) > MAX_GRAPH_PARTS or depth > 2:
        raise LimbeckError("a model of too many parts")
    _inspect_tensors(graph.initializer)
    if graph.sparse_initializer or graph.quantization_annotation:
        raise LimbeckError("a model with sparse or quantised weights")
    for node in graph.node:
        if node.op_type not in OPERATORS.get(node.domain, ()):
            raise LimbeckError(f"a model with the operator {node.domain or 'ai.onnx'}.{node.op_type}"[:120])
        for attribute in node.attribute:
            _inspect_tensors([attribute.t, *attribute.tensors])
            if attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.GRAPHS):
                raise LimbeckError("a model with sparse weights or several graphs in one node")
            if attribute.type == AttributeProto.GRAPH:
                _inspect_graph(attribute.g, depth + 1)


def _inspect_tensors(tensors: Iterable[TensorProto]) -> None:
    for tensor in tensors:
        if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
            raise LimbeckError("a model whose weights lie in another file")


def try_out(models: Sequence[bytes], rows: Array, classes: int, limits: Limits = Limits()) -> None:  # noqa: B008
    """Run models on rows in a process of their own; refuse them where one fails, or takes too much or too long."""
    for data in models:
        _check_size(data, limits)
    with tempfile.TemporaryDirectory(prefix="limbeck-trial-") as folder:
        np.save(Path(folder) / "rows.npy", np.ascontiguousarray(rows, np.float32))
        for number, data in enumerate(models):
            (Path(folder) / f"{number}.onnx").write_bytes(data)
        command = [sys.executable, "-m", __name__, folder, str(classes), *map(str, asdict(limits).values())]
        paths = os.pathsep.join(filter(None, sys.path))
        quiet = {"PYTHONPATH": paths, "PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, env=quiet, capture_output=True, text=True, timeout=limits.seconds + 30, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise LimbeckError(f"a model that takes longer than {limits.seconds:g} seconds") from error
    if done.returncode != 0:
        output = done.stdout.strip().splitlines()[-1:] or [f"it fails, or takes more than {limits.memory} bytes"]
        raise LimbeckError(f"a model that cannot be used: {output[0][:200]}")


def _trial(folder: Path, classes: int, limits: Limits) -> None:
    """In the child: no more memory and time than allowed, then every model is read, and run on all rows."""
    import resource

    rows = np.load(folder / "rows.npy", mmap_mode="r")
    for what, most in (
        (resource.RLIMIT_AS, limits.memory + SLACK + rows.nbytes),
        (resource.RLIMIT_CPU, int(limits.seconds) + 1),
        (resource.RLIMIT_FSIZE, 0),
    ):
        _, allowed = resource.getrlimit(what)
        within = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (within, within))
    for path in sorted(folder.glob("*.onnx")):
        data = path.read_bytes()
        inspect(data, limits)
        check_answers(*PackedModel(data).run(rows), len(rows), classes)


if __name__ == "__main__":
    where, count, bytes_, memory_, seconds_ = sys.argv[1:]
    try:
        _trial(Path(where), int(count), Limits(int(bytes_), int(memory_), float(seconds_)))
    except Exception as error:  # whatever a stranger's model brings about
        sys.stdout.write(f"{error or type(error).__name__}\n")
        sys.exit(1)
