"""What a run gives back to its user."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.atomic_files import AtomicFile
from limbeck.data.files import read_table
from limbeck.data.own import ARRAYS
from limbeck.data.schema import Number, Schema
from limbeck.data.sets import as_float, check_finite, rows_in
from limbeck.errors import LimbeckError, reading
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import OwnerRecord, RunRecord
from limbeck.models.onnx import PackedModel, with_metadata
from limbeck.protocol.rows import Array

CLASSES, SCHEMA, ROW = "limbeck.classes", "limbeck.schema", "limbeck.row"  # metadata keys of a model's file


class Classifier:
    """A final model that speaks the users' own class names, and knows the columns of the tables it learned from."""

    def __init__(self, onnx: bytes, classes: Array, row: tuple[int, ...], schema: Schema | None = None) -> None:
        self.classes_ = classes
        self.row = row
        self.schema = schema
        self.packed = PackedModel(onnx)

    @property
    def onnx(self) -> bytes:
        return self.packed.data

    def predict_both(self, x: Any) -> tuple[Array, Array | None]:
        """Class names and, where the model has them, probabilities: of rows or of a file of rows."""
        labels, scores = self.packed.run(self._rows(x))
        return self.classes_[labels], scores if self.packed.has_probabilities else None

    def predict(self, x: Any) -> Array:
        """Class names, of rows or of a file of rows."""
        return self.predict_both(x)[0]

    def predict_proba(self, x: Any) -> Array:
        """[rows, classes] in the order of `classes_`."""
        scores = self.predict_both(x)[1]
        if scores is None:
            raise LimbeckError("this model votes, but has no probabilities")
        return scores

    def save(self, path: str | Path) -> None:
        with AtomicFile(Path(path)) as file:
            file.write(self.onnx)

    def _rows(self, x: Any) -> Array:
        if not isinstance(x, str | Path):
            rows = as_float(np.asarray(x))
            check_finite(rows, "predict")
            return rows
        path = Path(x)
        if self.schema is not None:
            return self.schema.encode(read_table(path))
        rows = as_float(rows_in(path)) if path.suffix.lower() in ARRAYS else self._plain_table(path)
        if rows.shape[1:] != self.row:
            raise LimbeckError(f"{path} has rows of shape {rows.shape[1:]}, the model takes {self.row}")
        check_finite(rows, str(path))
        return rows

    def _plain_table(self, path: Path) -> Array:
        """Numbers in the order of the columns, for a model that learned from arrays without names."""
        table = read_table(path)
        return Schema(tuple(Number(name, np.nan) for name in table.columns), "", ()).encode(table)


def load(path: str | Path) -> Classifier:
    """The model in a file that a run wrote."""
    with reading(Path(path)):
        onnx = Path(path).read_bytes()
    try:
        metadata = PackedModel(onnx).metadata
    except LimbeckError as error:
        raise LimbeckError(f"{path}: {error}") from error
    if CLASSES not in metadata:
        raise LimbeckError(f"{path} does not name its classes: it is not a model that a run wrote")
    schema = Schema.from_json(metadata[SCHEMA], str(path)) if SCHEMA in metadata else None
    return Classifier(onnx, np.array(json.loads(metadata[CLASSES])), tuple(json.loads(metadata[ROW])), schema)


def labelled(onnx: bytes, classes: Array, row: tuple[int, ...], schema: Schema | None) -> bytes:
    """A model that carries its class names, the shape of its rows and its schema."""
    metadata = {CLASSES: json.dumps(classes.tolist()), ROW: json.dumps(row)}
    return with_metadata(onnx, metadata | ({SCHEMA: schema.to_json()} if schema else {}))


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gives: one `model`, or one in `models` for each party that has its own; and the record.

    The record of a real run can be passed on; the rest is in `owner`, which is None for a simulation.
    """

    model: Classifier | None
    models: Mapping[int, Classifier]
    record: RunRecord
    owner: OwnerRecord | None = None

    @property
    def metrics(self) -> Metrics | None:
        """For whoever holds the rows: also where the record withholds them."""
        return self.owner.metrics if self.owner else self.record.metrics

    @property
    def accuracy(self) -> float | None:
        return self.metrics.accuracy if self.metrics else None

    def files(self) -> dict[str, bytes]:
        """The run's folder: the models as ONNX, the record, and the owner's record of a real run."""
        own = {f"models/party-{party}.onnx": model.onnx for party, model in self.models.items()}
        final = {"model.onnx": self.model.onnx} if self.model else own
        owner = {"owner.json": self.owner.to_json().encode()} if self.owner else {}
        return {**final, "record.json": self.record.to_json().encode(), **owner}
