"""Networks on a CPU: in a pool of processes, one after the other, and by a plain torch program; in one run, in turns.

python benchmarks/pool.py
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from joblib import cpu_count
from plain_networks import train as train_plainly

from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.protocol.recipe import Recipe

NETWORKS, ROWS, EPOCHS, TURNS = 8, 1200, 5, 3


def main() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((NETWORKS, ROWS, 28, 28), dtype=np.float32), rng.integers(0, 10, (NETWORKS, ROWS))
    model = model_from({"name": "cnn"})
    jobs = [Fit(model, rows, labels, Recipe(epochs=EPOCHS)) for rows, labels in zip(x, y, strict=True)]
    ways: dict[str, Callable[[], object]] = {
        f"pool of {cpu_count()}": lambda: PoolTrainer().run(jobs, 10, range(NETWORKS)),
        "sequential": lambda: SequentialTrainer().run(jobs, 10, range(NETWORKS)),
        f"plain torch, {torch.get_num_threads()} threads": lambda: [
            train_plainly(torch.from_numpy(rows)[:, None], torch.from_numpy(labels), EPOCHS, 0)
            for rows, labels in zip(x, y, strict=True)
        ],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    best = [min(seconds) for seconds in times.values()]
    steps = NETWORKS * EPOCHS * -(-ROWS // 32)
    for name, seconds in zip(times, best, strict=True):
        each, ratio = seconds / steps * 1e3, seconds / best[0]
        print(f"{name}: {seconds:.2f} s, {each:.2f} ms a step and network; {ratio:.2f} times the pool's")


if __name__ == "__main__":
    main()
