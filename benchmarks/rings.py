"""Classes that no plane parts, as data sets for docs/skew.md: `ring` and `xor`, 8 000 rows of eight Gaussian columns.

python benchmarks/rings.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 8_000, 8


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    far, alike = (x[:, :3] ** 2).sum(axis=1) > 3.2, x[:, 0] * x[:, 1] > 0
    for name, y in (("ring", far), ("xor", alike)):
        np.savez(folder / f"{name}.npz", x_train=x, y_train=y.astype(np.uint8))


if __name__ == "__main__":
    main()
