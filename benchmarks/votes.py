"""Counting and noising votes: 1 000 000 rows, 100 classes.

python benchmarks/votes.py
"""

import resource
from collections.abc import Iterator

import numpy as np
from measured import Measured, best, show

from limbeck.knowledge.votes import add_votes, consistent_votes, no_votes, tally, winners
from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace
from limbeck.protocol.release import NoiseSource
from limbeck.protocol.rows import Array

ROWS, CLASSES = 1_000_000, 100
VOTERS, MANY = 50, 1000
TURNS = 2


def measure() -> Iterator[Measured]:
    yield from _one_by_one()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, (VOTERS, ROWS), dtype=np.uint8)
    yield _beside_numpy(f"votes of {VOTERS} voters", lambda: tally(labels, CLASSES), lambda: _plain(labels))
    pairs = np.stack([labels, np.where(rng.random(labels.shape) < 0.8, labels, 0)], axis=1).astype(np.uint8)
    ours, plain = lambda: consistent_votes(pairs, CLASSES), lambda: _plain_consistent(pairs)
    yield _beside_numpy(f"consistent votes of {VOTERS} parties", ours, plain)
    counts = tally(labels, CLASSES)
    yield _beside_numpy("winners", lambda: winners(counts), lambda: counts.astype(np.int64).argmax(axis=1))
    for mechanism, draw in ((Laplace(0.05), "laplace"), (Gumbel(0.05), "gumbel"), (Gaussian(20.0), "normal")):
        seconds = best(
            [
                lambda m=mechanism: m.protect(counts, NoiseSource("simulated", 0, ())),  # type: ignore[misc]
                lambda d=draw: getattr(np.random.default_rng(0), d)(size=counts.shape),  # type: ignore[misc]
            ],
            1,
        )
        yield Measured(f"noisy maxima, {mechanism.name}", seconds[0], "s", "drawing the noise alone", seconds[1], 1.5)


def _one_by_one() -> Iterator[Measured]:
    """The server's part of FedKT with many parties: one party's labels at a time."""
    rng, counts = np.random.default_rng(0), no_votes(ROWS, CLASSES, MANY)
    own = rng.integers(0, CLASSES, (1, ROWS), dtype=np.uint8)

    def count() -> None:
        for _ in range(MANY):
            add_votes(counts, own, consistent=True)

    [seconds] = best([count], 1)
    yield Measured(f"votes of {MANY} parties, one by one", seconds, "s", at_most=60)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    yield Measured(f"votes of {MANY} parties, one by one: memory of the program", memory, "GB", at_most=1)


def _beside_numpy(what: str, ours: object, plain: object) -> Measured:
    mine, other = best([ours, plain], TURNS)  # type: ignore[list-item]
    return Measured(what, mine, "s", "plain NumPy on whole arrays", other, 1.0)


def _plain(labels: Array) -> Array:
    index = np.arange(ROWS) * CLASSES + labels
    return np.bincount(index.ravel(), minlength=ROWS * CLASSES).reshape(ROWS, CLASSES)


def _plain_consistent(labels: Array) -> Array:
    party, row = np.nonzero((labels == labels[:, :1]).all(axis=1))
    index = row * CLASSES + labels[party, 0, row]
    return np.asarray(labels.shape[1] * np.bincount(index, minlength=ROWS * CLASSES).reshape(ROWS, CLASSES))


if __name__ == "__main__":
    show(measure)
