"""Arrays of NPZ files: reading, checks, and conversion to float32."""

import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy.sparse import issparse

from limbeck.data.mapping import LARGE, cache_of, unpacked
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, flat

MAX_FLOAT32 = float(np.finfo(np.float32).max)


def as_float(x: Array) -> Array:
    """Rows as float32; byte images are scaled to [0, 1].

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows as stored.

    Returns
    -------
    float32 array of shape (rows, ...)
        The same rows. Bytes with more than one dimension per row count as images.

    Examples
    --------
    >>> as_float(np.array([[[0, 51, 255]]], np.uint8))
    array([[[0. , 0.2, 1. ]]], dtype=float32)
    """
    if x.dtype == np.float32:
        return x
    rows = np.asarray(x, np.float32)
    return rows / np.float32(255) if x.dtype == np.uint8 and x.ndim > 2 else rows


def rows_from(x: Any, where: str) -> Array:
    """Check and convert rows that a user gives in Python.

    Parameters
    ----------
    x : array of shape (rows, ...)
        The rows, of any type of number.
    where : str
        The argument or the party, for error messages.

    Returns
    -------
    float32 array of shape (rows, ...)
        The rows, as `as_float` makes them.

    Raises
    ------
    LimbeckError
        If these are not finite numbers in at least two dimensions.
    """
    try:
        given = np.asarray(x.toarray() if issparse(x) else x)
        if given.dtype.kind not in "fiub":
            given = given.astype(np.float64, casting="same_kind" if given.dtype.kind in "cmM" else "unsafe")
    except (TypeError, ValueError, OverflowError) as error:
        raise LimbeckError(f"{where}: rows must be numbers ({error})") from error
    if given.ndim < 2:
        raise LimbeckError(f"{where}: rows must have at least two dimensions, not the shape {given.shape}")
    check_finite(given, where)
    return as_float(given)


def data_folder() -> Path | None:
    """Folder that the environment variable LIMBECK_DATA names; None if it is not set."""
    named = os.environ.get("LIMBECK_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise LimbeckError(f"LIMBECK_DATA is {named!r}, which is not a folder")
    return folder


def read_arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of an NPZ file; large ones are memory-mapped."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise LimbeckError(f"{path} is one array, not an NPZ file of several arrays")
        with archive:
            cache = cache_of(data_folder())
            large = {key: unpacked(path, key, cache) for key in archive.files}
            return {key: archive[key] if array is None else array for key, array in large.items()}
    except LimbeckError:
        raise
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise LimbeckError(f"{path} is not an NPZ file of plain arrays") from error


def check_arrays(path: Path, part: str, arrays: dict[str, Array]) -> None:
    """Raise LimbeckError unless the rows and labels of a part (`train` or `test`) of an NPZ file are usable."""
    x, y = arrays[f"x_{part}"], arrays.get(f"y_{part}")
    if x.ndim < 2 or x.dtype.kind not in "fiub" or not x.size:
        raise LimbeckError(f"{path}: x_{part} must hold numbers in at least two dimensions, not {x.dtype} {x.shape}")
    if y is None or y.ndim not in (1, 2) or len(y) != len(x) or y.shape[1:] != arrays["y_train"].shape[1:]:
        shape = "missing" if y is None else f"of shape {y.shape}"
        raise LimbeckError(f"{path}: y_{part} is {shape}; x_{part} has {len(x)} rows, so it must be ({len(x)},)")
    if x.shape[1:] != arrays["x_train"].shape[1:]:
        raise LimbeckError(f"{path}: x_{part} has rows of {x.shape[1:]}, x_train of {arrays['x_train'].shape[1:]}")
    if y.dtype.kind not in "iubUf":
        raise LimbeckError(f"{path}: y_{part} must hold numbers or text, not {y.dtype}")
    check_finite(x, f"{path}: x_{part}")


def check_finite(x: Array, where: str) -> None:
    """Raise if a row has NaN, infinity, or a number that is too large for float32.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows, before they become float32.
    where : str
        File and array, or party, for the error message, which also names the first such row.

    Examples
    --------
    >>> check_finite(np.array([[0.0, 1.0], [0.0, 1e42]]), "party 3")
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: party 3: row 1, column 1 holds 1e+42, which is too large for float32 (at most 3.4e+38)
    """
    if x.dtype.kind != "f":
        return
    rows = flat(x)
    parts = np.array_split(rows, max(1, x.nbytes // LARGE))
    with np.errstate(over="ignore"):
        bad = np.concatenate([~np.isfinite(part.astype(np.float32)).all(axis=1) for part in parts])
    if not bad.any():
        return
    if np.isfinite(rows[bad]).all():
        raise LimbeckError(_too_large(rows, int(bad.argmax()), where))
    raise LimbeckError(f"{where}: {bad.sum()} of {len(x)} rows hold NaN or infinity, the first is row {bad.argmax()}")


def _too_large(rows: Array, row: int, where: str) -> str:
    column = int((np.abs(rows[row]) > MAX_FLOAT32).argmax())
    return (
        f"{where}: row {row}, column {column} holds {rows[row, column]:g}, which is too large for float32 "
        f"(at most {MAX_FLOAT32:.2g})"
    )


def column_names(path: Path, arrays: dict[str, Array]) -> tuple[str, ...]:
    """Names of the classes of several labels a row, in the array `classes`; by default their numbers."""
    count = arrays["y_train"].shape[1]
    names = tuple(map(str, arrays["classes"])) if "classes" in arrays else tuple(map(str, range(count)))
    if len(set(names)) != count or len(names) != count:
        raise LimbeckError(f"{path}: classes must hold {count} different names, one for each column of y_train")
    return names
