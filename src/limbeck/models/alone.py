"""Predictions of rows one at a time, with a model from another site: no row changes the prediction of another row.

A model gets batches of one row, because a graph may compute with several rows together. A row that the model cannot
predict gets a fixed prediction in place of its own. In a real run all this happens in a child process with limited
memory, and limited time for each row. If a row ends that process, another one continues with the next row.
"""

import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.inspection import Limits, inspect, limit_memory, quiet_environment
from limbeck.models.onnx import PackedModel, check_answers
from limbeck.protocol.rows import Array

LIMITS = Limits(seconds=10.0)  # of a row
READY = b"ready\n"
HEADER = "<QQQ"  # bytes of the model, values of a row, classes
MAX_VALUES = 2**26  # of the rows of one process: they are copied in memory
START = 60.0  # seconds in which the process must start


class _Forgetful(PackedModel):
    """Packed model that gives back all memory after each row."""

    keeps_memory = False


@dataclass(frozen=True, slots=True)
class PredictAlone:
    """Job that predicts rows one at a time.

    Parameters
    ----------
    packed : bytes
        Packed model for one class a row.
    asked : array of shape (rows, ...)
        Rows to predict.
    limited : bool
        Whether the model runs in a limited child process.

    Examples
    --------
    >>> from limbeck.models.constant import Constant
    >>> job = PredictAlone(Constant(label=1, classes=2, features=3).pack(), np.zeros((2, 3)), limited=False)
    >>> labels, scores = job.run(classes=2, seed=0)
    >>> labels.tolist(), scores.tolist()
    ([1, 1], [[0.0, 1.0], [0.0, 1.0]])
    """

    packed: bytes
    asked: Array
    limited: bool

    def __str__(self) -> str:
        return f"a packed model, asked about {len(self.asked)} rows one at a time"

    def run(self, classes: int, seed: int) -> tuple[Array, Array]:
        """Labels of shape (rows,) and scores of shape (rows, classes)."""
        rows = np.asarray(self.asked, np.float32)
        if self.limited:
            return predict_limited(self.packed, rows, classes)
        model = PackedModel(self.packed)
        _ = model.session  # a file that is no model is an error; rows are not
        return _joined([_one(model, row, classes) for row in rows], classes)

    def substitute(self, classes: int, seed: int, number: int) -> tuple[Array, Array]:
        """Result in place of a failed job: the fixed prediction for every row."""
        return _joined([_fixed(classes)] * len(self.asked), classes)


def predict_limited(model: bytes, rows: Array, classes: int, limits: Limits = LIMITS) -> tuple[Array, Array]:
    """Predict rows one at a time in a limited child process.

    Parameters
    ----------
    model : bytes
        Packed model from another site.
    rows : float32 array of shape (rows, ...)
        Rows.
    classes : int
        Number of classes.
    limits : Limits
        Limits of the model's size, of the memory, and of the time for each row.

    Returns
    -------
    labels : array of shape (rows,)
        Predicted classes.
    scores : array of shape (rows, classes)
        Probabilities.

    Raises
    ------
    LimbeckError
        If the model is not a packed model of allowed operators. No row has then been read.
    """
    found: list[tuple[int, Array]] = []
    step = max(1, MAX_VALUES // max(1, math.prod(rows.shape[1:])))
    while len(found) < len(rows):
        part = rows[len(found) : len(found) + step]
        predicted = list(_in_child(model, part, classes, limits))
        ended_early = len(predicted) < len(part)  # by the next row
        found += [*predicted, *([_fixed(classes)] if ended_early else [])]
    return _joined(found, classes)


def _in_child(model: bytes, rows: Array, classes: int, limits: Limits) -> Iterator[tuple[int, Array]]:
    """Predictions of the first rows, as far as one process gets. The rows are written to no file."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    header = struct.pack(HEADER, len(model), flat.shape[1], classes)
    command = [sys.executable, "-m", __name__, str(limits.bytes), str(limits.memory), str(limits.seconds)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen(command, env=quiet_environment(), stderr=subprocess.DEVNULL, **pipes) as child:
        try:
            output, _ = child.communicate(header + model + flat.tobytes(), START + limits.seconds * len(rows))
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
    if not output.startswith(READY):
        reason = output.decode(errors="replace").strip()[:200] or "it fails, or needs too much memory"
        raise LimbeckError(f"the model cannot be used: {reason}")
    size, answers = 8 + 4 * classes, output[len(READY) :]
    for start in range(0, len(answers) - size + 1, size):
        (label,) = struct.unpack_from("<q", answers, start)
        yield label, np.frombuffer(answers, "<f4", classes, start + 8)


def _one(model: PackedModel, row: Array, classes: int) -> tuple[int, Array]:
    """Prediction of one row; the fixed one if the model fails, or its answer is not valid."""
    try:
        labels, scores = model.run(row[None])
        check_answers(labels, scores, 1, classes)
    except (LimbeckError, MemoryError):
        return _fixed(classes)
    return int(labels[0]), np.asarray(scores[0], np.float32)


def _fixed(classes: int) -> tuple[int, Array]:
    return 0, np.full(classes, 1 / classes, np.float32)


def _joined(found: list[tuple[int, Array]], classes: int) -> tuple[Array, Array]:
    labels = np.array([label for label, _ in found], np.int64)
    return labels, np.array([scores for _, scores in found], np.float32).reshape(len(found), classes)


def _serve(source: BinaryIO, target: BinaryIO, limits: Limits) -> None:
    """In the child process: read a model and rows, and write the prediction of each row before the next is read."""
    size, values, classes = struct.unpack(HEADER, source.read(struct.calcsize(HEADER)))
    data = source.read(size)
    limit_memory(limits)
    _allow(START)
    inspect(data, limits)
    model = _Forgetful(data)
    _ = model.session
    target.write(READY)
    target.flush()
    while len(row := source.read(4 * values)) == 4 * values and values:
        _allow(limits.seconds)
        label, scores = _one(model, np.frombuffer(row, "<f4"), classes)
        target.write(struct.pack("<q", label) + scores.astype("<f4").tobytes())
        target.flush()


def _allow(seconds: float) -> None:
    """Allow this process so much more processor time; beyond it the system ends the process."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (until if most == resource.RLIM_INFINITY else min(until, most), most))


if __name__ == "__main__":
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer, Limits(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
    except Exception as error:  # a model from another site may cause any error
        sys.stdout.write(f"{error or type(error).__name__}\n")
        sys.exit(1)
