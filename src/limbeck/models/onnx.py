"""Packed models: every fitted model as one form of ONNX model, run by onnxruntime.

The input is `rows`, float32 of shape (rows, ...). The outputs are `label`, int64 of shape (rows,), and `scores`,
float32 of shape (rows, classes). With several labels a row, `label` is int64 of shape (rows, classes), 0 or 1. For
regression it is float32 of shape (rows,), and `scores` has one column.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

import numpy as np
import onnx
from joblib import cpu_count
from onnx import TensorProto, helper, numpy_helper

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import check_array
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site
from limbeck.protocol.task import Kind

T = TypeVar("T")
OPSETS = {"": 21, "ai.onnx.ml": 3}
IR_VERSION = 10
MAX_VALUES = 2**18  # of the rows of one call: a network holds hundreds of times as many
CACHED = 256  # models whose labels a site keeps, from the check of a reply to its use
SCORES = "limbeck.scores"  # metadata key: "probability", or "vote" where a model has no probabilities
TASK = "limbeck.task"  # metadata key: the kind of labels, unless it is multiclass


def predict(model: bytes, x: Array, site: Site) -> Array:
    """Label the first public rows with a packed model; a site keeps the labels of the last `CACHED` models.

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
    array of shape (rows,)
        Class number of each row, in the smallest unsigned integers that hold all classes. Other tasks have labels of
        their own.

    Raises
    ------
    LimbeckError
        If the model cannot predict, or its labels or scores are not valid.
    """

    def checked(labels: Array, scores: Array, rows: int) -> Array:
        check_answers(labels, scores, rows, site.classes, site.task.kind)
        return labels.astype(np.min_scalar_type(site.classes - 1)) if site.task.is_multiclass else labels

    key = sha256(model).digest(), len(x)
    if key not in site.predicted:
        labels = np.concatenate(PackedModel(model).each(x, checked))
        while len(site.predicted) >= CACHED:
            del site.predicted[next(iter(site.predicted))]
        site.predicted[key] = labels
    return site.predicted[key]


def check_answers(labels: Array, scores: Array, rows: int, classes: int, task: Kind = "multiclass") -> None:
    """Raise LimbeckError unless predictions are valid: labels of the task, and finite scores for all rows and classes.

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
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Examples
    --------
    >>> check_answers(np.array([1]), np.array([[0.2, 0.8]]), rows=1, classes=2)
    >>> check_answers(np.array([2]), np.array([[0.2, 0.8]]), rows=1, classes=2)
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: the model predicts labels that are not class numbers from 0 to 1
    """
    shape = (rows, classes) if task == "multilabel" else (rows,)
    if labels.shape != shape or scores.shape != (rows, classes):
        raise LimbeckError(
            f"the model predicts labels of shape {labels.shape} and scores of shape {scores.shape}; "
            f"these must be {shape} and ({rows}, {classes})"
        )
    if task == "regression":
        check_array(labels, shape, 0, 1, "f")
    elif task == "multilabel":
        check_array(labels, shape, 0, 1, "iu")
    elif labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < classes)).all():
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

    keeps_memory: ClassVar[bool] = True  # between two calls

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __getstate__(self) -> dict[str, bytes]:
        return {"data": self.data}  # a session cannot be pickled

    @cached_property
    def session(self) -> Any:
        """Session of onnxruntime; raises LimbeckError if this is not a packed model."""
        from onnxruntime import InferenceSession, SessionOptions

        try:
            onnx.checker.check_model(self.data)
            options = SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            options.enable_cpu_mem_arena = options.enable_mem_pattern = self.keeps_memory
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
    def task(self) -> str:
        """Kind of the labels."""
        return self.metadata.get(TASK, "multiclass")

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
        labels, scores = zip(*self.each(x, lambda labels, scores, rows: (labels, scores)), strict=True)
        return np.concatenate(labels), np.concatenate(scores)

    def each(self, x: Array, finish: Callable[[Array, Array, int], T]) -> list[T]:
        """Predict one part of the rows after the other, so that the scores of all rows need not be held at once.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows; images are flattened if the model takes flat rows.
        finish : callable
            Gets labels, scores and number of rows of each part.

        Returns
        -------
        list
            What `finish` returned for each part, in order.

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

        def answer(part: Array) -> T:
            return finish(*self._answer(part), len(part))

        if len(parts) == 1:
            return [answer(parts[0])]
        with ThreadPoolExecutor(min(cpu_count(), len(parts))) as pool:
            return list(pool.map(answer, parts))

    def _answer(self, part: Array) -> tuple[Array, Array]:
        try:
            labels, scores = self.session.run(["label", "scores"], {"rows": part})
        except Exception as error:  # onnxruntime's types have no common base
            raise LimbeckError(f"the packed model cannot predict: {' '.join(str(error).split())[:200]}") from error
        return labels, scores


