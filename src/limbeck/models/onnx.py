"""Packed models: every fitted model as one form of ONNX model, run by onnxruntime.

The input is `rows`, float32 of shape (rows, ...). The outputs are `label`, int64 of shape (rows,), and `scores`,
float32 of shape (rows, classes).
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
MAX_VALUES = 2**18  # of the rows of one call: a network holds hundreds of times as many
SCORES = "limbeck.scores"  # metadata key: "probability", or "vote" where a model has no probabilities


def predict(model: bytes, x: Array, site: Site) -> tuple[Array, Array]:
    """Predict the first public rows with a packed model; a site does so once and keeps the result.

    Parameters
    ----------
    model : bytes
        Packed model.
    x : array of shape (rows, ...)
        The first public rows.
    site : Site
        The site that predicts.

    Returns
    -------
    labels : array of shape (rows,)
        Class number of each row.
    scores : array of shape (rows, classes)
        Finite scores.

    Raises
    ------
    LimbeckError
        If the model cannot predict, or its predictions are not valid.
    """
    key = sha256(model).digest(), len(x)
    if key not in site.predicted:
        labels, scores = PackedModel(model).run(x)
        check_answers(labels, scores, len(x), site.classes)
        site.predicted[key] = labels, scores
    return site.predicted[key]


def check_answers(labels: Array, scores: Array, rows: int, classes: int) -> None:
    """Raise LimbeckError unless predictions are valid: class numbers, and finite scores for all rows and classes.

    Parameters
    ----------
    labels : array
        Predicted class numbers.
    scores : array
        Predicted scores.
    rows : int
        Number of rows.
    classes : int
        Number of classes.

    Examples
    --------
    >>> check_answers(np.array([1]), np.array([[0.2, 0.8]]), rows=1, classes=2)
    >>> check_answers(np.array([2]), np.array([[0.2, 0.8]]), rows=1, classes=2)
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: the model predicts labels that are not class numbers from 0 to 1
    """
    if labels.shape != (rows,) or scores.shape != (rows, classes):
        raise LimbeckError(
            f"the model predicts labels of shape {labels.shape} and scores of shape {scores.shape}; "
            f"these must be ({rows},) and ({rows}, {classes})"
        )
    if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < classes)).all():
        raise LimbeckError(f"the model predicts labels that are not class numbers from 0 to {classes - 1}")
    if scores.dtype.kind not in "fiub" or not np.isfinite(scores).all():
        raise LimbeckError("the model predicts scores that are not finite")


class PackedModel:
    """Packed model that can predict; it is checked before its first use.

    Parameters
    ----------
    data : bytes
        ONNX model.

    Examples
    --------
    >>> from limbeck.models.constant import Constant
    >>> model = PackedModel(Constant(label=1, classes=2, features=3).pack())
    >>> model.vote(np.zeros((2, 3))).tolist()
    [1, 1]
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def session(self) -> Any:
        """Session of onnxruntime; raises LimbeckError if this is not a packed model."""
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
            raise LimbeckError(
                f"not a Limbeck model: it has inputs {names[0]} and outputs {names[1]}; "
                "these must be ['rows'] and ['label', 'scores']"
            )
        return session

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the model."""
        metadata: dict[str, str] = self.session.get_modelmeta().custom_metadata_map
        return metadata

    @property
    def has_probabilities(self) -> bool:
        """Whether the scores are probabilities; otherwise they are votes."""
        return self.metadata.get(SCORES) == "probability"

    def vote(self, x: Array) -> Array:
        """Class number of each row, an array of shape (rows,)."""
        return self.run(x)[0]

    def scores(self, x: Array) -> Array:
        """Scores of shape (rows, classes)."""
        return self.run(x)[1]

    def run(self, x: Array) -> tuple[Array, Array]:
        """Predict labels and scores.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows; images are flattened if the model takes flat rows.

        Returns
        -------
        labels : array of shape (rows,)
            Class number of each row.
        scores : array of shape (rows, classes)
            Probabilities or votes.

        Raises
        ------
        LimbeckError
            If the rows have another number of values than the model takes, or the model fails.
        """
        expected = self.session.get_inputs()[0].shape[1:]
        rows = np.asarray(x, np.float32)
        if np.prod(rows.shape[1:]) != np.prod(expected):
            raise LimbeckError(f"the model takes rows of {np.prod(expected)} values, not {np.prod(rows.shape[1:])}")
        parts = np.array_split(rows.reshape(len(x), *expected), max(1, rows.size // MAX_VALUES))
        try:
            answers = self._answers(parts)
        except Exception as error:  # onnxruntime's types have no common base
            raise LimbeckError(f"the packed model cannot predict: {' '.join(str(error).split())[:200]}") from error
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
    """Bytes of an ONNX model with the inputs and outputs of a packed model.

    Parameters
    ----------
    nodes : sequence of NodeProto
        Nodes that compute `label` and `scores` from `rows`.
    weights : sequence of TensorProto
        Constants of the nodes.
    row : sequence of int
        Shape of a row.
    classes : int
        Number of classes.
    probabilities : bool
        Whether the scores are probabilities; otherwise they are votes.
    opsets : dict
        Version of each ONNX operator set.

    Returns
    -------
    bytes
        The model.
    """
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
    """Add metadata to a packed model.

    Parameters
    ----------
    data : bytes
        Packed model.
    metadata : mapping of str to str
        Metadata to add.

    Returns
    -------
    bytes
        The model with the metadata.

    Examples
    --------
    >>> from limbeck.models.constant import Constant
    >>> data = with_metadata(Constant(label=0, classes=2, features=3).pack(), {"columns": "3"})
    >>> PackedModel(data).metadata["columns"]
    '3'
    """
    model = onnx.load_from_string(data)
    known = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, known | dict(metadata))
    return bytes(model.SerializeToString(deterministic=True))


def spread(model: onnx.ModelProto, seen: Array, classes: int, probabilities: bool) -> bytes:
    """Extend a converted model from the classes that it has seen to all classes.

    Parameters
    ----------
    model : ModelProto
        Maps `rows` to a label and, with `probabilities`, to a matrix with one column per seen class.
    seen : array of int
        Class numbers that the model's labels 0, 1, ... stand for.
    classes : int
        Number of all classes.
    probabilities : bool
        Whether the model has probabilities.

    Returns
    -------
    bytes
        Packed model.
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
    """Number all values in order of appearance; converters name them by a counter of the process."""

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
