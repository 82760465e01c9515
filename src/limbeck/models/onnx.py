"""Packed models: every fitted model as one ONNX shape, run by onnxruntime.

In: `rows`, float32 [rows, ...]. Out: `label`, int64 [rows], and `scores`, float32 [rows, classes].
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import onnx
from joblib import cpu_count
from onnx import TensorProto, helper, numpy_helper

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site

OPSETS = {"": 21, "ai.onnx.ml": 3}
IR_VERSION = 10
MAX_VALUES = 2**18  # of rows that are asked about at once: a network holds hundreds of times as many
SCORES = "limbeck.scores"  # metadata key: "probability", or "vote" where a model has no probabilities


def predict(model: bytes, x: Array, site: Site) -> tuple[Array, Array]:
    """Labels and scores that a packed model gives the first public rows `x`, or an error where they are not valid.

    A site computes them once.
    """
    key = sha256(model).digest(), len(x)
    if key not in site.predicted:
        labels, scores = PackedModel(model).run(x)
        check_answers(labels, scores, len(x), site.classes)
        site.predicted[key] = labels, scores
    return site.predicted[key]


def check_answers(labels: Array, scores: Array, rows: int, classes: int) -> None:
    """Raise unless these are class numbers and finite scores of so many rows."""
    if labels.shape != (rows,) or scores.shape != (rows, classes):
        raise LimbeckError(f"it says {scores.shape} scores and {labels.shape} labels of {rows} rows")
    if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < classes)).all():
        raise LimbeckError(f"it names other classes than 0 to {classes - 1}")
    if scores.dtype.kind not in "fiub" or not np.isfinite(scores).all():
        raise LimbeckError("its scores are not finite")


class PackedModel:
    """A fitted model as it travels: checked before its first use, the same votes everywhere."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def session(self) -> Any:
        from onnxruntime import InferenceSession, SessionOptions

        try:
            onnx.checker.check_model(self.data)
            options = SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            session = InferenceSession(self.data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnx and onnxruntime raise a dozen unrelated types for a bad model
            raise LimbeckError(f"not a usable ONNX model: {str(error).splitlines()[0]}") from error
        names = [[port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs())]
        if names != [["rows"], ["label", "scores"]]:
            raise LimbeckError(f"not a Limbeck model: it maps {names[0]} to {names[1]}, not rows to label, scores")
        return session

    @property
    def metadata(self) -> dict[str, str]:
        metadata: dict[str, str] = self.session.get_modelmeta().custom_metadata_map
        return metadata

    @property
    def has_probabilities(self) -> bool:
        return self.metadata.get(SCORES) == "probability"

    def vote(self, x: Array) -> Array:
        return self.run(x)[0]

    def scores(self, x: Array) -> Array:
        return self.run(x)[1]

    def run(self, x: Array) -> tuple[Array, Array]:
        """Labels and scores; images are flattened where the model takes flat rows."""
        expected = self.session.get_inputs()[0].shape[1:]
        rows = np.asarray(x, np.float32)
        if np.prod(rows.shape[1:]) != np.prod(expected):
            raise LimbeckError(f"the model takes rows of {np.prod(expected)} values, not {np.prod(rows.shape[1:])}")
        parts = np.array_split(rows.reshape(len(x), *expected), max(1, rows.size // MAX_VALUES))
        try:
            answers = self._answers(parts)
        except Exception as error:  # onnxruntime's own types, none of them in common
            raise LimbeckError(f"the packed model cannot answer: {' '.join(str(error).split())[:200]}") from error
        labels, scores = zip(*answers, strict=True)
        return np.concatenate(labels), np.concatenate(scores)

    def _answers(self, parts: Sequence[Array]) -> list[tuple[Array, Array]]:
        def answer(part: Array) -> Any:
            return self.session.run(["label", "scores"], {"rows": part})

        if len(parts) == 1:
            return [answer(parts[0])]
        with ThreadPoolExecutor(min(cpu_count(), len(parts))) as pool:
            return list(pool.map(answer, parts))


def packed(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    row: Sequence[int],
    classes: int,
    probabilities: bool,
    opsets: dict[str, int] = OPSETS,
) -> bytes:
    """The bytes of a model whose nodes turn `rows`, each of the shape `row`, into `label` and `scores`."""
    graph = helper.make_graph(
        list(nodes),
        "limbeck",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [None, *row])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, classes]),
        ],
        list(weights),
    )
    versions = [helper.make_opsetid(domain, version) for domain, version in sorted(opsets.items())]
    model = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, producer_name="limbeck")
    helper.set_model_props(model, {SCORES: "probability" if probabilities else "vote"})
    return bytes(model.SerializeToString(deterministic=True))


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """The same model with more metadata."""
    model = onnx.load_from_string(data)
    known = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, known | dict(metadata))
    return bytes(model.SerializeToString(deterministic=True))


def spread(model: onnx.ModelProto, seen: Array, classes: int, probabilities: bool) -> bytes:
    """A converted model that knows the classes it has seen as 0, 1, ... made to speak of all classes.

    `model` maps `rows` to a label and, with `probabilities`, to a matrix with one column per seen class.
    """
    graph = model.graph
    _rename(graph, {graph.input[0].name: "rows"})
    label, *rest = [output.name for output in graph.output]
    positions = np.eye(classes, dtype=np.float32)
    nodes = [*graph.node, helper.make_node("Gather", ["seen", label], ["label"])]
    if probabilities:
        positions = positions[seen]
        nodes.append(helper.make_node("MatMul", [rest[0], "place"], ["scores"]))
    else:
        nodes.append(helper.make_node("Gather", ["place", "label"], ["scores"]))
    weights = [numpy_helper.from_array(np.asarray(seen, np.int64), "seen"), numpy_helper.from_array(positions, "place")]
    opsets = OPSETS | {o.domain: o.version for o in model.opset_import if o.domain not in OPSETS}
    row = [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim][1:]
    return packed(nodes, [*graph.initializer, *weights], row, classes, probabilities, opsets)


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Number all values in order of appearance: converters count on through a process, which shows in their names."""

    def short(name: str) -> str:
        return names.setdefault(name, f"v{len(names)}") if name else ""

    for value in (*graph.input, *graph.initializer, *graph.output):
        value.name = short(value.name)
    for node in graph.node:
        node.name = ""
        node.input[:] = [short(name) for name in node.input]
        node.output[:] = [short(name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.name = "inner"
                _rename(attribute.g, names)
    del graph.value_info[:]
