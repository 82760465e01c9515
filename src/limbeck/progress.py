"""Progress of long work: a bar in a terminal or a notebook, one line if the output is piped."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing import current_process
from threading import current_thread, main_thread
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from limbeck.errors import LimbeckError, shown

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
        return self._bar(results, total, label) if self._has_bars else self._line(results, label)

    @property
    def _has_bars(self) -> bool:
        """Whether a bar can be drawn: in a terminal, or in a notebook with ipywidgets."""
        return self.console.is_terminal or (self.console.is_jupyter and find_spec("ipywidgets") is not None)

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


def watcher(
    progress: bool | None, console: Console | None = None
) -> Callable[[Iterable[Any], int], Iterable[Any]] | None:
    """Return what shows the progress of a run in Python.

    Parameters
    ----------
    progress : bool or None
        Whether to show it; None shows it in a terminal and in a notebook only, and not for runs side by side.
    console : rich.console.Console or None
        Where it is shown; None means stderr.

    Returns
    -------
    callable or None
        A `Watcher`, or None if nothing is shown.

    Examples
    --------
    >>> watcher(False) is None
    True
    """
    if progress is not None and not isinstance(progress, bool):
        raise LimbeckError(f"progress must be True, False or None, not {shown(progress)}")
    console = console or Console(stderr=True)
    is_seen = (console.is_terminal or console.is_jupyter) and _is_main()
    return Watcher(console) if (is_seen if progress is None else progress) else None


def _is_main() -> bool:
    """Whether this is the main thread of the program: the bars of runs side by side would overwrite each other."""
    return current_thread() is main_thread() and current_process().name == "MainProcess"
