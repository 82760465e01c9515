"""Make the files of a federation of three sites from Adult: python examples/adult_sites.py FOLDER.

Reads adult_a9a.npz from LIMBECK_DATA, undoes its one-hot columns, and writes site-a.csv, site-b.csv and site-c.csv with
different sets of categories, public.csv, test.csv, new.csv and sites.toml.
"""

import csv
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ENDS = {  # where each column's block of a9a's 123 binary features ends
    **{"age": 5, "workclass": 13, "fnlwgt": 18, "education": 34, "education_num": 39, "marital": 46},
    **{
        "occupation": 60,
        "relationship": 66,
        "race": 71,
        "sex": 73,
        "gain": 75,
        "loss": 77,
        "hours": 82,
        "country": 123,
    },
}
NUMBERS = {"age", "education_num", "hours"}
LACKS = {"site-a": ("occupation", {"o0", "o1", "o2"}), "site-b": ("country", {"c38"}), "site-c": ("marital", {"m0"})}
SITES = """[data]
label = "income"
public = { path = "public.csv" }
test = { path = "test.csv" }

[model]
name = "random-forest"
max_depth = 8

[[party]]
index = 0
data = "site-a.csv"

[[party]]
index = 1
data = "site-b.csv"
model = { name = "xgboost" }

[[party]]
index = 2
data = "site-c.csv"
model = { name = "logistic-regression" }

[algorithm]
name = "fedkt"
"""


def columns(row: NDArray[np.uint8]) -> dict[str, str]:
    values, start = {}, 0
    for name, end in ENDS.items():
        held = np.flatnonzero(row[start:end])
        values[name] = "" if not len(held) else str(held[0] + 1) if name in NUMBERS else f"{name[0]}{held[0]}"
        start = end
    return values


def write(path: Path, rows: NDArray[np.uint8], labels: NDArray[np.uint8], labelled: bool) -> None:
    column, absent = LACKS.get(path.stem, ("", set()))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ENDS, *(["income"] if labelled else [])])
        writer.writeheader()
        for row, label in zip(rows, labels, strict=True):
            line = columns(row)
            if line.get(column) not in absent:
                writer.writerow(line | ({"income": (">50K" if label else "<=50K")} if labelled else {}))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(Path(os.environ["LIMBECK_DATA"]) / "adult_a9a.npz") as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    order = np.random.default_rng(0).permutation(len(x))
    ends = {"site-a": 3000, "site-b": 6000, "site-c": 8000, "public": 10_000, "test": 12_000, "new": 12_100}
    start = 0
    for name, end in ends.items():
        part = order[start:end]
        write(folder / f"{name}.csv", x[part], y[part], labelled=name not in ("public", "new"))
        start = end
    (folder / "sites.toml").write_text(SITES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
