"""How long noise and accounting take: noisy maxima, and epsilon of ten thousand queries as the program answers it."""

import subprocess
import sys
import time

import numpy as np

from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace
from limbeck.protocol.release import NoiseSource

ROWS, CLASSES, REPEATS = 100_000, 10, 5
QUERIES = (
    ["--mechanism", "laplace", "--gamma", "0.05"],
    ["--mechanism", "gumbel", "--gamma", "0.05"],
    ["--mechanism", "gaussian", "--sigma", "40"],
    ["--mechanism", "laplace", "--gamma", "0.05", "--classes", "2", "--voters", "50"],
)


def main() -> None:
    votes = np.random.default_rng(0).integers(0, 50, (ROWS, CLASSES))
    for mechanism in (Laplace(0.05), Gumbel(0.05), Gaussian(20.0)):
        best = min(
            _seconds(lambda m=mechanism, r=r: m.protect(votes, NoiseSource("simulated", r, ()))) for r in range(REPEATS)
        )
        print(f"{ROWS} x {CLASSES} simulated noisy maxima, {mechanism.name}: {best:.3f} s")
    for query in QUERIES:
        command = [sys.executable, "-m", "limbeck", "privacy", "epsilon", "--queries", "10000", *query, "--json"]
        seconds = _seconds(lambda c=command: subprocess.run(c, check=True, capture_output=True))
        print(f"epsilon of 10 000 queries, whole process, {' '.join(query)}: {seconds:.2f} s")


def _seconds(work) -> float:  # type: ignore[no-untyped-def]
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
