"""Checkpoints: the state of trainings on disk, so that a long run can continue after an interruption."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError
from limbeck.models.stacked.training_run import TrainingRun


@dataclass(slots=True)
class Checkpoints:
    """Folder with one file for each stack, named by a hash of its jobs.

    The folder belongs to the user: `finish` removes only the files of this run's own stacks.

    Parameters
    ----------
    folder : Path
        The folder; it is created when the first file is written.
    every : float
        Seconds between two checkpoints.
    """

    folder: Path
    every: float = 60.0
    _last: float = field(default_factory=time.monotonic)
    _own: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        there = next(path for path in (self.folder, *self.folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise LimbeckError(f"training.checkpoint: {self.folder} cannot be a folder, because {there} is a file")

    @property
    def due(self) -> bool:
        """Whether the next checkpoint is due."""
        return time.monotonic() - self._last >= self.every

    def save(self, key: str, trainings: Sequence[TrainingRun]) -> None:
        """Write the state of a stack's trainings to its file."""
        begun = [training for training in trainings if training.state]
        tensors = {
            f"{training.name}/{kind}/{name}": values.contiguous()
            for training in begun
            for kind, state in (("state", training.state), ("best", training.best))
            for name, values in state.items()
        }
        saved = {
            training.name: {
                "done": training.done,
                "best": training.early_stopping.best,
                "waited": training.early_stopping.waited,
            }
            for training in begun
        }
        with AtomicFile(self._file(key)) as file:
            file.write(save(tensors, {"trainings": json.dumps(saved)}))
        self._last = time.monotonic()

    def restore(self, key: str, trainings: Sequence[TrainingRun]) -> None:
        """Load the state of a stack's trainings from its file, if there is one."""
        if not (file := self._file(key)).exists():
            return
        try:
            with safe_open(file, "pt") as file_content:
                saved = json.loads(file_content.metadata()["trainings"])
                names = [name.split("/", 2) for name in file_content.keys()]  # noqa: SIM118
                for training in trainings:
                    if (entry := saved.get(training.name)) is None:
                        continue
                    training.done = int(entry["done"])
                    training.early_stopping.best, training.early_stopping.waited = (
                        float(entry["best"]),
                        int(entry["waited"]),
                    )
                    for whose, kind, name in names:
                        if whose == training.name:
                            getattr(training, kind)[name] = file_content.get_tensor(f"{whose}/{kind}/{name}")
        except Exception as error:  # of safetensors, of JSON, or of wrong contents
            raise LimbeckError(f"{file} is not a checkpoint; delete it to start its training again") from error

    def finish(self) -> None:
        """Remove the files of this run's stacks, and the folder if it is then empty."""
        for name in self._own:
            for file in (self.folder / name, *self.folder.glob(f".{name}-*")):  # the latter if killed while writing
                file.unlink(missing_ok=True)
        if self._own and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, key: str) -> Path:
        name = f"{key[:32]}.safetensors"
        self._own.add(name)
        return self.folder / name
