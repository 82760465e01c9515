"""Run folders: write access is checked before any training, and the folder is written atomically."""

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
LEDGER = "ledger.sqlite"  # in a run's folder; always readable by its owner only


class RunFolder:
    """Context manager for a new run folder; nothing remains unless `write` is called.

    Parameters
    ----------
    path : Path
        The folder, which must not exist.
    private : bool
        Whether only the owner may read it, as for a real run.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place, RunFolder(Path(place) / "run") as folder:
    ...     folder.write({"record.json": b"{}"}).name
    'run'
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
        """Write the folder.

        Parameters
        ----------
        files : mapping of str to bytes
            Content of each file, by its path within the folder.

        Returns
        -------
        Path
            The folder. If another run has taken the name in the meantime, a number is added to it.
        """
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
            raise LimbeckError(f"cannot write {self.path}: {error.strerror}; nothing was written") from error

    def _named(self) -> Path:
        for number in count(1):
            path = self.path if number == 1 else self.path.with_name(f"{self.path.name}-{number}")
            try:
                os.rename(self._temporary, path)  # atomic, so a killed program leaves no incomplete folder
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
    """Context manager for the ledger of a run.

    A run's own ledger is beside its folder until the run has ended. If the program is killed, the ledger remains, and
    the same run resumes with it. It is removed if nothing was released.

    Parameters
    ----------
    folder : Path
        The run's folder.
    named_ledger : Path or None
        Ledger that several runs share, if the experiment names one.

    Yields
    ------
    Path
        The shared ledger, or the run's own.
    """
    path = named_ledger or folder.with_name(f"{folder.name}.{LEDGER}")
    began = path.exists()
    try:
        yield path
    finally:
        if named_ledger is None and not began and path.exists() and not _holds_releases(path):
            remove_ledger(path)


def ledger_files(ledger: Path) -> dict[str, bytes]:
    """Files of a run's own ledger for its folder: the ledger and its head, without the secret, which is not needed."""
    path, head, *_ = files_of(ledger)
    return {LEDGER: path.read_bytes(), head.name.replace(path.name, LEDGER): head.read_bytes()}


def remove_ledger(ledger: Path) -> None:
    """Remove a run's own ledger and all files that belong to it."""
    for path in files_of(ledger):
        path.unlink(missing_ok=True)


def _holds_releases(ledger: Path) -> bool:
    """Whether anything may have been released; True if the ledger cannot be read."""
    try:
        return bool(ledger.stat().st_size and read_ledger(ledger))
    except LimbeckError:
        return True


def free_folder(stem: str) -> Path:
    """First of the folders runs/STEM-1, runs/STEM-2, ... that does not exist."""
    return next(path for n in count(1) if not (path := Path("runs") / f"{stem}-{n}").exists())
