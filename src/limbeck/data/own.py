"""Rows from users' own files: one file that is split among parties, or one file a party.

Tables (CSV, Parquet) become numbers by a schema, which comes from the public rows or a file; NPZ files hold numbers
already, as `x_train` and `y_train`; an NPY file holds public rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limbeck.data.draw import Draw, count_of, order
from limbeck.data.files import Table, read_table
from limbeck.data.schema import Schema, classes_of, labels_of, read_schema, schema_of
from limbeck.data.sets import as_float, load_file
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Rows

ARRAYS = (".npz", ".npy")
UNNAMED = ", which data.classes does not name"


@dataclass(frozen=True, slots=True)
class Files:
    """Where the rows lie, and how to read them: the key of the label, and a schema file where there is one."""

    private: Sequence[Path]
    label: str | None = None
    classes: tuple[str, ...] | None = None
    schema: Path | None = None
    public: Path | None = None
    test: Path | None = None

    @property
    def are_arrays(self) -> bool:
        kinds = {path.suffix.lower() in ARRAYS for path in (*self.private, self.public, self.test) if path}
        if len(kinds) > 1:
            raise LimbeckError("data: NPZ files and tables cannot be mixed in one federation")
        return kinds == {True}


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    """Who holds what: each party's rows, the public rows and the test rows; and the schema of tables."""

    classes: tuple[str, ...]
    private: list[Rows]
    public: Rows | None
    test: Rows | None
    schema: Schema | None = None
    classes_are_private: bool = False  # read off the labels of private rows
    public_is_labelled: bool = False


def read_files(files: Files, public: Draw | None = None, seed: int = 0) -> PartitionedRows:
    """All rows as numbers; `public` says which rows of a single private file will be public."""
    return _arrays(files) if files.are_arrays else _tables(files, public, seed)


def _tables(files: Files, public: Draw | None, seed: int) -> PartitionedRows:
    schema = read_schema(files.schema) if files.schema else None
    label = files.label or (schema.label if schema else None)
    if label is None:
        raise LimbeckError("data.label is missing: name the column that holds the classes")
    private = [read_table(path) for path in files.private]
    test = read_table(files.test) if files.test else None
    whole = test if public and public.part == "test" else private[0]
    open_rows = read_table(files.public) if files.public else _drawn(whole, files.private[0].name, public, seed)
    if schema and schema.label != label:
        raise LimbeckError(f"data.label is {label!r}, but {files.schema} names {schema.label!r}")
    if schema is None:
        if open_rows is None:
            raise LimbeckError("data.public is missing: categories come from the public rows, or from data.schema")
        classes = files.classes or classes_of([*private, *([test] if test else [])], label)
        schema = schema_of(open_rows, label, classes)
    return PartitionedRows(
        private=[_labelled(table, schema) for table in private],
        public=_unlabelled(open_rows, schema) if open_rows and files.public else None,
        test=_labelled(test, schema) if test else None,
        classes=schema.classes,
        schema=schema,
        classes_are_private=not (files.classes or files.schema),
    )


def _drawn(table: Table | None, own_name: str, public: Draw | None, seed: int) -> Table | None:
    """The rows of a file that `cut` will hand out as public; the private file's name is the data set's."""
    if public is not None and public.name is not None:
        raise LimbeckError(f"data.public: rows of the data set {public.name!r} cannot join a table")
    if public is None or table is None:
        return None
    count = count_of(public.amount, len(table))
    if not 1 <= count <= len(table):
        raise LimbeckError(f"data.public = {public.amount}: choose from 1 to {len(table)} rows, or a share")
    return table.take(order(len(table), own_name, public.part, seed)[:count])


def public_rows(path: Path, schema: Schema | None) -> Rows:
    """A file of public rows; NPZ files may bring labels, which count where everybody agreed on that."""
    if schema is not None:
        return _unlabelled(read_table(path), schema)
    if path.suffix.lower() not in ARRAYS:
        raise LimbeckError(f"{path} is a table, but no schema was agreed on")
    data = load_file(path)
    return Rows(as_float(data.x), data.y)


def private_rows(path: Path, classes: Sequence[str], schema: Schema | None, label: str | None = None) -> Rows:
    """A party's own file, its classes numbered as the consortium has them; `label` is its own name of their column."""
    if schema is not None:
        table = read_table(path)
        return _labelled(table.renamed(label, schema.label) if label else table, schema)
    if path.suffix.lower() != ".npz":
        raise LimbeckError(f"{path}: the consortium's rows are arrays: give an NPZ file with x_train and y_train")
    return load_file(path).numbered(classes, f"; the consortium's are {', '.join(classes)}").rows()


def _labelled(table: Table, schema: Schema) -> Rows:
    return Rows(schema.encode(table), schema.numbers_of(labels_of(table, schema.label), table.where))


def _unlabelled(table: Table, schema: Schema) -> Rows:
    return Rows(schema.encode(table), np.zeros(len(table), np.int64))


def _arrays(files: Files) -> PartitionedRows:
    sets = [load_file(path) for path in files.private]
    public, test = (load_file(path) if path else None for path in (files.public, files.test))
    every = [*sets, *filter(None, [public, test])]
    for data in every:
        if data.x.shape[1:] != sets[0].x.shape[1:]:
            raise LimbeckError(f"{data.name} has rows of {data.x.shape[1:]}, {sets[0].name} of {sets[0].x.shape[1:]}")
    found = {name for data in every if data is not public for name in data.classes}
    classes = files.classes or tuple(sorted(found, key=_by_number))
    sets = [data.numbered(classes, UNNAMED) for data in sets]
    test = test.numbered(classes, UNNAMED) if test else None
    return PartitionedRows(
        private=[data.rows() for data in sets],
        public=Rows(as_float(public.x), np.zeros(len(public.x), np.int64)) if public else None,
        test=(test.test_rows() if test.official_test else test.rows()) if test else None,
        classes=classes,
        classes_are_private=files.classes is None,
    )


def _by_number(name: str) -> tuple[bool, float, str]:
    """Numbers by size, then text by letters."""
    number = name.lstrip("-").isdigit()
    return (not number, float(name) if number else 0.0, name)
