"""CSV and Parquet files as tables of named columns.

Values of a CSV file stay text. The schema, which all parties share, turns them into numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean, missing_extra, reading
from limbeck.protocol.rows import Array

SUFFIXES = (".csv", ".parquet")
BLOCK, MAX_BLOCK = 2**20, 2**30  # bytes of a CSV file that are read at once
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})

TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # Parquet's Booleans become true, false


@dataclass(frozen=True, slots=True)
class Table:
    """Table of named columns.

    Parameters
    ----------
    where : str
        The file, for error messages.
    columns : mapping of str to array of shape (rows,)
        Text columns of dtype object (None for a missing value), or numbers as float64 (NaN for a missing value).
    """

    where: str
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Array:
        """Column of a name, or an error that lists similar names."""
        if name not in self.columns:
            raise LimbeckError(f"{self.where} has no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def without(self, *names: str) -> "Table":
        """Copy without some columns; a name that is not there is ignored."""
        return Table(self.where, {key: value for key, value in self.columns.items() if key not in names})

    def renamed(self, old: str, new: str) -> "Table":
        """Copy with another name for one column, which must exist."""
        self.column(old)
        return Table(self.where, {new if key == old else key: value for key, value in self.columns.items()})

    def take(self, index: Array) -> "Table":
        """Copy with the rows of these indices."""
        return Table(self.where, {key: value[index] for key, value in self.columns.items()})


def read_table(path: Path) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : Path
        A file whose name ends in .csv or .parquet.

    Returns
    -------
    Table
        All columns. Values of a CSV file are text.

    Raises
    ------
    LimbeckError
        If the file cannot be read, has no rows, repeats a column, or has values that are neither numbers nor text.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise LimbeckError(f"{path}: unknown kind of file; known: {', '.join(SUFFIXES)}")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("reading CSV and Parquet files", "tables") from error
    try:
        with reading(path):
            arrow = _read_csv(path) if path.suffix.lower() == ".csv" else parquet.read_table(path)
            names = list(arrow.column_names)
    except pyarrow.ArrowException as error:
        raise LimbeckError(f"{path} is not readable: {str(error).splitlines()[0]}") from error
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise LimbeckError(f"{path}: the column {repeated[0]!r} occurs twice; rename one")
    if not arrow.num_rows:
        raise LimbeckError(f"{path} has no rows")
    return Table(str(path), {name: _plain(path, name, arrow.column(name)) for name in names})


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    whole = csv.ReadOptions(block_size=min(max(path.stat().st_size + 1, BLOCK), MAX_BLOCK))  # a text may be long
    lines = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(path, whole, lines) as reader:
        names = reader.schema.names
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return csv.read_csv(path, whole, lines, as_text)


def _plain(path: Path, name: str, column: Any) -> Array:
    """Numbers as float64; text and Booleans as objects."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_null(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    if types.is_boolean(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if types.is_string(kind) or types.is_large_string(kind):
        texts = column.to_pylist()
        return np.array([None if text is None or text in MISSING else TRUTH.get(text, text) for text in texts], object)
    raise LimbeckError(f"{path}: the column {name!r} holds {kind}, neither numbers nor text")
