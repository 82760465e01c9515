"""Made-up data sets for docs/studies/skew.md, 8 000 rows each; in most of them no plane separates the classes.

python benchmarks/made_up.py FOLDER
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

ROWS = 8_000


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, (x, y) in (*planeless(), *others()):
        np.savez(folder / f"{name}.npz", x_train=x.astype(np.float32), y_train=y.astype(np.uint8))


def planeless() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Eight Gaussian columns: outside a ring of the first three, and the first two of one sign."""
    x = np.random.default_rng(0).normal(size=(ROWS, 8)).astype(np.float32)
    yield "ring", (x, (x[:, :3] ** 2).sum(axis=1) > 3.2)
    yield "xor", (x, x[:, 0] * x[:, 1] > 0)


def others() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """scikit-learn's, and a ratio of columns with heavy tails; in random order."""
    rng, order = np.random.default_rng(3), np.random.default_rng(0).permutation(ROWS)
    moons, which = datasets.make_moons(ROWS, noise=0.25, random_state=1)
    heavy = (rng.normal(size=(ROWS, 3)), np.exp(rng.normal(size=(ROWS, 6)) * 1.2))
    friedman, level = datasets.make_friedman1(ROWS, n_features=10, noise=1.0, random_state=1)
    hastie, sign = datasets.make_hastie_10_2(ROWS, random_state=1)
    shells = datasets.make_gaussian_quantiles(n_samples=ROWS, n_features=6, n_classes=3, random_state=1)
    found = {
        "moons": (np.hstack([moons, heavy[0]]), which),
        "shells": shells,
        "hastie": (hastie, sign > 0),
        "friedman": (friedman, level > np.median(level)),
        "ratio": (heavy[1], heavy[1][:, 0] * heavy[1][:, 1] > heavy[1][:, 2]),
        "blobs": datasets.make_blobs(ROWS, centers=8, n_features=5, cluster_std=4.0, random_state=2),
        "corners-2": datasets.make_classification(
            ROWS, 20, n_informative=8, n_redundant=4, n_clusters_per_class=3, random_state=4
        ),
        "corners-6": datasets.make_classification(
            ROWS, 15, n_informative=8, n_redundant=3, n_classes=6, n_clusters_per_class=1, random_state=5
        ),
        "rare": datasets.make_classification(
            ROWS, 12, n_informative=6, n_redundant=2, weights=[0.93], flip_y=0.02, random_state=6
        ),
    }
    for name, (x, y) in found.items():
        yield name, (x[order], y[order])


if __name__ == "__main__":
    main()
