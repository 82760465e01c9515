"""Write small tables of made-up reviews, to try Limbeck on texts: python examples/reviews.py FOLDER.

Three sites have one CSV file each: site-a.csv, site-b.csv and site-c.csv, with the columns review and mark. The public
texts (public.csv) have no mark. test.csv has marks, new.csv has none.
"""

import csv
import sys
from pathlib import Path

import numpy as np

WORDS = {
    "good": ["great", "moving", "funny", "brilliant", "warm", "clever"],
    "bad": ["dull", "awful", "endless", "flat", "noisy", "silly"],
}
OTHERS = ["the", "film", "plot", "actors", "music", "scene", "story", "and", "with", "this", "was", "a"]
TABLES = {"site-a": 150, "site-b": 100, "site-c": 50, "public": 200, "test": 100, "new": 5}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, rows in TABLES.items():
        labelled = name not in ("public", "new")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["review", *(["mark"] if labelled else [])])
            for mark in rng.choice(list(WORDS), rows):
                words = rng.permutation([*rng.choice(WORDS[mark], 2), *rng.choice(OTHERS, 8)])
                writer.writerow([" ".join(words), *([mark] if labelled else [])])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
