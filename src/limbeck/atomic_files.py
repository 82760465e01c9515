"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

OWNER_ONLY = 0o600


@contextmanager
def AtomicFile(target: Path, private: bool = False) -> Iterator[IO[bytes]]:  # noqa: N802
    """`with AtomicFile(path) as file:` writes bytes beside the path; the file takes its name only when all went well.

    Until then only its owner may read it. A `private` file stays so, and is on the disk before it takes its name.
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
    """Make an empty file that only its owner may read, where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, OWNER_ONLY))


def private_file(path: Path) -> Path:
    """The file, made empty where it is missing, readable by its owner only."""
    make_private(path)
    path.chmod(OWNER_ONLY)
    return path


def write_secret(path: Path, data: bytes) -> None:
    """Write a new file that nobody but its owner reads, from its first moment on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
