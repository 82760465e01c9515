"""Progress of long work: a bar in a terminal, one line if the output is piped."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LONG = 1.0  # seconds from which repeated work gets a line each time


@dataclass(frozen=True, slots=True)
class Watcher:
    """Pass results on as they arrive, and show the progress.

    Parameters
    ----------
    console : rich.console.Console
        Where the progress is shown.
    verb : str
        What is done, for example `fitting`.
    noun : str
        What it is done to, in the singular.
    """

    console: Console
    verb: str = "fitting"
    noun: str = "model"
    _announced: set[str] = field(default_factory=set)

    def __call__(self, results: Iterable[Any], total: int) -> Iterable[Any]:
        label = f"{self.verb} {total} {self.noun}{'s' if total > 1 else ''}"
        return self._bar(results, total, label) if self.console.is_terminal else self._line(results, label)

    def _bar(self, results: Iterable[Any], total: int, label: str) -> Iterable[Any]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield from progress.track(results, total=total, description=label)

    def _line(self, results: Iterable[Any], label: str) -> Iterable[Any]:
        began = time.perf_counter()
        yield from results
        seconds = time.perf_counter() - began
        if seconds >= LONG or label not in self._announced:
            self.console.print(f"{label}: {seconds:.1f} s", highlight=False)
            self._announced.add(label)
