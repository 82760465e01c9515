"""Checkpoints: courses on disk, so that a long training goes on after an interruption, on another machine too."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save

from limbeck.drafts import Draft
from limbeck.errors import LimbeckError
from limbeck.models.stacked.course import Course, cpu

EVERY = 60.0  # seconds


@dataclass(slots=True)
class Checkpoints:
    """A folder with a file for each stack, named by the content of its jobs.

    The folder is the user's: `finish` removes the files of this run's own stacks, and nothing else.
    """

    folder: Path
    every: float = EVERY
    _last: float = field(default_factory=time.monotonic)
    _own: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        there = next(path for path in (self.folder, *self.folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise LimbeckError(f"training.checkpoint: {self.folder} cannot be a folder, for {there} is a file")

    @property
    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def save(self, key: str, courses: Sequence[Course]) -> None:
        begun = [course for course in courses if course.state]
        tensors = {
            f"{course.name}/{kind}/{name}": values
            for course in begun
            for kind, state in (("state", course.state), ("best", course.best))
            for name, values in cpu(state).items()
        }
        told = {course.name: course.told() for course in begun}
        with Draft(self._file(key)) as file:
            file.write(save(tensors, {"courses": json.dumps(told)}))
        self._last = time.monotonic()

    def restore(self, key: str, courses: Sequence[Course]) -> bool:
        """Bring courses to where they were; False where nothing is known of them."""
        if not (file := self._file(key)).exists():
            return False
        try:
            with safe_open(file, "pt") as kept:
                told = json.loads(kept.metadata()["courses"])
                names = [name.split("/", 2) for name in kept.keys()]  # noqa: SIM118
                for course in courses:
                    if (said := told.get(course.name)) is None:
                        continue
                    course.done = int(said["done"])
                    course.patience.best, course.patience.waited = float(said["best"]), int(said["waited"])
                    for whose, kind, name in names:
                        if whose == course.name:
                            getattr(course, kind)[name] = kept.get_tensor(f"{whose}/{kind}/{name}")
        except Exception as error:  # safetensors' own type, JSON's, and what a wrong shape of either leads to
            raise LimbeckError(f"{file} is not a checkpoint; delete it, and its training begins anew") from error
        return True

    def finish(self) -> None:
        """All is done: nothing needs to go on. A folder that held nothing else goes too."""
        for name in self._own:
            for file in (self.folder / name, *self.folder.glob(f".{name}-*")):  # the latter from a kill amid writing
                file.unlink(missing_ok=True)
        if self._own and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, key: str) -> Path:
        name = f"{key[:32]}.safetensors"
        self._own.add(name)
        return self.folder / name
