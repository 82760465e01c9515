"""Inspection of models from other sites, before they are used.

The models that a party sends are read and run on the public rows once, in a child process with limited memory and time.
Their predictions there are the same as later at the server, because no allowed operator is random.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, TensorProto

from limbeck.errors import LimbeckError
from limbeck.models.onnx import PackedModel, check_answers
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

DOMAINS = {"": (13, 21), "ai.onnx.ml": (1, 3)}  # lowest and highest version of each operator set
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
MAX_GRAPH_PARTS = 20_000  # of each kind, in one graph
SLACK = 2**30  # bytes of address space for Python and its libraries


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for a model from another site.

    Parameters
    ----------
    bytes : int
        Maximum size of the model, in bytes.
    memory : int
        Maximum memory of the child process, in bytes, beside Python and its libraries.
    seconds : float
        Maximum processor time of the child process, in seconds.
    """

    bytes: int = 256 * 2**20
    memory: int = 4 * 2**30
    seconds: float = 120.0


def inspect(data: bytes, limits: Limits = Limits()) -> None:  # noqa: B008
    """Raise LimbeckError unless a file is a plain ONNX model, of allowed operators only.

    Parameters
    ----------
    data : bytes
        The file.
    limits : Limits
        The maximum size is used.

    Raises
    ------
    LimbeckError
        If something is not allowed; the rest of the file is then not read.
    """
    _check_size(data, limits)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise LimbeckError("not an ONNX model") from error
    if model.ir_version not in IR_VERSIONS:
        raise LimbeckError(f"ONNX IR version {model.ir_version}; use {IR_VERSIONS[0]} to {IR_VERSIONS[-1]}")
    for opset in model.opset_import:
        domain = "" if opset.domain == "ai.onnx" else opset.domain
        if domain not in DOMAINS or not DOMAINS[domain][0] <= opset.version <= DOMAINS[domain][1]:
            raise LimbeckError(f"operator set {domain or 'ai.onnx'} {opset.version} is not supported")
    if model.functions or model.training_info:
        raise LimbeckError("a model must not contain functions of its own")
    _inspect_graph(model.graph)
    try:
        onnx.checker.check_model(data)
    except Exception as error:  # onnx raises several unrelated types for a bad model
        raise LimbeckError(f"not a valid ONNX model: {' '.join(str(error).split())[:120]}") from error


def _check_size(data: bytes, limits: Limits) -> None:
    if len(data) > limits.bytes:
        raise LimbeckError(f"the model has {len(data)} bytes; at most {limits.bytes} are allowed")


def _inspect_graph(graph: GraphProto, depth: int = 0) -> None:
    parts = (graph.node, graph.initializer, graph.input, graph.output, graph.value_info)
    if max(map(len, parts)) > MAX_GRAPH_PARTS or depth > 2:
        raise LimbeckError("the model has too many parts")
    _inspect_tensors(graph.initializer)
    if graph.sparse_initializer or graph.quantization_annotation:
        raise LimbeckError("sparse or quantized weights are not allowed in a model")
    for node in graph.node:
        if node.op_type not in OPERATORS.get(node.domain, ()):
            raise LimbeckError(f"the operator {node.domain or 'ai.onnx'}.{node.op_type} is not allowed"[:120])
        for attribute in node.attribute:
            _inspect_tensors([attribute.t, *attribute.tensors])
            if attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.GRAPHS):
                raise LimbeckError("sparse weights or several graphs in one node are not allowed in a model")
            if attribute.type == AttributeProto.GRAPH:
                _inspect_graph(attribute.g, depth + 1)


def _inspect_tensors(tensors: Iterable[TensorProto]) -> None:
    for tensor in tensors:
        if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
            raise LimbeckError("weights in another file are not allowed in a model")


def try_out(
    models: Sequence[bytes],
    rows: Array,
    classes: int,
    limits: Limits = Limits(),  # noqa: B008
    task: Kind = "multiclass",
) -> None:
    """Run models on rows in a limited child process.

    Parameters
    ----------
    models : sequence of bytes
        Models from another site.
    rows : array of shape (rows, ...)
        Public rows.
    classes : int
        Number of classes.
    limits : Limits
        Limits of each model's size, and of the process.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Raises
    ------
    LimbeckError
        If a model is not allowed, fails, or exceeds a limit.
    """
    run_limited(__name__, models, rows, limits, str(classes), task)


