"""Adult with its positive rows thinned to one of twenty, as a file of arrays: `python examples/rare.py FOLDER`.

Needs adult_a9a.npz in the folder that LIMBECK_DATA names; after `limbeck data get adult`, give the name adult as well:
`python examples/rare.py FOLDER adult`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

SHARE = 0.05


def thinned(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of all negative rows, and of so many positive ones that they are SHARE of all rows, in order."""
    negative, positive = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    count = round(len(negative) * SHARE / (1 - SHARE))
    return np.sort(np.concatenate([negative, rng.choice(positive, count, replace=False)]))


def main(folder: Path, name: str = "adult_a9a") -> None:
    """Write FOLDER/adult_rare.npz."""
    whole, rng = np.load(Path(os.environ["LIMBECK_DATA"], f"{name}.npz")), np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        y = np.unique(whole[f"y_{part}"], return_inverse=True)[1]
        rows = thinned(y, rng)
        arrays |= {f"x_{part}": whole[f"x_{part}"][rows], f"y_{part}": np.array(["no", "yes"])[y[rows]]}
    np.savez(folder / "adult_rare.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