def packed(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    row: Sequence[int],
    classes: int,
    probabilities: bool,
    opsets: dict[str, int] = OPSETS,
    task: Kind = "multiclass",
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
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

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
            helper.make_tensor_value_info("label", *_label_of(task, classes)),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, classes]),
        ],
        list(weights),
    )
    versions = [helper.make_opsetid(domain, version) for domain, version in sorted(opsets.items())]
    model = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, producer_name="limbeck")
    kind = {} if task == "multiclass" else {TASK: task}
    helper.set_model_props(model, {SCORES: "probability" if probabilities else "vote", **kind})
    return bytes(model.SerializeToString(deterministic=True))


def _label_of(task: Kind, classes: int) -> tuple[int, list[int | None]]:
    """Type and shape of the output `label`."""
    if task == "regression":
        return TensorProto.FLOAT, [None]
    return TensorProto.INT64, [None, classes] if task == "multilabel" else [None]


def number_outputs(values: str, task: Kind) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes that make the outputs of a packed model from numbers, limited to [0, 1].

    Parameters
    ----------
    values : str
        Name of the numbers, float32 of shape (rows, classes).
    task : {"multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    tuple of lists
        The nodes, and their constants.
    """
    constants = [
        numpy_helper.from_array(np.array(limit, np.float32), f"limit.{name}")
        for name, limit in (("low", 0.0), ("middle", 0.5), ("high", 1.0))
    ]
    nodes = [helper.make_node("Clip", [values, "limit.low", "limit.high"], ["scores"])]
    if task == "multilabel":
        nodes.append(helper.make_node("Greater", ["scores", "limit.middle"], ["limit.above"]))
        nodes.append(helper.make_node("Cast", ["limit.above"], ["label"], to=TensorProto.INT64))
        return nodes, constants
    constants.append(numpy_helper.from_array(np.array([-1], np.int64), "limit.flat"))
    return [*nodes, helper.make_node("Reshape", ["scores", "limit.flat"], ["label"])], constants


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


def in_range(data: bytes, low: float, high: float) -> bytes:
    """Let a packed model of numbers predict `label` in the unit of the target; `scores` stay in [0, 1].

    Parameters
    ----------
    data : bytes
        Packed model for regression.
    low, high : float
        Range of the target.

    Returns
    -------
    bytes
        The model.
    """
    model = onnx.load_from_string(data)
    graph = model.graph
    for node in graph.node:
        node.output[:] = ["label.scaled" if name == "label" else name for name in node.output]
        node.input[:] = ["label.scaled" if name == "label" else name for name in node.input]
    graph.node.append(helper.make_node("Mul", ["label.scaled", "label.width"], ["label.wide"]))
    graph.node.append(helper.make_node("Add", ["label.wide", "label.low"], ["label"]))
    graph.initializer.append(numpy_helper.from_array(np.array(high - low, np.float32), "label.width"))
    graph.initializer.append(numpy_helper.from_array(np.array(low, np.float32), "label.low"))
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
    renamed(graph, {graph.input[0].name: "rows"})
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


def renamed(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Number all values of a graph in order of appearance; converters name them by a counter of the process.

    Parameters
    ----------
    graph : GraphProto
        The graph, which is changed.
    names : dict of str to str
        Names that are given; the others are added.
    """

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
                renamed(attribute.g, names)
    del graph.value_info[:]
