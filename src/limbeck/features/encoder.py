"""Features from a frozen network of the user: principal components of its standardized outputs.

The network runs on one row at a time: floating-point sums depend on the size of a batch. Its outputs then go through
exact arithmetic, as those of the other maps. Whatever a network computes, the vector of a row depends on that row alone
and is at most 1 long. A row for which the network fails, or has outputs that are not finite, gets the vector of rows
that are not finite. This holds at each site for its own rows, so that no private row causes an error.

A sentence encoder takes token numbers. It gets each row without the padding at its end: a short text is quick. What a
text costs therefore depends on its number of tokens, and on nothing else in it.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from joblib import cpu_count
from onnx import ModelProto, TensorProto, compose, helper

from limbeck.errors import LimbeckError
from limbeck.features.columns import Arrays, fit_standard
from limbeck.features.graph import ROWS, Graph, of_length_one, projected, standardized
from limbeck.features.network_rules import check_network, input_of
from limbeck.models.inspection import Limits, inspect, limit_process, run_child, run_limited
from limbeck.protocol.rows import Array

ENCODER, NETWORK = "encoder", "network"  # kind of the map, and the array with the bytes of the ONNX file
SENTENCES = "sentence-encoder"  # kind of the map of an encoder of token numbers
PREFIX = "encoder."
MAX_OUTPUTS = 2**16  # of a network, for one row
COMPARED = 32  # public rows that are run in one batch and one at a time
TOLERANCE = 1e-3  # relative difference between both that is rounding
ALIGNED = 64  # bytes


@dataclass(frozen=True)
class Encoder:
    """Network that maps one row to a vector. It is checked before its first use.

    Parameters
    ----------
    data : bytes
        ONNX model with one input, of float32 rows. The first output is used, as a vector.
    row : tuple of int
        Shape of a row.
    of_tokens : bool
        Whether rows are token numbers, which the network gets without padding.
    """

    data: bytes
    row: tuple[int, ...]
    of_tokens: bool = False

    @cached_property
    def session(self) -> Any:
        """Session of onnxruntime; raises LimbeckError if the network is not allowed."""
        from onnxruntime import InferenceSession, SessionOptions

        inspect(self.data)
        check_network(onnx.load_from_string(self.data), self.row)
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # no log line says for how many rows a network fails
        try:
            return InferenceSession(self.data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's types have no common base
            raise LimbeckError(f"not a usable ONNX model: {' '.join(str(error).split())[:120]}") from error

    @cached_property
    def width(self) -> int:
        """Number of outputs for one row."""
        found = self.in_batch(np.zeros((1, *self.row), np.float32))
        if found.dtype.kind != "f" or not 0 < found.size <= MAX_OUTPUTS:
            raise LimbeckError(
                f"its first output has {found.size} values of type {found.dtype}; 1 to {MAX_OUTPUTS} floats are allowed"
            )
        return found.size

    def in_batch(self, rows: Array) -> Array:
        """Return the outputs for a batch of rows."""
        _ = self.session
        try:
            return np.asarray(self._run(np.ascontiguousarray(rows, np.float32)))
        except Exception as error:  # onnxruntime's types have no common base
            raise LimbeckError(f"it fails on {len(rows)} rows: {' '.join(str(error).split())[:120]}") from error

    def outputs(self, x: Array) -> Array:
        """Return the outputs for each row, run by itself.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Raw rows.

        Returns
        -------
        array of shape (rows, width)
            Outputs in float32; NaN for rows that are not finite, and where the network fails.
        """
        found = np.full((len(x), self.width), np.nan, np.float32)
        rows = np.asarray(x, np.float32).reshape(len(x), *self.row)
        finite = np.flatnonzero(np.isfinite(rows.reshape(len(x), -1)).all(axis=1))
        threads = max(1, min(cpu_count(), len(finite)))
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda first: self._write(found, rows, finite[first::threads]), range(threads)):
                pass
        return found

    def _write(self, found: Array, rows: Array, numbers: Iterable[int]) -> None:
        """Write the outputs for the rows of these numbers."""
        for number in numbers:
            row = rows[number]
            if self.of_tokens:
                row = row[: max(1, int(np.flatnonzero(row).max(initial=0)) + 1)]
            one = _aligned((1, *row.shape))
            one[0] = row
            found[number] = self._outputs_of(one)

    def _outputs_of(self, one: Array) -> Array | float:
        try:
            with np.errstate(over="ignore"):
                values = np.asarray(self._run(one)).astype(np.float32).ravel()
        except Exception:  # a private row must not cause an error
            return np.nan
        return values if values.size == self.width else np.nan

    def _run(self, rows: Array) -> Any:
        entry, output = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name
        return self.session.run([output], {entry: rows})[0]


def fit_encoder(x: Array, number: int, network: bytes, of_tokens: bool = False) -> Arrays:
    """Fit the standardization and the principal components of a network's outputs for public rows.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Public rows.
    number : int
        Number of features; those that the outputs do not have are 0.
    network : bytes
        ONNX model.
    of_tokens : bool
        Whether rows are token numbers.

    Returns
    -------
    dict of str to array
        `network`, and the arrays of `fit_standard`.

    Raises
    ------
    LimbeckError
        If the network is not allowed, or its outputs are not finite or depend on the other rows of a batch.
    """
    encoder = Encoder(network, x.shape[1:], of_tokens)
    outputs = encoder.outputs(x)
    if bad := int((~np.isfinite(outputs)).any(axis=1).sum()):
        raise LimbeckError(f"its outputs are not finite for {bad} of {len(x)} public rows; they must be finite numbers")
    for size in (2, COMPARED):
        _check_batch(encoder, x[:size], outputs[:size])
    return {NETWORK: np.frombuffer(network, np.uint8), **fit_standard(outputs, 0, number)}


def _check_batch(encoder: Encoder, x: Array, single: Array) -> None:
    """Raise unless the outputs of rows in a batch are those of the single rows, but for rounding."""
    in_batch = encoder.in_batch(x)
    if in_batch.size != single.size:
        raise LimbeckError(
            f"it has {in_batch.size} outputs for {len(x)} rows, and {encoder.width} for one row: export it with a "
            "variable number of rows"
        )
    size = np.abs(single).max(axis=0) + 0.1 * float(np.abs(single).max())
    if not (np.abs(in_batch.reshape(single.shape) - single) <= TOLERANCE * size).all():
        raise LimbeckError(
            "its outputs for a row depend on the other rows of the batch, as with batch statistics: call eval() on the "
            "network before it is exported"
        )


def encoder_graph(arrays: Arrays, row: tuple[int, ...], of_tokens: bool = False) -> ModelProto:
    """Return the graph of `fit_encoder`, with the network in it. Outputs that are not finite count as 0.

    Parameters
    ----------
    arrays : dict of str to array
        Result of `fit_encoder`.
    row : tuple of int
        Shape of a row.
    of_tokens : bool
        Whether rows are token numbers. The padding at the end of the longest row of a batch is then cut off.
    """
    network = compose.add_prefix(onnx.load_from_string(arrays[NETWORK].tobytes()), PREFIX)
    graph = Graph(row)
    entry = _without_padding(graph, row[0]) if of_tokens else ROWS
    graph.nodes += [helper.make_node("Identity", [entry], [input_of(network).name]), *network.graph.node]
    graph.weights += network.graph.initializer
    outputs = graph.add("Flatten", graph.add("Cast", network.graph.output[0].name, to=TensorProto.FLOAT))
    finite = graph.add("LessOrEqual", graph.add("Abs", outputs), np.finfo(np.float32).max)
    known = graph.add("Where", finite, outputs, np.float32(0))
    whole = standardized(graph, known, arrays["mean"], arrays["scale"])
    found, _ = projected(graph, whole, arrays["components"])
    of_length_one(graph, found, arrays["largest"].item() * 2.0**30, arrays["components"].shape[1])
    model = graph.model()
    model.opset_import[0].version = max(each.version for each in network.opset_import if each.domain in ("", "ai.onnx"))
    return model


def _without_padding(graph: Graph, length: int) -> str:
    """Add the nodes that cut off what is padding in all rows of a batch; one token remains at least."""
    there = graph.add("Cast", graph.add("Not", graph.add("Equal", ROWS, np.float32(0))), to=TensorProto.INT64)
    last = graph.add("ReduceMax", graph.add("Mul", there, np.arange(1, length + 1)), keepdims=0)
    used = graph.add("Max", last, np.array([1]))
    return graph.add("Slice", ROWS, np.array([0]), used, np.array([1]))


@lru_cache(maxsize=2)
def try_network(network: bytes, row: tuple[int, ...], of_tokens: bool = False) -> None:
    """Run a network from another site on a row of zeros, in a limited child process.

    A network of token numbers is run on rows of every length: no length of a private text may crash it.

    Parameters
    ----------
    network : bytes
        ONNX model.
    row : tuple of int
        Shape of a row.
    of_tokens : bool
        Whether rows are token numbers.

    Raises
    ------
    LimbeckError
        If the network is not allowed, fails, or exceeds a limit.
    """
    run_limited(__name__, [network], np.zeros((1, *row), np.float32), Limits(), *(["tokens"] if of_tokens else []))


def _trial(folder: Path, limits: Limits, rest: list[str]) -> None:
    """In the child process: check the network, and run it."""
    rows, [network] = limit_process(folder, limits)
    encoder = Encoder(network, rows.shape[1:], bool(rest))
    width = encoder.width
    for length in range(1, rows.shape[1]) if rest else ():
        if encoder.in_batch(np.ones((1, length), np.float32)).size != width:
            raise LimbeckError(f"it has another number of outputs for {length} tokens than for {rows.shape[1]}")


def _aligned(shape: tuple[int, ...]) -> Array:
    """Array at a fixed alignment: with another one, sums may have another order."""
    size = int(np.prod(shape)) * 4
    memory = np.zeros(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    return memory[start : start + size].view(np.float32).reshape(shape)


if __name__ == "__main__":
    run_child(_trial)
