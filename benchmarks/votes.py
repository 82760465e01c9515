"""Counting and noising votes: 1 000 000 rows, 100 classes, 50 parties with 2 students each.

python benchmarks/votes.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from limbeck.knowledge.votes import consistent_votes, tally, winners
from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace
from limbeck.protocol.release import NoiseSource

ROWS, CLASSES, PARTIES, STUDENTS = 1_000_000, 100, 50, 2


def timed(name: str, work: Callable[[], Any], least: float) -> Any:
    """`least` is the bytes that must be read and written."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - began)
    best = min(times)
    print(f"{name}: {best:.2f} s; {best / least:.1f} times a copy of the {bytes_of(least)} that it must move")
    return found


def bytes_of(seconds: float) -> str:
    return f"{seconds * BANDWIDTH / 2**30:.1f} GiB"


def bandwidth() -> float:
    """Bytes a second that NumPy reads and writes when it copies."""
    source = np.ones(2**27, np.int8)
    target = np.empty_like(source)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - began)
    return 2 * source.nbytes / min(times)


BANDWIDTH = bandwidth()


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"a copy moves {BANDWIDTH / 2**30:.1f} GiB/s")
    labels = rng.integers(0, CLASSES, (PARTIES, STUDENTS, ROWS), dtype=np.int64)
    labels[:, 1] = np.where(rng.random((PARTIES, ROWS)) < 0.8, labels[:, 0], labels[:, 1])
    counts = ROWS * CLASSES * 8
    timed("tally of 50 voters", lambda: tally(labels[:, 0], CLASSES), (labels.nbytes / 2 + counts) / BANDWIDTH)
    votes = timed("consistent votes", lambda: consistent_votes(labels, CLASSES), (labels.nbytes + counts) / BANDWIDTH)
    timed("winners", lambda: winners(votes), counts / BANDWIDTH)
    for mechanism in (Laplace(0.05), Gumbel(0.05), Gaussian(20.0)):
        noisy = lambda m=mechanism: m.protect(votes, NoiseSource("simulated", 0, ()))  # noqa: E731
        timed(f"noisy maxima, {mechanism.name}", noisy, counts / BANDWIDTH)


if __name__ == "__main__":
    main()
