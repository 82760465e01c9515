"""Tables that users give in Python: frames of pandas, polars or pyarrow, and paths of files, read by one schema."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.files import SUFFIXES, is_frame, read_undecided, table_of
from limbeck.data.label_columns import class_numbers, classes_of, labels_of, plain_numbers
from limbeck.data.own import check_id
from limbeck.data.reading import UNSTATED, Reading, reading_in
from limbeck.data.schema import Schema, read_schema, schema_of
from limbeck.data.table import Table, texts_of
from limbeck.data.unknown_values import warn_of_unknown_values
from limbeck.errors import LimbeckError, shown
from limbeck.protocol.rows import Array

LABEL = "label"  # name of the label in a schema if labels are not in the tables


@dataclass(frozen=True, slots=True)
class TableArguments:
    """The arguments of `run` about tables.

    Parameters
    ----------
    label : str or sequence of str, optional
        Column of the labels, or several.
    row_id : str, optional
        Column that names the rows.
    ignore : sequence of str
        Columns that are left out.
    reading : Reading, mapping or None
        How files are read; what is not stated is found.
    schema : Schema, path or None
        The schema; None learns it from the public rows.
    """

    label: str | Sequence[str] | None = None
    row_id: str | None = None
    ignore: Sequence[str] = ()
    reading: Any = None
    schema: Any = None

    def __post_init__(self) -> None:
        several = self.label is not None and not isinstance(self.label, str)
        for key, names in (("label", self.label if several else ()), ("ignore", self.ignore)):
            if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
                raise LimbeckError(f"{key}: give names of columns, not {shown(names)}")
        if not isinstance(self.row_id, str | None):
            raise LimbeckError(f"row_id must name a column, not {shown(self.row_id)}")

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns of the labels."""
        return (self.label,) if isinstance(self.label, str) else tuple(self.label or ())

    @property
    def how(self) -> Reading:
        """What is stated about files."""
        if self.reading is None or isinstance(self.reading, Reading):
            return self.reading or UNSTATED
        try:
            return reading_in(self.reading)
        except LimbeckError as error:
            raise LimbeckError(f"reading: {error}") from error

    def known_schema(self) -> Schema | None:
        """The schema that is given."""
        if self.schema is None or isinstance(self.schema, Schema):
            return self.schema
        if isinstance(self.schema, str | Path) and Path(self.schema).is_file():
            return read_schema(Path(self.schema))
        raise LimbeckError(f"schema must be a schema or the path of a schema file, not {shown(self.schema)}")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a run: a party, the test rows or the public rows.

    Parameters
    ----------
    where : str
        Its name, for error messages.
    table : Table
        The rows.
    y : object
        The labels, if they are not in the table.
    """

    where: str
    table: Table
    y: Any = None


def is_table(rows: Any) -> bool:
    """Whether rows are a table: a frame, a path, or a table that was read."""
    return isinstance(rows, Table | Path) or is_frame(rows) or (isinstance(rows, str) and _is_path(rows))


def numbers_given(
    parties: Sequence[tuple[str, Any]],
    public: Any,
    test: Any,
    given: TableArguments,
    classes: Sequence[Any] | None,
    is_private: bool,
    needs_labels: bool,
) -> tuple[list[tuple[str, Any]], Any, Any, Schema | None]:
    """Turn tables into arrays, by one schema.

    Parameters
    ----------
    parties : sequence of (str, rows)
        Name and rows of each party: a table with the label column, or a pair of a table and labels.
    public : table, (table, y) or None
        The public rows.
    test : table, (table, y) or None
        The test rows.
    given : TableArguments
        The arguments about tables.
    classes : sequence or None
        All classes.
    is_private : bool
        Whether private rows must not decide how columns are treated.
    needs_labels : bool
        Whether the labels of the public rows are used.

    Returns
    -------
    parties, public, test
        The same with arrays.
    Schema or None
        The schema; None if nothing is a table, and everything is as it was.
    """
    named = [*parties, *((name, side) for name, side in (("public", public), ("test", test)) if side is not None)]
    kinds = {where: is_table(side[0] if isinstance(side, tuple | list) and side else side) for where, side in named}
    if not any(kinds.values()):
        if (stated := next((key for key in ("label", "row_id", "schema") if getattr(given, key)), None)) is not None:
            raise LimbeckError(f"{stated} is for tables, but rows are arrays")
        return list(parties), public, test, None
    if len(set(kinds.values())) > 1:
        plain, named_one = (next(name for name, kind in kinds.items() if kind is wanted) for wanted in (False, True))
        raise LimbeckError(
            f"{plain}: rows have no names of columns, but those of {named_one} have; give tables for all"
        )
    sides = {where: _side(where, side, given.how) for where, side in named}
    check_id(given.row_id, [side.table for side in sides.values()], "row_id")
    titles, is_tested = [title for title, _ in parties], test is not None
    schema = given.known_schema()
    if schema is not None and schema.classes:
        given = replace(given, label=given.label or schema.label)
    _check_labelled([sides[name] for name in (*titles, *(["test"] if is_tested else []))], given)
    schema = schema or _learned(sides.get("public"), [sides[title] for title in titles], given, is_private)
    sides = {name: replace(side, table=side.table.decided(schema.reading)) for name, side in sides.items()}
    known = _classes([sides[name] for name in (*titles, *(["test"] if is_tested else []))], given, schema, classes)

    def pair(name: str) -> tuple[Any, ...]:
        return _pair(sides[name], schema, given, known)

    for title in titles:
        warn_of_unknown_values(sides[title].table, schema)
    opened = None
    if (open_rows := sides.get("public")) is not None:
        has_labels = open_rows.y is not None or (needs_labels and set(given.labels) <= set(open_rows.table.columns))
        opened = pair("public") if has_labels else _encoded(open_rows, schema, given)
    return [(title, pair(title)) for title in titles], opened, pair("test") if is_tested else None, schema


def _is_path(text: str) -> bool:
    return Path(text).suffix.lower() in SUFFIXES


def _side(where: str, side: Any, how: Reading) -> Side:
    """The table of a side, and its labels if they are not in the table."""
    rows, *others = side if isinstance(side, tuple | list) else (side,)
    if isinstance(rows, Table):
        table = replace(rows, where=where)
    elif is_frame(rows):
        table = table_of(rows, where)
    else:
        table = read_undecided(Path(rows), how)
    if others and isinstance(others[0], str):
        raise LimbeckError(f"{where}: give the name of the label column as label = {others[0]!r}")
    return Side(where, table, *others[:1])


def _check_labelled(sides: Sequence[Side], given: TableArguments) -> None:
    """Raise unless labels are given beside tables, or their column is named."""
    if not given.labels and (lacking := next((side for side in sides if side.y is None), None)) is not None:
        columns = ", ".join(lacking.table.columns)
        raise LimbeckError(f"{lacking.where}: give label=, the name of the label column, or (X, y); columns: {columns}")


def _learned(public: Side | None, private: Sequence[Side], given: TableArguments, is_private: bool) -> Schema:
    """Schema of the public rows; without these, in a simulation, of all private rows."""
    if public is None and is_private:
        raise LimbeckError(
            "public is missing: how columns are treated is decided by public rows or by schema=, never by private rows"
        )
    rows = (public.table if public else _joined([side.table for side in private])).decided()
    label = given.label if isinstance(given.label, str) else tuple(given.labels) or LABEL
    return schema_of(rows, label, (), row_id=given.row_id, ignore=given.ignore)


def _joined(tables: Sequence[Table]) -> Table:
    """All rows of several tables, which have the same columns."""
    columns = {}
    for name in tables[0].columns:
        each = [table.column(name) for table in tables]
        are_numbers = all(values.dtype != object for values in each)
        columns[name] = np.concatenate(each if are_numbers else [texts_of(values) for values in each])
    return Table("the parties' rows", columns, tables[0].reading)


def _classes(
    sides: Sequence[Side], given: TableArguments, schema: Schema, classes: Sequence[Any] | None
) -> tuple[str, ...] | None:
    """Classes of text labels in tables, of which those that differ only in case or blanks are one; else None."""
    inside = [side.table for side in sides if side.y is None]
    if len(given.labels) != 1 or not inside or any(table.column(given.labels[0]).dtype != object for table in inside):
        return None
    named = tuple(str(name) for name in classes) if classes is not None else schema.classes
    if named:
        return named
    found = classes_of(inside, given.labels[0])
    return found if plain_numbers(inside[0], found) is None else None


def _pair(side: Side, schema: Schema, given: TableArguments, classes: tuple[str, ...] | None) -> tuple[Any, ...]:
    """Rows and labels as arrays."""
    x = _encoded(side, schema, given)
    if side.y is not None:
        return x, side.y
    if classes is not None:
        return x, np.array(classes)[class_numbers(classes, side.table, given.labels[0])]
    labels = [_label(side.table, name, len(given.labels) > 1) for name in given.labels]
    return x, labels[0] if len(labels) == 1 else np.stack(labels, axis=1)


def _label(table: Table, name: str, may_be_missing: bool) -> Array:
    """One label column as numbers; whole numbers stay whole."""
    if not may_be_missing:
        labels_of(table, name)
    numbers, others = table.numbers(name)
    if others:
        text, row = next(iter(others.items()))
        raise LimbeckError(f"{table.where}: the label {name!r} holds {text!r} in row {row + 1}, not a number")
    return numbers.astype(np.int64) if (numbers == np.floor(numbers)).all() else numbers


def _encoded(side: Side, schema: Schema, given: TableArguments) -> Array:
    return schema.encode(side.table.without(*given.labels))


def for_model(schema: Schema | None, names: Sequence[Any], given: TableArguments, task: Any) -> Schema | None:
    """Return the schema with the classes and the task of a run, as its model keeps it."""
    if schema is None:
        return None
    classes = tuple(map(str, names))
    label = classes if task.kind == "multilabel" and not given.labels else schema.label
    limits = (task.low, task.high) if task.kind == "regression" else None
    return replace(schema, label=label, classes=classes, task=task.kind, limits=limits)