def run_limited(module: str, models: Sequence[bytes], rows: Array, limits: Limits, *arguments: str) -> None:
    """Run a module as a child process, with models and rows as files in a folder.

    The module gets the folder, the limits and the arguments. It calls `limit_process` before it reads a model.

    Parameters
    ----------
    module : str
        The module.
    models : sequence of bytes
        Models from another site.
    rows : array of shape (rows, ...)
        Rows to run the models on.
    limits : Limits
        Limits of each model's size, and of the process.
    *arguments : str
        Further arguments of the module.

    Raises
    ------
    LimbeckError
        If the module does not end well. Its last line of output is the reason.
    """
    for data in models:
        _check_size(data, limits)
    with tempfile.TemporaryDirectory(prefix="limbeck-trial-") as folder:
        np.save(Path(folder) / "rows.npy", np.ascontiguousarray(rows, np.float32))
        for number, data in enumerate(models):
            (Path(folder) / f"{number}.onnx").write_bytes(data)
        command = [sys.executable, "-m", module, folder, *map(str, asdict(limits).values()), *arguments]
        try:
            done = subprocess.run(
                command,
                env=quiet_environment(),
                capture_output=True,
                text=True,
                timeout=limits.seconds + 30,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LimbeckError(f"the model takes longer than {limits.seconds:g} seconds") from error
    if done.returncode != 0:
        output = done.stdout.strip().splitlines()[-1:] or [f"it fails, or needs over {limits.memory} bytes of memory"]
        raise LimbeckError(f"the model cannot be used: {output[0][:200]}")


def quiet_environment() -> dict[str, str]:
    """Return the environment variables of a child process, which gets no others."""
    paths = os.pathsep.join(filter(None, sys.path))
    return {"PYTHONPATH": paths, "PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1"}


def limit_memory(limits: Limits, more: int = 0) -> None:
    """Limit the memory of this process for ever, and let it write no files.

    Parameters
    ----------
    limits : Limits
        The limits.
    more : int
        Bytes of memory in addition.
    """
    import resource

    _limit({resource.RLIMIT_AS: limits.memory + SLACK + more, resource.RLIMIT_FSIZE: 0})


def _limit(most: Mapping[int, int]) -> None:
    import resource

    for what, number in most.items():
        _, allowed = resource.getrlimit(what)
        within = number if allowed == resource.RLIM_INFINITY else min(number, allowed)
        resource.setrlimit(what, (within, within))


def limit_process(folder: Path, limits: Limits) -> tuple[Array, Iterator[bytes]]:
    """Limit the memory and the time of this process for ever.

    Parameters
    ----------
    folder : Path
        Folder of the child process.
    limits : Limits
        The limits.

    Returns
    -------
    tuple of array and iterator of bytes
        The rows, and the models, which are read one at a time.

    Raises
    ------
    LimbeckError
        On Windows, which cannot limit a process in this way.
    """
    try:
        import resource
    except ImportError as error:
        raise LimbeckError("this system cannot limit what a process uses; use Linux or macOS") from error

    rows = np.load(folder / "rows.npy", mmap_mode="r")
    limit_memory(limits, rows.nbytes)
    _limit({resource.RLIMIT_CPU: int(limits.seconds) + 1})
    return rows, (path.read_bytes() for path in sorted(folder.glob("*.onnx")))


def run_child(trial: Callable[[Path, Limits, list[str]], None]) -> None:
    """In the child process: run a trial with the arguments of `run_limited`, and print why it fails.

    Parameters
    ----------
    trial : callable
        Gets the folder, the limits and the further arguments.
    """
    folder, size, memory, seconds, *arguments = sys.argv[1:]
    try:
        trial(Path(folder), Limits(int(size), int(memory), float(seconds)), arguments)
    except Exception as error:  # a model from another site may cause any error
        sys.stdout.write(f"{error or type(error).__name__}\n")
        sys.exit(1)


def _trial(folder: Path, limits: Limits, classes: int, task: Kind) -> None:
    """In the child process: read every model and run it on all rows."""
    rows, models = limit_process(folder, limits)
    for data in models:
        inspect(data, limits)
        check_answers(*PackedModel(data).run(rows), len(rows), classes, task)


if __name__ == "__main__":
    run_child(lambda folder, limits, rest: _trial(folder, limits, int(rest[0]), cast(Kind, rest[1])))
