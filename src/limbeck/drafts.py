"""Files that appear whole or not at all."""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO


class Draft:
    """`with Draft(path) as file:` writes bytes beside the path; the file takes its name only when all went well."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __enter__(self) -> IO[bytes]:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        handle, self._path = tempfile.mkstemp(prefix=f".{self.target.name}-", dir=self.target.parent)
        self._file = os.fdopen(handle, "wb")
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if error is not None:
            os.unlink(self._path)
            return
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(self._path, 0o666 & ~umask)
        try:
            os.replace(self._path, self.target)
        except OSError:
            os.unlink(self._path)
            raise
