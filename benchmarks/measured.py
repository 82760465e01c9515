"""What a benchmark measures: values beside others of the same run.

A benchmark is a script with a function `measure`, which yields rows, and ends with `show(measure)`. Run alone, it
prints its rows. With `--json FILE` it also writes them, which `benchmarks/run_all.py` collects.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured value beside another one of the same run.

    Parameters
    ----------
    what : str
        What was measured, for example "FedAvg on MNIST, 10 clients: a round".
    value : float
        The value of Limbeck.
    unit : str
        Its unit, for example "s", "ms" or "GB".
    beside : str
        What it is compared with, for example "plain torch, two processes"; empty if the value stands alone.
    other : float or None
        The value of that, in the same unit and run.
    at_most : float or None
        Goal: the largest ratio of the two; for a value that stands alone, the largest value.
    """

    what: str
    value: float
    unit: str
    beside: str = ""
    other: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        """The value divided by the other one."""
        return None if self.other is None else self.value / self.other

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None if there is none."""
        reached = self.value if self.ratio is None else self.ratio
        return None if self.at_most is None else reached <= self.at_most

    def __str__(self) -> str:
        beside = "" if self.other is None else f"; {self.beside} {self.other:.3g} {self.unit}, ratio {self.ratio:.2f}"
        goal = "" if self.at_most is None else f" (goal: at most {self.at_most:g}, {'met' if self.met else 'not met'})"
        return f"{self.what}: {self.value:.3g} {self.unit}{beside}{goal}"


def best(ways: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Shortest time of each way in seconds; the ways take turns, so that what else the machine does hits all."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(turns):
        for way, found in zip(ways, times, strict=True):
            began = time.perf_counter()
            way()
            found.append(time.perf_counter() - began)
    return [min(found) for found in times]


def data_folder(*files: str) -> Path:
    """Folder that LIMBECK_DATA names, or end with one line if it lacks one of the files."""
    folder = Path(os.environ.get("LIMBECK_DATA", ""))
    missing = [name for name in files if not (folder / name).is_file()]
    if missing or "LIMBECK_DATA" not in os.environ:
        sys.exit(f"this benchmark needs {', '.join(files)} in the folder that LIMBECK_DATA names")
    return folder.resolve()


def show(measure: Callable[[], Iterable[Measured]]) -> None:
    """Measure, print the rows, and write them if the command line asks for it."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--json", type=Path, help="file for the rows")
    file = parser.parse_args().json
    rows = []
    for row in measure():
        print(row, flush=True)
        rows.append(row)
    if file:
        file.write_text(json.dumps([asdict(row) for row in rows]))
