"""The schema: how rows of a table become numbers, by one rule that all parties share.

Numbers stay as they are; a missing one becomes the median of the public rows. Text becomes one column per category
that the public rows (or a schema file) hold; other and missing categories are zeros.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.files import Table
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array
from limbeck.tables import from_table

MOST_CATEGORIES = 1000


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers; `missing` stands where there is none."""

    name: str
    missing: float

    def encode(self, table: Table) -> Array:
        values = table.column(self.name)
        if values.dtype == object:
            text = next((value for value in values if value is not None), "nothing")
            raise LimbeckError(f"{table.where}: the column {self.name!r} holds text ({text!r}), not numbers")
        if np.isinf(values).any():
            raise LimbeckError(
                f"{table.where}: the column {self.name!r} holds infinity in row {np.isinf(values).argmax()}"
            )
        return np.where(np.isnan(values), self.missing, values)[:, None]


@dataclass(frozen=True, slots=True)
class Category:
    """A column of text; `values` are the categories that count."""

    name: str
    values: tuple[str, ...]

    def encode(self, table: Table) -> Array:
        return np.stack([_text(table.column(self.name)) == value for value in self.values], axis=1).astype(float)


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns in order, the label's name and its classes in order."""

    columns: tuple[Number | Category, ...]
    label: str
    classes: tuple[str, ...]

    def encode(self, table: Table) -> Array:
        """[rows, features] float32; other columns than the schema's are an error that names file and column."""
        rows = table.without(self.label)
        known = {column.name for column in self.columns}
        extra = [name for name in rows.columns if name not in known]
        if extra:
            raise LimbeckError(f"{table.where} has a column {extra[0]!r} that the public rows do not have")
        return np.concatenate([column.encode(rows) for column in self.columns], axis=1).astype(np.float32)

    def numbers_of(self, labels: Array, where: str) -> Array:
        """Labels as class numbers."""
        number = {name: i for i, name in enumerate(self.classes)}
        unknown = [name for name in labels if name not in number]
        if unknown:
            raise LimbeckError(
                f"{where}: the label {unknown[0]!r} in {self.label!r} is none of {', '.join(self.classes)}"
            )
        return np.array([number[name] for name in labels], np.int64)

    def to_json(self) -> str:
        columns = [{"kind": type(column).__name__.lower(), **asdict(column)} for column in self.columns]
        return json.dumps({"label": self.label, "classes": self.classes, "columns": columns})

    @staticmethod
    def from_json(text: str, where: str) -> "Schema":
        try:
            raw = json.loads(text)
            columns = tuple(_column(dict(column)) for column in raw["columns"])
            return Schema(columns, str(raw["label"]), tuple(map(str, raw["classes"])))
        except (ValueError, KeyError, TypeError) as error:
            raise LimbeckError(f"{where} is not a schema: {error}") from error


def schema_of(public: Table, label: str, classes: Sequence[str]) -> Schema:
    """The schema that the public rows give."""
    rows = public.without(label)
    return Schema(
        tuple(_learned(public.where, name, values) for name, values in rows.columns.items()), label, tuple(classes)
    )


def labels_of(table: Table, label: str) -> Array:
    """The labels as text; a row without one is an error."""
    values = table.column(label)
    missing = np.array([value is None or value != value for value in values])
    if missing.any():
        raise LimbeckError(f"{table.where}: row {missing.argmax()} has no label in {label!r}")
    return _text(values)


def classes_of(tables: Sequence[Table], label: str) -> tuple[str, ...]:
    """All classes in order, numbers by size; text in one file and numbers in another is an error."""
    first = tables[0]
    for table in tables:
        if (table.column(label).dtype == object) != (first.column(label).dtype == object):
            kinds = ("text", "numbers") if table.column(label).dtype == object else ("numbers", "text")
            raise LimbeckError(
                f"{table.where}: the label {label!r} holds {kinds[0]}, in {first.where} it holds {kinds[1]}"
            )
    if first.column(label).dtype == object:
        return tuple(sorted({name for table in tables for name in labels_of(table, label)}))
    for table in tables:
        labels_of(table, label)
    return tuple(_text(np.unique(np.concatenate([table.column(label) for table in tables]))))


def read_schema(path: Path) -> Schema:
    try:
        return Schema.from_json(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror}") from error


def _learned(where: str, name: str, values: Array) -> Number | Category:
    if values.dtype != object:
        known = values[np.isfinite(values)]
        return Number(name, float(np.median(known)) if len(known) else 0.0)
    categories = sorted({value for value in values if value is not None})
    if len(categories) > MOST_CATEGORIES:
        raise LimbeckError(f"{where}: the column {name!r} holds {len(categories)} different texts; is it a category?")
    return Category(name, tuple(categories))


def _column(raw: dict[str, Any]) -> Number | Category:
    kind = raw.pop("kind")
    if kind == "number":
        return from_table(Number, raw)
    return from_table(Category, {**raw, "values": tuple(raw["values"])})


def _text(values: Array) -> Array:
    """Values as text: whole numbers without a point, so that 1 and 1.0 are one category; nothing stays None."""
    if values.dtype == object:
        return values
    return np.array([f"{value:.15g}" if value == value else None for value in values], dtype=object)
