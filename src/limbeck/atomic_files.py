"""Atomic writes, and files that only their owner can read."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

OWNER_ONLY = 0o600


@contextmanager
def AtomicFile(target: Path, private: bool = False) -> Iterator[IO[bytes]]:  # noqa: N802
    """Write a file completely or not at all.

    The bytes are written to a temporary file in the same folder. It gets its name when the block ends without an error.
    Until then only its owner can read it.

    Parameters
    ----------
    target : Path
        The file. Missing folders are made.
    private : bool
        Whether only the owner can read the file. It is then also flushed to the disk before it gets its name.

    Yields
    ------
    IO[bytes]
        The temporary file.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.onnx")
    ...     with AtomicFile(path) as file:
    ...         written = file.write(b"ONNX")
    ...         exists_before = path.exists()
    ...     exists_before, path.read_bytes()
    (False, b'ONNX')
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if private:
                file.flush()
                os.fsync(file.fileno())
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(path, 0o666 & ~umask)
        os.replace(path, target)
    except BaseException:
        os.unlink(path)
        raise


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read, if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, OWNER_ONLY))


def private_file(path: Path) -> Path:
    """Make a file readable by its owner only, and return its path; a missing one is made empty."""
    make_private(path)
    path.chmod(OWNER_ONLY)
    return path


def write_secret(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can ever read; raise FileExistsError if it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
