"""Networks on a CPU: in a pool of processes, one after the other, and by a plain torch program; in one run, in turns.

python benchmarks/pool.py
"""

from collections.abc import Iterator

import numpy as np
import torch
from measured import Measured, best, show
from plain_networks import train as train_plainly

from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.protocol.recipe import Recipe

NETWORKS, ROWS, EPOCHS, TURNS = 8, 1200, 5, 3


def measure() -> Iterator[Measured]:
    rng = np.random.default_rng(0)
    x, y = rng.random((NETWORKS, ROWS, 28, 28), dtype=np.float32), rng.integers(0, 10, (NETWORKS, ROWS))
    model = model_from({"name": "cnn"})
    jobs = [Fit(model, rows, labels, Recipe(epochs=EPOCHS)) for rows, labels in zip(x, y, strict=True)]

    def plainly() -> None:
        for rows, labels in zip(x, y, strict=True):
            train_plainly(torch.from_numpy(rows)[:, None], torch.from_numpy(labels), EPOCHS, 0)

    pool, sequential, plain = best(
        [
            lambda: PoolTrainer().run(jobs, 10, range(NETWORKS)),
            lambda: SequentialTrainer().run(jobs, 10, range(NETWORKS)),
            plainly,
        ],
        TURNS,
    )
    each, what = 1e3 / (NETWORKS * EPOCHS * -(-ROWS // 32)), "CNNs in a pool of processes: a step and network"
    yield Measured(what, pool * each, "ms", "one after the other", sequential * each)
    yield Measured(what, pool * each, "ms", "plain torch with all threads", plain * each)


if __name__ == "__main__":
    show(measure)
