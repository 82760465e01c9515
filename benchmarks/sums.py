"""FedRidge's time: the sum of features by number of rows, relays, the solution, and MNIST among ten parties.

python benchmarks/sums.py

MNIST is measured if it is in the folder LIMBECK_DATA.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from measured import Measured, best, show

from limbeck.algorithms.fedridge import Sums
from limbeck.features.settings import Features
from limbeck.features.sums import gram_of, sums_of
from limbeck.knowledge.ridge import ridge
from limbeck.protocol.relays import Relayed, added_in_groups
from limbeck.protocol.rows import Array, Rows

FEW, MANY = 10**4, 10**6  # rows
COLUMNS, CLASSES, PUBLIC, PARTIES = 20, 10, 5000, 10
RELAYED, RELAYS = 10_000, 100  # parties behind relays


def measure() -> Iterator[Measured]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(MANY, COLUMNS)).astype(np.float32)
    features = Features("fourier").fit(x[:PUBLIC], 0)
    labels = rng.integers(CLASSES, size=len(x))
    features.unit(x[:FEW])  # the first call builds the session
    ways = [partial(sums_of, features, Rows(x[:rows], labels[:rows]), CLASSES) for rows in (MANY, FEW)]
    [many], [few] = best(ways[:1], 1), best(ways[1:], 3)
    each = (1e6 * many / MANY, 1e6 * few / FEW)
    yield Measured(f"sums of features: a row of {MANY}", each[0], "µs", f"a row of {FEW}", each[1], 1.2)
    yield from _relays(rng, (1 + features.width, CLASSES))
    gram, mean = gram_of(features, x[:PUBLIC]) / PUBLIC, rng.normal(size=(1 + features.width, CLASSES))
    [seconds] = best([lambda: ridge(mean, gram, np.array([1e-3, 1e-3]))], 3)
    yield Measured(f"solution with {features.width} features and {CLASSES} classes", seconds, "s")
    file = Path(os.environ.get("LIMBECK_DATA", "."), "mnist.npz")
    if file.exists():
        yield from _images(np.load(file)["x_train"] / np.float32(255))


def _relays(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Measured]:
    """The sums of many parties at the server, and through two levels."""
    none = np.empty((0, 0))
    replies = [Sums(np.rint(rng.normal(size=shape) * 2**20) / 2**20, none) for _ in range(RELAYED // RELAYS)] * RELAYS
    sent = [Relayed(reply, (party,)) for party, reply in enumerate(replies)]

    def through_relays() -> Array:
        below = list(added_in_groups(sent, lambda party: party // (RELAYED // RELAYS)))
        return next(added_in_groups(below, lambda party: 0)).reply.sums

    def at_the_server() -> Array:
        total = np.zeros(shape)
        for reply in replies:
            total += reply.sums
        return total

    if not np.array_equal(through_relays(), at_the_server()):
        raise SystemExit("the sums differ")
    seconds = best([through_relays, at_the_server], 3)
    yield Measured(f"{RELAYED} noisy sums through {RELAYS} relays", seconds[0], "s", "added at the server", seconds[1])


def _images(x: Array) -> Iterator[Measured]:
    features = Features("patches").fit(x[:PUBLIC], 0)
    held = [Rows(part, np.zeros(len(part), np.int64)) for part in np.array_split(x[PUBLIC:], PARTIES)]
    fit, summed = best([lambda: Features("patches").fit(x[:PUBLIC], 0)], 1) + best(
        [lambda: [sums_of(features, rows, CLASSES) for rows in held]], 1
    )
    yield Measured(f"MNIST, {PARTIES} parties: the map", fit, "s")
    yield Measured(f"MNIST, {PARTIES} parties, {len(x) - PUBLIC} rows: all sums", summed, "s")


if __name__ == "__main__":
    show(measure)
