"""FedKT on Adult with 10 parties: `limbeck run`, whole, against a plain joblib program that only fits and asks.

Both start as fresh processes, imports included, in turns; the best of three counts.
Needs adult_a9a.npz in LIMBECK_DATA:  make bench
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CPU = Path(__file__).parent
EXPERIMENT = CPU.parent / "examples" / "adult.toml"
TURNS = 3


def seconds(command: list[str], where: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=where, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    folder = os.environ.get("LIMBECK_DATA")
    if not folder or not (Path(folder) / "adult_a9a.npz").exists():
        sys.exit("this benchmark needs adult_a9a.npz in the folder that LIMBECK_DATA names")
    os.environ["LIMBECK_DATA"] = str(Path(folder).resolve())
    limbeck = [sys.executable, "-m", "limbeck", "run", str(EXPERIMENT), "--json"]
    plain = [sys.executable, str(CPU / "plain_forests.py")]
    with tempfile.TemporaryDirectory() as where:
        turns = [(seconds(limbeck, where), seconds(plain, where)) for _ in range(TURNS)]
    ours, theirs = (min(times) for times in zip(*turns, strict=True))
    print(f"limbeck run {ours:.1f} s, plain joblib program {theirs:.1f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
