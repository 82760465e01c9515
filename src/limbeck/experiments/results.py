"""The results folder: finished cells, one small JSON file each, never run twice."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError, reading
from limbeck.experiments.cached_runs import CachedResult
from limbeck.locks import locked


@dataclass(frozen=True, slots=True)
class Merged:
    """How many cells came in, were here already, or were here with another outcome (ours was kept)."""

    new: int
    same: int
    different: int


@dataclass(frozen=True, slots=True)
class Results:
    """`cells/KEY.json` in a folder; a file appears whole or not at all and is never written again."""

    folder: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def find(self, key: str) -> CachedResult | None:
        path = self.runs / f"{key}.json"
        if not path.exists():
            return None
        with reading(path):
            return CachedResult.from_json(path.read_text(encoding="utf-8"), key, str(path))

    def keep(self, result: CachedResult) -> None:
        path = self.runs / f"{result.key}.json"
        if path.exists():
            return
        try:
            with AtomicFile(path) as file:
                file.write(result.to_json().encode())
        except OSError as error:
            raise LimbeckError(f"cannot write {path}: {error.strerror}") from error

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else runs cells into this folder meanwhile; the lock goes with the process, however it ends."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LimbeckError(f"cannot write to {self.folder}: {error.strerror}") from error
        problem = f"another comparison runs into {self.folder}: wait for it, or name another folder with --out"
        return locked(self.folder / ".lock", problem)

    def merge(self, other: "Results") -> Merged:
        """Take in cells that were made elsewhere; all are read and checked before the first is taken."""
        if not other.runs.is_dir():
            raise LimbeckError(f"{other.folder} is not a results folder: it has no folder cells")
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
