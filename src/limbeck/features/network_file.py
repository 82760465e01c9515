"""The file of an encoder's network, ONNX or TorchScript, as ONNX of one fixed form."""

import io
import warnings
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, inliner, version_converter

from limbeck.errors import LimbeckError, missing_extra, reading
from limbeck.features.network_rules import input_of
from limbeck.models.inspection import DOMAINS, IR_VERSIONS, Limits, inspect
from limbeck.models.onnx import IR_VERSION, OPSETS

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
TORCH_OPSET = 17  # newest of the TorchScript exporter
NEITHER = "it is neither an ONNX nor a TorchScript file"
NOT_TORCHSCRIPT = "it is a pickle, which is not read: save the network with torch.jit.save, or export it to ONNX"


def read_network(path: Path, row: tuple[int, ...]) -> bytes:
    """Read the network of an encoder.

    Parameters
    ----------
    path : Path
        ONNX file, or TorchScript file of `torch.jit.save`.
    row : tuple of int
        Shape of a row.

    Returns
    -------
    bytes
        ONNX model with one input and one output, of the newest operator set that Limbeck uses.

    Raises
    ------
    LimbeckError
        If the file cannot be read or has another form. Nothing is unpickled.
    """
    with reading(path):
        size = path.stat().st_size
        if size > Limits().bytes:
            raise LimbeckError(f"it has {size} bytes; at most {Limits().bytes} are allowed")
        data = path.read_bytes()
    if data.startswith(PICKLE):
        raise LimbeckError(NOT_TORCHSCRIPT)
    return one_form(_from_torchscript(data, row) if data.startswith(ZIP) else data)


def one_form(data: bytes) -> bytes:
    """Return an ONNX model with one input, its first output, a variable number of rows, and no descriptions.

    Parameters
    ----------
    data : bytes
        ONNX model.

    Returns
    -------
    bytes
        ONNX model.
    """
    try:
        model = ModelProto.FromString(data)
    except DecodeError as error:
        raise LimbeckError(NEITHER) from error
    if model.functions:
        model = inliner.inline_local_functions(model)
    _drop_unused_sets(model)
    model = _converted(model)
    graph, entry = model.graph, input_of(model)
    slim = onnx.helper.make_graph(graph.node, "encoder", [entry], graph.output[:1], graph.initializer)
    slim.sparse_initializer.extend(graph.sparse_initializer)
    slim.quantization_annotation.extend(graph.quantization_annotation)
    for port in (*slim.input, *slim.output):
        _describe_no_more(port)
        if port.type.tensor_type.shape.dim:
            port.type.tensor_type.shape.dim[0].dim_param = "rows"
    for part in (*slim.node, *slim.initializer):
        _describe_no_more(part)
    found = onnx.helper.make_model(slim, opset_imports=model.opset_import, ir_version=IR_VERSION)
    return bytes(found.SerializeToString(deterministic=True))


def _converted(model: ModelProto) -> ModelProto:
    """Model with the newest operator set that Limbeck uses."""
    version = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    low, high = DOMAINS[""]
    if not version:
        raise LimbeckError(NEITHER)
    if low <= version <= high:  # names the operators that are not allowed
        checked = ModelProto()
        checked.CopyFrom(model)
        checked.ir_version = min(max(model.ir_version, IR_VERSIONS[0]), IR_VERSIONS[-1])
        inspect(checked.SerializeToString())
    if version == OPSETS[""]:
        return model
    try:
        return version_converter.convert_version(model, OPSETS[""])
    except Exception as error:  # the converter raises several unrelated types
        reason = " ".join(str(error).split())[:120]
        raise LimbeckError(
            f"its operator set {version} cannot be converted to {OPSETS['']} ({reason}); export it with opset "
            f"{low} to {high}"
        ) from error


def _describe_no_more(part: Any) -> None:
    """Remove texts, which often contain paths of the machine that exported the model."""
    part.ClearField("doc_string")
    part.ClearField("metadata_props")


def _drop_unused_sets(model: ModelProto) -> None:
    """Drop operator sets that no node uses: exporters often name all that they know."""
    used = {"", "ai.onnx", *(node.domain for node in model.graph.node)}
    used_sets = [each for each in model.opset_import if each.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(used_sets)


def _from_torchscript(data: bytes, row: tuple[int, ...]) -> bytes:
    """ONNX model of a TorchScript file."""
    try:
        names = ZipFile(io.BytesIO(data)).namelist()
    except BadZipFile as error:
        raise LimbeckError(NEITHER) from error
    if not any(name.endswith("/constants.pkl") for name in names):  # torch.save writes none
        raise LimbeckError(NOT_TORCHSCRIPT)
    try:
        import torch
    except ImportError as error:
        raise missing_extra("a TorchScript file", "torch") from error
    file, ports = io.BytesIO(), ["rows", "outputs"]
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the TorchScript exporter is deprecated
            torch._C._jit_set_onnx_log_output_stream("stderr")  # a failed export prints its graph
            module = torch.jit.load(io.BytesIO(data), map_location="cpu")
            if hasattr(module, "training"):
                module.eval()
            torch.onnx.export(
                module,
                (torch.zeros(2, *row),),
                cast(Any, file),
                input_names=ports[:1],
                output_names=ports[1:],
                dynamic_axes={port: {0: "rows"} for port in ports},
                opset_version=TORCH_OPSET,
                dynamo=False,
            )
    except Exception as error:  # a network may raise anything
        raise LimbeckError(f"it cannot be exported to ONNX for rows of shape {row}: {_reason(error)}") from error
    return file.getvalue()


def _reason(error: Exception) -> str:
    """The telling line of an error of torch: the last one of a failed network, the first one of a failed export."""
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    return (others[-1] if others and first.startswith("The following operation failed") else first)[:160]
