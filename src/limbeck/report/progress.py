"""Progress of long work: a bar on a terminal, one quiet line when piped."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LONG = 1.0  # seconds: of fifty rounds of short work one line is enough


@dataclass(frozen=True, slots=True)
class Watcher:
    """Passes results on as they come and shows how far the work is."""

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
