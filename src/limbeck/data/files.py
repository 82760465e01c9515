"""CSV, Parquet and Excel files, and tables of pandas, polars and pyarrow, as tables of named columns.

Values of a CSV file stay text. The schema, which all parties share, turns them into numbers.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.reading import MISSING, Reading, check_names, check_quotes, decoded, separator_of
from limbeck.data.table import Table
from limbeck.errors import LimbeckError, LimbeckWarning, missing_extra, reading
from limbeck.protocol.rows import Array

TEXTS, EXCEL = (".csv", ".tsv", ".txt"), (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SUFFIXES = (*TEXTS, ".parquet", *EXCEL)
MAX_BLOCK = 2**30  # bytes of a CSV file that are read at once
TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # Parquet's Booleans become true, false


def read_table(path: Path, how: Reading | None = None, like: Reading | None = None) -> Table:
    """Read a CSV, Parquet or Excel file.

    Parameters
    ----------
    path : Path
        A file whose name ends in .csv, .tsv, .txt, .parquet, .xlsx and so on.
    how : Reading, optional
        What the user states about the file.
    like : Reading, optional
        The reading of the public rows, for a file of other rows, whose values then decide nothing.

    Returns
    -------
    Table
        All columns, and the decimal mark of their texts.
    """
    return read_undecided(path, how).decided(like)


def read_undecided(path: Path, how: Reading | None = None) -> Table:
    """Read a file, but do not choose its decimal mark.

    Parameters
    ----------
    path : Path
        The file.
    how : Reading, optional
        What the user states about the file.

    Returns
    -------
    Table
        All columns. Values of a CSV file are text.

    Raises
    ------
    LimbeckError
        If the file cannot be read, has no rows, repeats a column, or has values that are neither numbers nor text.
    """
    kind, stated = path.suffix.lower(), how or Reading()
    if kind not in SUFFIXES:
        raise LimbeckError(f"{path}: unknown kind of file; known: {', '.join(SUFFIXES)}")
    with reading(path):
        size = path.stat().st_size
    if not size:
        raise LimbeckError(f"{path} is empty: it has no line with the names of the columns")
    read = _read_text if kind in TEXTS else _read_excel if kind in EXCEL else _read_parquet
    arrow, found = _arrow(str(path), lambda: read(path, stated))
    return _table(str(path), arrow, found)


def table_of(frame: Any, where: str) -> Table:
    """Read a table of pandas, polars or pyarrow.

    Parameters
    ----------
    frame : table
        A table that gives its columns to Arrow.
    where : str
        The argument, for error messages.

    Returns
    -------
    Table
        All columns; the decimal mark of texts is not chosen.
    """
    names = [str(name) for name in getattr(frame, "columns", getattr(frame, "column_names", ()))]
    check_names(names, where)
    return _table(where, _arrow(where, lambda: _from_memory(frame)), Reading())


def is_frame(rows: Any) -> bool:
    """Whether rows are a table of pandas, polars or pyarrow."""
    return hasattr(rows, "__arrow_c_stream__") and (hasattr(rows, "columns") or hasattr(rows, "column_names"))


def _from_memory(frame: Any) -> Any:
    import pyarrow as pa

    if not hasattr(frame, "iloc"):
        return pa.table(frame)
    objects = [index for index, kind in enumerate(frame.dtypes) if kind.kind == "O" and kind.name == "object"]
    if objects:  # of pandas: each value becomes text by itself
        frame = frame.copy()
        for index in objects:
            frame.isetitem(index, [_text_of(value) for value in frame.iloc[:, index]])
    return pa.Table.from_pandas(frame, preserve_index=False)  # its index is no column


def _text_of(value: Any) -> str | None:
    """A value of a pandas column of any objects as text; None if it is missing."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | float | np.number):
        return f"{value:.15g}"
    if isinstance(value, str | date):
        return value if isinstance(value, str) else value.isoformat()
    raise TypeError(f"{type(value).__name__} values are neither numbers nor text nor dates")


