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
from limbeck.privacy.ledger import files_of, read_ledger

TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
LEDGER = "ledger.sqlite"  # in a run's folder; only its owner may read it, whatever the rest is


class RunFolder:
    """`with RunFolder(path) as folder: ... folder.write(files)`; without `write` nothing stays behind.

    A `private` folder, that of a real run, is readable by its owner only.
    """

    def __init__(self, path: Path, private: bool = False) -> None:
        self.path = path
        self.private = private

    def __enter__(self) -> "RunFolder":
        try:
            if self.path.exists():
                raise LimbeckError(f"{self.path} exists already; name another folder with --out")
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = Path(tempfile.mkdtemp(prefix=".run-", dir=self.path.parent))
        except OSError as error:
            raise LimbeckError(f"cannot write to {self.path}: {error.strerror}") from error
        return self

    def write(self, files: Mapping[str, bytes]) -> Path:
        """Where the folder is now: another run may have taken the name meanwhile, then a number is added."""
        try:
            for name, data in files.items():
                target = self._temporary / name
                target.parent.mkdir(0o700 if self.private else 0o777, exist_ok=True)
                mode = 0o600 if self.private or name.startswith(LEDGER) else 0o666
                with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                    file.write(data)
            if not self.private:
                self._temporary.chmod(0o755)
            return self._named()
        except OSError as error:
            raise LimbeckError(f"cannot write {self.path}: {error.strerror}; nothing was kept") from error

    def _named(self) -> Path:
        for number in count(1):
            path = self.path if number == 1 else self.path.with_name(f"{self.path.name}-{number}")
            try:
                os.rename(self._temporary, path)  # in one step: a kill leaves the name free, or the folder whole
                return path
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
        raise AssertionError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)
        for folder in self._made:
            if any(folder.iterdir()):
                break
            folder.rmdir()


@contextmanager
def ledger_beside(folder: Path, named_ledger: Path | None) -> Iterator[Path]:
    """Where a run's releases are written down before they leave: the ledger that the user keeps, or one of its own.

    Its own lies beside the folder until the run is whole. After a kill it stays there, and the same run goes on with
    it; where nothing was released, nothing stays.
    """
    path = named_ledger or folder.with_name(f"{folder.name}.{LEDGER}")
    began = path.exists()
    try:
        yield path
    finally:
        if named_ledger is None and not began and path.exists() and not _holds_releases(path):
            remove_ledger(path)


def ledger_files(ledger: Path) -> dict[str, bytes]:
    """A run's own ledger as its folder keeps it, with its head; its secret is of no more use."""
    path, head, *_ = files_of(ledger)
    return {LEDGER: path.read_bytes(), head.name.replace(path.name, LEDGER): head.read_bytes()}


def remove_ledger(ledger: Path) -> None:
    """Remove a run's own ledger and all files that belong to it."""
    for path in files_of(ledger):
        path.unlink(missing_ok=True)


def _holds_releases(ledger: Path) -> bool:
    """Whether anything may have been released; a ledger that cannot be read stays where it is."""
    try:
        return bool(ledger.stat().st_size and read_ledger(ledger))
    except LimbeckError:
        return True


def free_folder(stem: str) -> Path:
    """The first of runs/STEM-1, runs/STEM-2, ... that is not taken."""
    return next(path for n in count(1) if not (path := Path("runs") / f"{stem}-{n}").exists())
