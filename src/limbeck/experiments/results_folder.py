"""Results folders: finished runs of comparisons, one small JSON file each. A finished run is never repeated."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError, reading
from limbeck.experiments.cached_runs import CachedResult
from limbeck.locks import locked


@dataclass(frozen=True, slots=True)
class Merged:
    """Numbers of merged runs.

    Parameters
    ----------
    new : int
        Runs that were added.
    same : int
        Runs that were there already, with the same metrics.
    different : int
        Runs that were there already, with other metrics; the existing result stays.
    """

    new: int
    same: int
    different: int


@dataclass(frozen=True, slots=True)
class Results:
    """Folder of cached results, `runs/KEY.json`. A file is written atomically, and never again.

    Parameters
    ----------
    folder : Path
        The folder.
    """

    folder: Path

    @property
    def runs(self) -> Path:
        """Folder of the results' files."""
        return self.folder / "runs"

    def find(self, key: str) -> CachedResult | None:
        """Result of a key; None if there is none."""
        path = self.runs / f"{key}.json"
        if not path.exists():
            return None
        with reading(path):
            return CachedResult.from_json(path.read_text(encoding="utf-8"), key, str(path))

    def keep(self, result: CachedResult) -> None:
        """Store a result, unless there is one with the same key."""
        path = self.runs / f"{result.key}.json"
        if path.exists():
            return
        try:
            with AtomicFile(path) as file:
                file.write(result.to_json().encode())
        except OSError as error:
            raise LimbeckError(f"cannot write {path}: {error.strerror}") from error

    def alone(self) -> AbstractContextManager[None]:
        """Context manager that locks the folder against other comparisons; the lock ends with the process."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LimbeckError(f"cannot write to {self.folder}: {error.strerror}") from error
        problem = f"another comparison uses {self.folder}: wait for it, or name another folder with --out"
        return locked(self.folder / ".lock", problem)

    def merge(self, other: "Results") -> Merged:
        """Add results from another folder; all are checked before the first is added.

        Parameters
        ----------
        other : Results
            Folder from another machine.

        Returns
        -------
        Merged
            How many results were new, the same, or different.
        """
        if not other.runs.is_dir():
            raise LimbeckError(f"{other.folder} is not a results folder: it has no folder `runs`")
        theirs = [result for path in sorted(other.runs.glob("[!.]*.json")) if (result := other.find(path.stem))]
        with self.alone():
            ours = [self.find(result.key) for result in theirs]
            for result in theirs:
                self.keep(result)
        new = ours.count(None)
        same = sum(
            mine is not None and mine.metrics == result.metrics for mine, result in zip(ours, theirs, strict=True)
        )
        return Merged(new, same, len(theirs) - new - same)
