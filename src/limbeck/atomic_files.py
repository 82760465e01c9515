"""Files that appear whole or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

OWNER_ONLY = 0o600


class AtomicFile:
    """`with AtomicFile(path) as file:` writes bytes beside the path; the file takes its name only when all went well.

    A `private` file is readable by its owner only, and is on the disk before it takes its name.
    """

    def __init__(self, target: Path, private: bool = False) -> None:
        self.target = target
        self.private = private

    def __enter__(self) -> IO[bytes]:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        handle, self._path = tempfile.mkstemp(prefix=f".{self.target.name}-", dir=self.target.parent)
        self._file = os.fdopen(handle, "wb")
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(OSError):
                self._file.close()
            os.unlink(self._path)
            return
        try:
            self._finish()
            os.replace(self._path, self.target)
        except OSError:
            os.unlink(self._path)
            raise

    def _finish(self) -> None:
        """Close the file and give it its mode; until then only its owner may read it."""
        with self._file:
            if self.private:
                self._file.flush()
                os.fsync(self._file.fileno())
        if not self.private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(self._path, 0o666 & ~umask)


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
