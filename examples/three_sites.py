"""Write small tables of made-up rows, to try Limbeck on files: python examples/three_sites.py FOLDER.

Three sites have one CSV file each: site-a.csv, site-b.csv and site-c.csv. Each site knows other jobs. The public rows
(public.csv) have no labels. test.csv has labels, new.csv has none.
"""

import csv
import sys
from pathlib import Path

import numpy as np

JOBS = {"cook": -1.0, "driver": -0.5, "nurse": 0.5, "engineer": 1.5}
TABLES = {  # rows, and the jobs that they have
    "site-a": (300, ["cook", "driver", "nurse"]),
    "site-b": (200, ["driver", "nurse", "engineer"]),
    "site-c": (100, ["cook", "engineer"]),
    "public": (400, [*JOBS]),
    "test": (300, [*JOBS]),
    "new": (10, [*JOBS]),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, (rows, known) in TABLES.items():
        labelled = name not in ("public", "new")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "hours", "job", *(["income"] if labelled else [])])
            for age, hours, job in zip(
                rng.integers(18, 66, rows), rng.integers(10, 50, rows), rng.choice(known, rows), strict=True
            ):
                score = (age - 40) / 12 + (hours - 30) / 10 + JOBS[job] + rng.normal(scale=0.5)
                writer.writerow([age, hours, job, *(["high" if score > 0 else "low"] if labelled else [])])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
