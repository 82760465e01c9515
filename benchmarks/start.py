"""How soon the program starts: fresh processes, imports included; the best of five counts.

python benchmarks/start.py
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measured import Measured, show

README = Path(__file__).resolve().parents[1] / "README.md"
TURNS = 5


def first_experiment() -> str:
    """The TOML file of README's first experiment: digits, 10 parties, random forests."""
    section = README.read_text(encoding="utf-8").split("## Your first experiment")[1]
    return str(re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[0])


def timed(command: list[str], where: str) -> tuple[float, float]:
    """Seconds until a process has written its first line to stdout or stderr, and until it has ended."""
    began = time.perf_counter()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([sys.executable, *command], cwd=where, **streams) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        first = time.perf_counter() - began
        process.stdout.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return first, time.perf_counter() - began


def best(command: list[str], where: str) -> list[float]:
    """Shortest times of a command until its first line and its end."""
    return [min(times) for times in zip(*(timed(command, where) for _ in range(TURNS)), strict=True)]


def measure() -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as where:
        Path(where, "digits.toml").write_text(first_experiment(), encoding="utf-8")
        _, imported = best(["-c", "import limbeck"], where)
        yield Measured("import limbeck, whole process", imported, "s", at_most=0.1)
        first, whole = best(["-m", "limbeck", "run", "digits.toml"], where)
        _, library = best(["-c", "import sklearn.ensemble"], where)
        yield Measured("limbeck run on digits: first line", first, "s", at_most=0.5)
        yield Measured("limbeck run on digits: whole process", whole, "s", at_most=3)
        yield Measured("limbeck run on digits: whole process", whole, "s", "import of scikit-learn alone", library)
        first, whole = best(["-m", "limbeck", "demo"], where)
        yield Measured("limbeck demo: first line", first, "s", at_most=0.5)
        yield Measured("limbeck demo: whole process", whole, "s")


if __name__ == "__main__":
    show(measure)
