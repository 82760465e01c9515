"""A run's folder: the place is tried before anyone trains, and the folder appears whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType

from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import read_ledger

TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class RunFolder:
    """`with RunFolder(path) as folder: ... folder.write(files)`; without `write` nothing stays behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> "RunFolder":
        try:
            if self.path.exists():
                raise LimbeckError(f"{self.path} exists already; name another folder with --out")
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._draft = Path(tempfile.mkdtemp(prefix=".run-", dir=self.path.parent))
        except OSError as error:
            raise LimbeckError(f"cannot write to {self.path}: {error.strerror}") from error
        return self

    def write(self, files: Mapping[str, bytes]) -> Path:
        """Where the folder is now: another run may have taken the name meanwhile, then a number is added."""
        try:
            for name, data in files.items():
                target = self._draft / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
            self._draft.chmod(0o755)
            return self._named()
        except OSError as error:
            raise LimbeckError(f"cannot write {self.path}: {error.strerror}; nothing was kept") from error

    def _named(self) -> Path:
        for number in count(1):
            place = self.path if number == 1 else self.path.with_name(f"{self.path.name}-{number}")
            try:
                os.rename(self._draft, place)  # in one step: a kill leaves the name free, or the folder whole
                return place
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
        raise AssertionError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)
        for folder in self._made:
            if any(folder.iterdir()):
                break
            folder.rmdir()


@contextmanager
def ledger_beside(folder: Path, kept: Path | None) -> Iterator[Path]:
    """Where a run's releases are written down before they leave: the ledger that the user keeps, or one of its own.

    Its own lies beside the folder until the run is whole. After a kill it stays there, and the same run goes on with
    it; where nothing was released, nothing stays.
    """
    path = kept or folder.with_name(f"{folder.name}.ledger.sqlite")
    began = path.exists()
    try:
        yield path
    finally:
        if kept is None and not began and path.exists() and not _holds_releases(path):
            path.unlink()


def _holds_releases(ledger: Path) -> bool:
    try:
        return bool(read_ledger(ledger))
    except LimbeckError:
        return False


def free_folder(stem: str) -> Path:
    """The first of runs/STEM-1, runs/STEM-2, ... that is not taken."""
    return next(path for n in count(1) if not (path := Path("runs") / f"{stem}-{n}").exists())
