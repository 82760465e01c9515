"""FedRidge's time: the sum of features by number of rows, the solution, and MNIST among ten parties.

python benchmarks/sums.py

Times are ratios to the first line, in one run. MNIST is measured if it is in the folder LIMBECK_DATA.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.features.settings import Features
from limbeck.features.sums import gram_of, sums_of
from limbeck.knowledge.ridge import ridge
from limbeck.protocol.rows import Array, Rows

ROWS = (10**4, 10**5, 10**6)
COLUMNS, CLASSES, PUBLIC, PARTIES = 20, 10, 5000, 10


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(max(ROWS), COLUMNS)).astype(np.float32)
    features = Features("fourier").fit(x[:PUBLIC], 0)
    labels = rng.integers(CLASSES, size=len(x))
    features.unit(x[: ROWS[0]])  # the first call builds the session
    first = 0.0
    print("| rows | seconds | time of a row, as a ratio |\n|---|---|---|")
    for rows in ROWS:
        seconds, _ = _timed(partial(sums_of, features, Rows(x[:rows], labels[:rows]), CLASSES))
        first = first or seconds / rows
        print(f"| {rows} | {seconds:.1f} | {seconds / rows / first:.2f} |", flush=True)
    gram, mean = gram_of(features, x[:PUBLIC]) / PUBLIC, rng.normal(size=(1 + features.width, CLASSES))
    seconds, _ = _timed(lambda: ridge(mean, gram, np.array([1e-3, 1e-3])))
    print(f"\nsolution with {features.width} features and {CLASSES} classes: {seconds:.3f} s")
    file = Path(os.environ.get("LIMBECK_DATA", "."), "mnist.npz")
    if file.exists():
        _images(np.load(file)["x_train"] / np.float32(255))


def _images(x: Array) -> None:
    fit, features = _timed(lambda: Features("patches").fit(x[:PUBLIC], 0))
    held = [Rows(part, np.zeros(len(part), np.int64)) for part in np.array_split(x[PUBLIC:], PARTIES)]
    summed, _ = _timed(lambda: [sums_of(features, rows, CLASSES) for rows in held])
    print(f"MNIST, {PARTIES} parties, {len(x) - PUBLIC} rows: map {fit:.1f} s, sums {summed:.1f} s")


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


if __name__ == "__main__":
    main()
