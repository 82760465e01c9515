"""Predictions as a CSV file."""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from limbeck.atomic_files import AtomicFile
from limbeck.data.files import read_table
from limbeck.data.own import ARRAYS
from limbeck.data.reading import Reading
from limbeck.data.table import Table
from limbeck.errors import LimbeckError
from limbeck.experiments.result import Predictor
from limbeck.protocol.rows import Array


def check_output(out: Path | None, inputs: Sequence[Path], replaces: bool) -> None:
    """Raise `LimbeckError` if predictions would overwrite a file that must stay. Devices such as /dev/null are written.

    Parameters
    ----------
    out : Path or None
        File to write; None for standard output.
    inputs : sequence of Path
        Files that are read.
    replaces : bool
        Whether an existing file is replaced, unless it is one of those that are read.
    """
    if out is None or not out.is_file():
        return
    if any(path.exists() and path.samefile(out) for path in inputs):
        raise LimbeckError(f"--out {out} is a file that is read; name another one")
    if not replaces:
        raise LimbeckError(f"{out} exists; name another file, or replace it with --force")


def write_predictions(
    model: Predictor,
    rows: Path,
    out: Path | None,
    threshold: float | None = None,
    row_id: str | None = None,
    how: Reading | None = None,
) -> None:
    """Write predictions as CSV, to a file or to standard output. A file appears completely or not at all.

    Parameters
    ----------
    model : Predictor
        The model.
    rows : Path
        CSV file with the rows.
    out : Path or None
        File to write; None for standard output.
    threshold : float or None
        Probability from which the second of two classes, or one of several labels, is predicted.
    row_id : str or None
        Column of a table that names the rows; None means that of the training rows, if the table has it.
    how : Reading, optional
        What is stated about the file of a table.

    Raises
    ------
    LimbeckError
        If the rows do not fit the model, or if the file cannot be written.
    """
    text = predictions(model, rows, threshold, row_id, how)
    try:
        if out is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        elif out.exists() and not out.is_file():
            out.write_text(text, encoding="utf-8")
        elif not out.parent.is_dir():
            raise LimbeckError(f"cannot write {out}: there is no folder {out.parent}")
        else:
            with AtomicFile(out) as output:
                output.write(text.encode())
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LimbeckError(f"cannot write {out or 'the predictions'}: {error.strerror}") from error


def predictions(
    model: Predictor,
    rows: Path,
    threshold: float | None = None,
    row_id: str | None = None,
    how: Reading | None = None,
) -> str:
    """Predictions as CSV: one line per row with the class or number and, if known, the probability of each class.

    With several labels a row, there is a column of 1 and 0 for each class instead of one class. The first column names
    the rows, if a column of the table does.
    """
    if how is not None and rows.suffix.lower() in ARRAYS:
        raise LimbeckError(f"{rows} holds arrays: --reading is for tables")
    table = read_table(rows, how) if how is not None else model.table(rows)
    name, ids = _ids(model, table, rows, row_id)
    labels, scores = model.predict_both(rows if table is None else table.without(*filter(None, [row_id])), threshold)
    shares = [f"p({name})" for name in model.classes_] if scores is not None else []
    several = model.task.kind == "multilabel"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*([name] if ids is not None else []), *(model.classes_ if several else ["prediction"]), *shares])
    for row, label in enumerate(labels):
        known = scores[row] if scores is not None else ()
        named = [ids[row]] if ids is not None else []
        writer.writerow([*named, *(label if several else [label]), *(f"{score:.6f}" for score in known)])
    return text.getvalue()


def _ids(model: Predictor, table: Table | None, rows: Path, row_id: str | None) -> tuple[str | None, Array | None]:
    """Name of the column that names the rows, and its texts; None if there is none."""
    if row_id is not None and table is None:
        raise LimbeckError(f"{rows} holds arrays, which have no column {row_id!r}")
    name = row_id or (model.schema.id if model.schema else None)
    if name is None or table is None or (row_id is None and name not in table.columns):
        return None, None
    return name, table.texts(name)
