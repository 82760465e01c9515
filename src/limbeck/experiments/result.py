"""The result of a run: fitted models that predict, and the record."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.atomic_files import AtomicFile
from limbeck.data.arrays import as_float, check_finite, rows_from
from limbeck.data.columns import Number
from limbeck.data.files import is_frame, read_table, table_of
from limbeck.data.own import ARRAYS
from limbeck.data.schema import Schema
from limbeck.data.sets import file_of_texts, rows_in
from limbeck.data.table import Table
from limbeck.data.tokens import as_texts
from limbeck.errors import LimbeckError, path_given, reading
from limbeck.experiments.brief import facts_of, html_of, line_of, listed
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import OwnerRecord, RunRecord
from limbeck.experiments.thresholds import check_threshold, labels_above, threshold_of
from limbeck.models.onnx import TASK, PackedModel, in_range, with_metadata
from limbeck.protocol.rows import Array
from limbeck.protocol.task import MULTICLASS, Task

CLASSES, SCHEMA, ROW = "limbeck.classes", "limbeck.schema", "limbeck.row"  # metadata keys in a model's file
RANGE = "limbeck.range"  # metadata key: range of a numeric target


class Predictor:
    """A fitted model that predicts what users know: class names, several labels a row, or numbers.

    `FinishedRun.model` is one, and `load` reads one from a file.

    Parameters
    ----------
    onnx : bytes
        The model as ONNX, which predicts class numbers, several labels a row, or numbers in the target's unit.
    classes : array of shape (classes,)
        The class names, in the order of the class numbers.
    row : tuple of int
        The shape of one row.
    schema : Schema or None
        The columns of the tables, or the texts, that the model was trained on; None for arrays.
    task : Task
        Kind of the labels.
    method : str
        Name of the algorithm that made the model; empty if it was read from a file.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=2, cluster_std=0.1, random_state=0)
    >>> model = lb.run("centralized", [(X, y)], models="decision-tree", processes=1).model
    >>> model
    <Predictor centralized: 2 classes, 2 columns>
    >>> model.predict_proba(X[:1]).sum(axis=1)
    array([1.])
    """

    def __init__(
        self,
        onnx: bytes,
        classes: Array,
        row: tuple[int, ...],
        schema: Schema | None = None,
        task: Task = MULTICLASS,
        method: str = "",
    ) -> None:
        self.method = method
        self.classes_ = classes
        self.task = task
        self.row = row
        self.schema = schema
        self.packed = PackedModel(onnx)

    def __repr__(self) -> str:
        return f"<{f'Predictor {self.method}'.strip()}: {self._labels}, {self._columns}>"

    def _repr_html_(self) -> str:
        names = "target" if self.task.kind == "regression" else "classes"
        facts = {names: listed(self.classes_.tolist()), "rows": self._columns}
        return html_of(f"Model of {self.method}" if self.method else "Model", facts)

    @property
    def _labels(self) -> str:
        if self.task.kind == "regression":
            return f"a number from {self.task.low:g} to {self.task.high:g}"
        return f"{len(self.classes_)} {'labels' if self.task.kind == 'multilabel' else 'classes'}"

    @property
    def _columns(self) -> str:
        if self.schema is not None and self.schema.text is not None:
            return "texts"
        if self.schema is not None:
            return f"{len(self.schema.columns)} columns"
        return f"{self.row[0]} columns" if len(self.row) == 1 else f"rows of shape {self.row}"

    @property
    def onnx(self) -> bytes:
        """The model as ONNX."""
        return self.packed.data

    def predict_both(self, x: Any, threshold: float | None = None) -> tuple[Array, Array | None]:
        """Predict labels and probabilities.

        Parameters
        ----------
        x : array of shape (rows, ...), sequence of str, str or Path
            The rows, the texts, or a file of rows or texts.
        threshold : float or None
            The probability from which the second of two classes, or one of several labels, is predicted; None means
            the model's own prediction.

        Returns
        -------
        labels : array of shape (rows,) or (rows, classes)
            The class names; with several labels a row 1 or 0 for each class; or numbers.
        probabilities : array of shape (rows, classes) or None
            The probabilities; None if the model has none.
        """
        if threshold is not None:
            threshold_of(threshold, None)  # raises if it is no probability
            check_threshold(self.task.kind, len(self.classes_), self.packed.has_probabilities)
        return self._named(*self.numbered(self.encoded(x), threshold))

    def numbered(self, rows: Array, threshold: float | None = None) -> tuple[Array, Array | None]:
        """Predict class numbers instead of names; the rows are encoded, the threshold is checked."""
        labels, scores = self.packed.run(rows)
        has_scores = self.packed.has_probabilities if self.task.is_multiclass else self.task.kind == "multilabel"
        if threshold is not None:
            labels = labels_above(scores, threshold, self.task.kind)
        return labels, scores if has_scores else None

    def _named(self, labels: Array, scores: Array | None) -> tuple[Array, Array | None]:
        if not self.task.is_multiclass:
            return labels, None if scores is None else np.clip(scores, 0.0, 1.0, dtype=np.float64)
        return self.classes_[labels], None if scores is None else shares(scores)

    def predict(self, x: Any, threshold: float | None = None) -> Array:
        """Predict class names, several labels a row, or numbers.

        Parameters
        ----------
        x : array of shape (rows, ...), sequence of str, str or Path
            The rows, the texts, or a file of rows or texts.
        threshold : float or None
            The probability from which the second of two classes, or one of several labels, is predicted; None means
            the model's own prediction.

        Returns
        -------
        array of shape (rows,) or (rows, classes)
            The class names; with several labels a row 1 or 0 for each class; or numbers.

        Raises
        ------
        LimbeckError
            If the rows do not fit the model, or a threshold is not possible.
        """
        return self.predict_both(x, threshold)[0]

    def predict_proba(self, x: Any) -> Array:
        """Predict probabilities.

        Parameters
        ----------
        x : array of shape (rows, ...), sequence of str, str or Path
            The rows, the texts, or a file of rows or texts.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities, in the order of `classes_`.

        Raises
        ------
        LimbeckError
            If the model has no probabilities.
        """
        scores = self.predict_both(x)[1]
        if self.task.kind == "regression":
            raise LimbeckError("this model predicts numbers and has no probabilities; use predict")
        if scores is None:
            raise LimbeckError("this model predicts classes by a vote and has no probabilities; use predict")
        return scores

    def votes(self, x: Any) -> Array:
        """Predict probabilities, or 1 for the predicted class if the model has none.

        Parameters
        ----------
        x : array of shape (rows, ...), sequence of str, str or Path
            The rows, the texts, or a file of rows or texts.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities.
        """
        labels, scores = self.predict_both(x)
        return np.equal.outer(labels, self.classes_).astype(np.float64) if scores is None else scores

    def save(self, path: str | Path) -> None:
        """Write the model to an ONNX file, which `load` reads."""
        with AtomicFile(path_given(path, "path")) as file:
            file.write(self.onnx)

    def table(self, x: Any) -> Table | None:
        """Read a table of rows.

        Parameters
        ----------
        x : str, Path, Table, or a table of pandas, polars or pyarrow
            The rows.

        Returns
        -------
        Table or None
            The table; None for rows of a model that was trained on arrays or texts.
        """
        if isinstance(x, Table):
            return x
        if is_frame(x):
            return table_of(x, "X").decided()
        is_path = isinstance(x, Path) or (isinstance(x, str) and (self.schema is None or Path(x).suffix != ""))
        return read_table(Path(x)) if is_path and Path(x).suffix.lower() not in ARRAYS else None

    def encoded(self, x: Any) -> Array:
        """Read rows, texts, a table or a file as the numbers that the model takes."""
        text = self.schema.text if self.schema else None
        if (table := self.table(x)) is not None:
            return self.schema.encode(table) if self.schema else self._plain_table(table)
        if self.schema is not None and text is None:
            names = ", ".join(column.name for column in self.schema.columns[:5])
            raise LimbeckError(
                f"predict: the model was trained on tables with the columns {names}, ...: give a table of pandas, "
                "polars or pyarrow, or a file"
            )
        if not isinstance(x, str | Path):
            if (texts := as_texts(x)) is not None:
                if text is None:
                    raise LimbeckError("predict: the model was not trained on texts; give rows of numbers")
                return text.rule.encode(texts)
            rows = rows_from(x, "X")
            if np.prod(rows.shape[1:]) != np.prod(self.row):
                raise LimbeckError(f"X: rows have the shape {rows.shape[1:]}, the model needs {self.row}")
            return rows
        path = Path(x)
        if text is not None and isinstance(x, str) and not path.suffix:
            raise LimbeckError(f"predict: for texts, give a list of them, such as [{x[:40]!r}], or a file")
        found = file_of_texts(path, text.length) if text and path.suffix.lower() == ".npz" and path.is_file() else None
        if text is not None and found is not None:
            return text.rule.encode(found)
        rows = rows_in(path)
        if rows.shape[1:] != self.row:
            raise LimbeckError(f"{path} has rows of shape {rows.shape[1:]}, the model needs shape {self.row}")
        check_finite(rows, str(path))
        return as_float(rows)

    def _plain_table(self, table: Table) -> Array:
        """Read a table by the order of its columns, for a model that was trained on arrays, which has no names."""
        rows = Schema(tuple(Number(name, np.nan) for name in table.columns), "", ()).encode(table)
        if rows.shape[1:] != self.row:
            raise LimbeckError(f"{table.where} has rows of shape {rows.shape[1:]}, the model needs shape {self.row}")
        check_finite(rows, table.where)
        return rows


def load(path: str | Path) -> Predictor:
    """Load a model from a file that a run wrote.

    Parameters
    ----------
    path : str or Path
        The ONNX file, for example `model.onnx` in a run's folder.

    Returns
    -------
    Predictor
        The model, with its class names and the columns of its tables.

    Raises
    ------
    LimbeckError
        If the file cannot be read, or was not written by a run.

    Examples
    --------
    >>> import tempfile
    >>> import limbeck as lb
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=2, cluster_std=0.1, random_state=0)
    >>> names = np.array(["no", "yes"])[y]
    >>> model = lb.run(lb.Centralized(), [(X[:30], names[:30]), (X[30:], names[30:])], models="decision-tree").model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder, "model.onnx"))
    ...     loaded = lb.load(Path(folder, "model.onnx"))
    >>> loaded.classes_.tolist(), bool((loaded.predict(X) == names).all())
    (['no', 'yes'], True)
    """
    file = path_given(path, "path")
    with reading(file):
        onnx = file.read_bytes()
    try:
        metadata = PackedModel(onnx).metadata
    except LimbeckError as error:
        raise LimbeckError(f"{path}: {error}") from error
    if CLASSES not in metadata:
        raise LimbeckError(f"{path} has no class names: it is not a model that a run wrote")
    schema = Schema.from_json(metadata[SCHEMA], str(path)) if SCHEMA in metadata else None
    row, limits = tuple(json.loads(metadata[ROW])), json.loads(metadata.get(RANGE, "[]"))
    task = Task(metadata.get(TASK, "multiclass"), *limits)  # type: ignore[arg-type]
    return Predictor(onnx, np.array(json.loads(metadata[CLASSES])), row, schema, task)


def labelled(
    onnx: bytes, classes: Array, row: tuple[int, ...], schema: Schema | None, task: Task = MULTICLASS
) -> bytes:
    """Add the class names, the shape of a row and the schema to the metadata of a model.

    A model of numbers then predicts them in the target's unit.

    Parameters
    ----------
    onnx : bytes
        The model as ONNX.
    classes : array of shape (classes,)
        The class names.
    row : tuple of int
        The shape of one row.
    schema : Schema or None
        The columns of the tables that the model was trained on.
    task : Task
        Kind of the labels.

    Returns
    -------
    bytes
        The model as ONNX with metadata.
    """
    metadata = {CLASSES: json.dumps(classes.tolist()), ROW: json.dumps(row)}
    if task.kind == "regression":
        metadata[RANGE] = json.dumps([task.low, task.high])
        onnx = in_range(onnx, task.low, task.high)
    return with_metadata(onnx, metadata | ({SCHEMA: schema.to_json()} if schema else {}))


def shares(scores: Array) -> Array:
    """Turn the scores of a model, which are probabilities up to rounding, into numbers that sum to 1.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        float32 probabilities.

    Returns
    -------
    float64 array of shape (rows, classes)
        Probabilities in [0, 1].

    Examples
    --------
    >>> shares(np.array([[1.00000012, 0.0]], np.float32)).tolist()
    [[1.0, 0.0]]
    """
    limited = np.clip(scores, 0.0, 1.0, dtype=np.float64)
    total = limited.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(limited, total, out=limited, where=total > 0))


@dataclass(frozen=True, slots=True, repr=False)
class FinishedRun:
    """What a run gives: its models and its record. In Python, `limbeck.Result` adds what people want to see of it.

    Parameters
    ----------
    model : Predictor or None
        The final model; None if every party ends with a model of its own.
    models : mapping of int to Predictor
        The parties' own models by party number; empty if there is a final model.
    record : RunRecord
        The record of the run; that of a real run has only public and released facts.
    owner : OwnerRecord or None
        What only the owner of the rows may see; None for a simulation.
    ledger : Path or None
        The ledger's file, which may hold other runs too; None if the ledger was in memory.
    """

    model: Predictor | None
    models: Mapping[int, Predictor]
    record: RunRecord
    owner: OwnerRecord | None = None
    ledger: Path | None = None

    def __repr__(self) -> str:
        return line_of(type(self).__name__, facts_of(self.record, self.metrics))

    def _repr_html_(self) -> str:
        return html_of(f"Run, seed {self.record.seed}", facts_of(self.record, self.metrics))

    @property
    def metrics(self) -> Metrics | None:
        """The metrics on the test rows, also if the record withholds them; None without test rows."""
        return self.owner.metrics if self.owner else self.record.metrics

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the test rows, from 0 to 1; None without test rows."""
        return self.metrics.accuracy if self.metrics else None

    def files(self) -> dict[str, bytes]:
        """The files of the run's folder: models, record, and for a real run the owner's record.

        Returns
        -------
        dict of str to bytes
            The content of each file by its relative path.
        """
        own = {f"models/party-{party}.onnx": model.onnx for party, model in self.models.items()}
        final = {"model.onnx": self.model.onnx} if self.model else own
        owner = {"owner.json": self.owner.to_json().encode()} if self.owner else {}
        return {**final, "record.json": self.record.to_json().encode(), **owner}