def _arrow(where: str, read: Callable[[], Any]) -> Any:
    """Call a function that needs Arrow; name the file in its errors."""
    try:
        import pyarrow
    except ImportError as error:
        raise missing_extra("reading tables", "tables") from error
    try:
        with reading(Path(where)):
            return read()
    except (pyarrow.ArrowException, TypeError, OverflowError) as error:
        raise LimbeckError(f"{where} is not readable: {str(error).splitlines()[0]}") from error


def _read_parquet(path: Path, how: Reading) -> tuple[Any, Reading]:
    from pyarrow import parquet

    return parquet.read_table(path), how


def _read_excel(path: Path, how: Reading) -> tuple[Any, Reading]:
    try:
        import fastexcel
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra("reading Excel files", "excel") from error
    try:
        workbook = fastexcel.read_excel(path)
        if how.sheet is not None and how.sheet not in workbook.sheet_names:
            raise LimbeckError(
                f"{path} has no sheet {how.sheet!r}; it has {', '.join(map(repr, workbook.sheet_names))}"
            )
        sheet = workbook.load_sheet(how.sheet if how.sheet is not None else 0, dtypes="string")  # each value by itself
        return pa.table(sheet.to_arrow()), how
    except fastexcel.FastExcelError as error:
        raise LimbeckError(f"{path} is not readable: {str(error).splitlines()[0]}") from error


def _read_text(path: Path, how: Reading) -> tuple[Any, Reading]:
    import pyarrow as pa
    from pyarrow import csv

    text, encoding = decoded(path.read_bytes(), path, how.encoding)
    text, separator = separator_of(text.replace("\r\n", "\n").replace("\r", "\n"), how.separator)
    check_quotes(text, separator, path)
    data = text.encode()
    wrong: list[Any] = []
    parse = csv.ParseOptions(
        delimiter=separator,
        newlines_in_values=True,
        invalid_row_handler=lambda row: wrong.append(row) or "skip",  # type: ignore[func-returns-value]
    )
    whole = csv.ReadOptions(
        block_size=min(max(len(data) + 1, 2**20), MAX_BLOCK), use_threads=False
    )  # texts may be long
    names = csv.open_csv(pa.BufferReader(data), whole, parse).schema.names
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    wrong.clear()
    arrow = csv.read_csv(pa.BufferReader(data), whole, parse, as_text)
    if wrong:
        row = wrong[0]
        at = "" if row.number is None else f" {row.number - 1}"
        raise LimbeckError(
            f"{path}: row{at} has {row.actual_columns} values, but there are {row.expected_columns} columns; "
            "put values that contain the separator in quotes"
        )
    return arrow, replace(how, encoding=encoding, separator=separator)


def _table(where: str, arrow: Any, how: Reading) -> Table:
    """Columns of an Arrow table; columns without a name are left out."""
    names = [str(name).strip() for name in arrow.column_names]
    unnamed = [index for index, name in enumerate(names) if not name or name.startswith("__UNNAMED__")]
    if unnamed:
        warnings.warn(f"{where}: column {unnamed[0] + 1} has no name and is left out", LimbeckWarning, stacklevel=4)
    named = [(index, name) for index, name in enumerate(names) if index not in unnamed]
    check_names([name for _, name in named], where)
    if not named:
        raise LimbeckError(f"{where} has no column with a name")
    if not arrow.num_rows:
        raise LimbeckError(f"{where} has no rows")
    columns = {name: _plain(where, name, arrow.column(index)) for index, name in named}
    return Table(where, columns, how).without_marks(how.missing)


def _plain(where: str, name: str, column: Any) -> Array:
    """Numbers as float64; text, dates and Booleans as objects."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_null(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    if types.is_timestamp(kind) or types.is_date(kind):
        days = column.cast(pa.timestamp("us")).to_numpy()
        return np.array([None if np.isnat(day) else _iso(day) for day in days], object)
    if types.is_boolean(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if types.is_string(kind) or types.is_large_string(kind) or kind == getattr(pa, "string_view", pa.string)():
        texts = (None if text is None else text.strip() for text in column.to_pylist())
        return np.array([None if text is None or text in MISSING else TRUTH.get(text, text) for text in texts], object)
    raise LimbeckError(f"{where}: the column {name!r} holds {kind}, neither numbers nor text nor dates")


def _iso(day: Any) -> str:
    """A date as text, without a time of midnight."""
    text = str(day.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00")
