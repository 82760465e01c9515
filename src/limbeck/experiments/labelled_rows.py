"""Rows with labels, on which a fitted model is evaluated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.arrays import read_arrays
from limbeck.data.columns import Number
from limbeck.data.files import is_frame, read_table, table_of
from limbeck.data.label_columns import labels_of
from limbeck.data.labels import check_numbers, check_several
from limbeck.data.own import ARRAYS, rows_of, with_label
from limbeck.data.reading import reading_in
from limbeck.data.schema import Schema
from limbeck.data.table import Table
from limbeck.data.texts import with_tokens
from limbeck.errors import LimbeckError, located
from limbeck.experiments.result import Predictor
from limbeck.protocol.rows import Array


def labelled_rows(
    model: Predictor, given: Any, label: str | None = None, reading: Mapping[str, Any] | None = None
) -> tuple[Array, Array]:
    """Read the rows that a model is evaluated on.

    Parameters
    ----------
    model : Predictor
        The model.
    given : str, Path, table or (X, y)
        A table with labels, an NPZ file (its test rows, if it has any), or arrays.
    label : str or None
        The column of a table that has the labels; None means that of the model.
    reading : mapping or None
        How a table's file is read, as in `[data.reading]`.

    Returns
    -------
    x : array of shape (rows, ...)
        Rows as the model takes them.
    y : array
        Class numbers; several labels a row as 1, 0 and -1 (unknown); or numbers in the target's unit.

    Raises
    ------
    LimbeckError
        If the rows do not fit the model, or have no labels or other ones.
    """
    if is_frame(given):
        return _of_table(model, table_of(given, "rows").decided(), label)
    if not isinstance(given, str | Path):
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise LimbeckError("evaluate: give a file, a table with labels, or a pair (X, y)")
        x, y = given
        return _pair(model, x, y, "evaluate")
    path = Path(given)
    if path.suffix.lower() not in ARRAYS:
        return _of_table(model, read_table(path, None if reading is None else reading_in(reading)), label)
    if reading:
        raise LimbeckError(f"{path} holds arrays: reading is for tables")
    if label is not None:
        raise LimbeckError(f"{path}: a label column is only for tables; an NPZ file has its labels in y_test")
    with located(path):
        return _of_arrays(model, path)


def _of_table(model: Predictor, table: Table, label: str | None) -> tuple[Array, Array]:
    if model.schema is not None:
        if label is not None and len(model.schema.labels) > 1:
            raise LimbeckError(f"label: the model has several label columns: {', '.join(model.schema.labels)}")
        rows = rows_of(with_label(table, model.schema, label), model.schema, clipped=False)
        return rows.x, model.task.unscaled(rows.y) if model.task.kind == "regression" else rows.y
    if label is None or model.task.kind == "multilabel":
        raise LimbeckError(
            f"{table.where}: the model was trained on arrays: name the label column, or give an NPZ file"
        )
    columns = tuple(Number(name, np.nan) for name in table.columns if name != label)
    texts = labels_of(table, label)
    with located(Path(table.where)):
        y = _numbered(model, texts.astype(np.float64) if model.task.kind == "regression" else texts, repr(label))
        return model.encoded(Schema(columns, "", ()).encode(table.without(label))), y


def _of_arrays(model: Predictor, path: Path) -> tuple[Array, Array]:
    if path.suffix.lower() != ".npz" or not path.is_file():
        raise LimbeckError(f"{path}: give an NPZ file with x_test and y_test, or a table with labels")
    arrays = read_arrays(path)
    if model.schema is not None and model.schema.text is not None:
        arrays = with_tokens(arrays, model.schema.text.rule, str(path))
    part = "test" if "x_test" in arrays else "train"
    if f"x_{part}" not in arrays or f"y_{part}" not in arrays:
        raise LimbeckError(f"{path} has no x_test and y_test, or x_train and y_train; it has {', '.join(arrays)}")
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    if model.task.kind == "multilabel" and "classes" in arrays and y.ndim == 2:
        y = _in_order(model, y, list(map(str, arrays["classes"])))
    return _pair(model, x, y, f"{path}: y_{part}")


def _in_order(model: Predictor, y: Array, names: list[str]) -> Array:
    """Columns of labels in the order of the model's classes."""
    classes = list(map(str, model.classes_))
    if sorted(classes) != sorted(names) or len(names) != y.shape[1]:
        raise LimbeckError(f"the labels are of {', '.join(names)}; the model's classes are {', '.join(classes)}")
    return y[:, [names.index(name) for name in classes]]


def _pair(model: Predictor, x: Any, y: Any, where: str) -> tuple[Array, Array]:
    labels, rows = _numbered(model, y, where), model.encoded(x)
    if len(labels) != len(rows) or not len(rows):
        raise LimbeckError(f"{where}: {len(rows)} rows need as many labels, and at least one, not {len(labels)}")
    return rows, labels


def _numbered(model: Predictor, y: Any, where: str) -> Array:
    """Labels as class numbers, as 1, 0 and -1, or as numbers."""
    labels = np.asarray(y)
    if model.task.kind == "regression":
        return check_numbers(labels, where)
    if model.task.kind == "multilabel":
        if labels.ndim != 2 or labels.shape[1] != len(model.classes_):
            raise LimbeckError(f"{where}: give one column of labels for each of the {len(model.classes_)} classes")
        return check_several(labels, where)
    if labels.ndim != 1:
        raise LimbeckError(f"{where}: the labels have the shape {labels.shape}; give one class for each row")
    number = {_name(name): position for position, name in enumerate(model.classes_.tolist())}
    names = [_name(label) for label in labels.tolist()]
    if unknown := [name for name in names if name not in number]:
        raise LimbeckError(f"{where}: the label {unknown[0]!r} is none of the model's classes {', '.join(number)}")
    return np.array([number[name] for name in names], np.int64)


def _name(label: Any) -> str:
    """Text of a label; 1, 1.0 and True are the same class."""
    whole = isinstance(label, bool) or (isinstance(label, float) and label.is_integer())
    return str(int(label) if whole else label)
