"""A lock on a file, which the operating system releases when its program ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limbeck.errors import LimbeckError


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
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise LimbeckError(f"cannot write to {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(handle)
        raise LimbeckError(problem) from error
    try:
        yield
    finally:
        os.close(handle)
