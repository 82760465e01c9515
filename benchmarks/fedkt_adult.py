"""FedKT on Adult: `limbeck run`, whole, against a plain joblib program that only fits and asks scikit-learn's forests.

Both start as fresh processes, imports included, in turns; the best of three counts. Needs adult_a9a.npz in
LIMBECK_DATA:  python benchmarks/fedkt_adult.py
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measured import Measured, data_folder, show

CPU = Path(__file__).resolve().parent
EXPERIMENT = CPU.parent / "examples" / "adult.toml"
LIMBECK = [sys.executable, "-m", "limbeck", "run", str(EXPERIMENT), "--json"]
PLAIN = [sys.executable, str(CPU / "plain_forests.py")]
TURNS = 3
WHOLE = "FedKT on Adult, {} parties: limbeck run, whole process"


def timed(command: list[str], where: str) -> tuple[float, float]:
    """Seconds of a whole process, and the seconds that its JSON output gives for learning."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=where, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, json.loads(done.stdout)["seconds"]


def measure() -> Iterator[Measured]:
    os.environ["LIMBECK_DATA"] = str(data_folder("adult_a9a.npz"))
    with tempfile.TemporaryDirectory() as where:
        turns = [(*timed(LIMBECK, where), *timed(PLAIN, where)) for _ in range(TURNS)]
        ours, learning, theirs, fits = (min(times) for times in zip(*turns, strict=True))
        yield Measured(WHOLE.format(10), ours, "s", at_most=6)
        yield Measured(WHOLE.format(10), ours, "s", "plain joblib program, whole process", theirs, at_most=1)
        floor = "scikit-learn's fits and predictions in two processes"
        yield Measured("FedKT on Adult, 10 parties: learning", learning, "s", floor, fits, at_most=1)
        many = min(timed([*LIMBECK, "--set", "data.parties=50"], where)[0] for _ in range(TURNS))
        yield Measured(WHOLE.format(50), many, "s", at_most=20)


if __name__ == "__main__":
    show(measure)
