"""A run's folder: its place is taken before anyone trains, and it appears whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from limbeck.errors import LimbeckError


class RunFolder:
    """`with RunFolder(path) as folder: ... folder.write(files)`; without `write` nothing stays behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> "RunFolder":
        if self.path.exists():
            raise LimbeckError(f"{self.path} exists already; name another folder with --out")
        self._made_parent = not self.path.parent.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._draft = Path(tempfile.mkdtemp(prefix=f".{self.path.name}-", dir=self.path.parent))
        except OSError as error:
            raise LimbeckError(f"cannot write to {self.path}: {error.strerror}") from error
        return self

    def write(self, files: Mapping[str, bytes]) -> None:
        try:
            for name, data in files.items():
                target = self._draft / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
            self._draft.chmod(0o755)
            os.rename(self._draft, self.path)
        except OSError as error:
            raise LimbeckError(f"cannot write {self.path}: {error.strerror}; nothing was kept") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)
        if self._made_parent and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()


def free_folder(stem: str) -> Path:
    """The first of runs/STEM-1, runs/STEM-2, ... that is not taken."""
    number = 1
    while (path := Path("runs") / f"{stem}-{number}").exists():
        number += 1
    return path
