"""A user's own files: CSV and Parquet as tables of named columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.rows import Array

SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name: float64 with NaN for what is missing, or objects that are text or None."""

    where: str
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Array:
        if name not in self.columns:
            raise LimbeckError(f"{self.where} has no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def without(self, *names: str) -> "Table":
        return Table(self.where, {key: value for key, value in self.columns.items() if key not in names})

    def take(self, index: Array) -> "Table":
        return Table(self.where, {key: value[index] for key, value in self.columns.items()})


def read_table(path: Path) -> Table:
    """The table in a CSV or Parquet file."""
    if path.suffix.lower() not in SUFFIXES:
        raise LimbeckError(f"{path}: not a file of a known kind; known: {', '.join(SUFFIXES)}")
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError as error:
        raise LimbeckError("reading CSV and Parquet files needs: pip install 'limbeck[tables]'") from error
    try:
        arrow = csv.read_csv(path) if path.suffix.lower() == ".csv" else parquet.read_table(path)
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror or error}") from error
    except pyarrow.ArrowException as error:
        raise LimbeckError(f"{path} is not readable: {str(error).splitlines()[0]}") from error
    repeated = [name for name in arrow.column_names if arrow.column_names.count(name) > 1]
    if repeated:
        raise LimbeckError(f"{path}: the column {repeated[0]!r} stands twice")
    if not arrow.num_rows:
        raise LimbeckError(f"{path} has no rows")
    return Table(str(path), {name: _plain(path, name, arrow.column(name)) for name in arrow.column_names})


def _plain(path: Path, name: str, column: Any) -> Array:
    """Numbers and truth values as float64, text as objects."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy()
        return np.asarray(numbers, np.float64)
    if types.is_string(kind) or types.is_large_string(kind):
        return np.array([value or None for value in column.to_pylist()], dtype=object)
    raise LimbeckError(f"{path}: the column {name!r} holds {kind}, neither numbers nor text")
