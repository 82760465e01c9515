"""One program at a time: a lock on a file, which ends with the program that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limbeck.errors import LimbeckError


@contextmanager
def locked(path: Path, problem: str, wait: bool = False) -> Iterator[None]:
    """Hold the lock; where another program does, say `problem`, or wait for it."""
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
