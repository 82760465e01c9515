"""A lock on a file, which the operating system releases when its program ends, on every system."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from limbeck.errors import LimbeckError

MAX_WAIT = 86_400.0  # seconds to wait for another program


@contextmanager
def locked(path: Path, problem: str, wait: bool = False) -> Iterator[None]:
    """Hold a lock while the block runs.

    Parameters
    ----------
    path : Path
        The file of the lock. It is made if it is missing.
    problem : str
        Error message if another program holds the lock.
    wait : bool
        Whether to wait for the other program instead.

    Raises
    ------
    LimbeckError
        If another program holds the lock, or the file cannot be written.

    Notes
    -----
    The file is an empty SQLite database in an exclusive transaction: SQLite locks files on every system.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder, "lock"), "in use"):
    ...     with locked(Path(folder, "lock"), "another program uses this folder"):
    ...         pass
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: another program uses this folder
    """
    try:
        with suppress(FileExistsError):  # an existing file stays closed here: closing it would release the lock on it
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LimbeckError(f"cannot write to {path.parent}: {error.strerror}") from error
    waits = MAX_WAIT if wait else 0.0
    with closing(sqlite3.connect(path, timeout=waits, isolation_level=None, check_same_thread=False)) as database:
        try:
            database.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise LimbeckError(problem) from error
            raise LimbeckError(f"cannot lock {path}: {error}") from error
        yield
