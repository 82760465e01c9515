"""The plain program that Limbeck is measured against: joblib fits and asks the forests of FedKT on Adult, no more.

10 parties, s = 2, t = 5: 100 teachers on subsets, 20 students and a final forest on the public rows. Nothing is
packed, weighed, released or written. It prints the accuracy, and the seconds of all fits and predictions together.
"""

import json
import os
import time

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

PARTIES, PARTITIONS, SUBSETS, BETA, MIN_ROWS, PUBLIC = 10, 2, 5, 0.5, 10, 4070
Rows = NDArray[np.float32]
Labels = NDArray[np.int64]


def ask(x: Rows, y: Labels, public: Rows, seed: int) -> Labels:
    forest = RandomForestClassifier(100, max_depth=6, random_state=seed).fit(x, y)
    return np.asarray(forest.predict(public), np.int64)


def main() -> None:
    with np.load(os.path.join(os.environ["LIMBECK_DATA"], "adult_a9a.npz")) as arrays:
        x, y = arrays["x_train"].astype(np.float32), arrays["y_train"].astype(np.int64)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    public, test, private = order[:PUBLIC], order[PUBLIC : 2 * PUBLIC], order[2 * PUBLIC :]
    held: list[Labels] = []
    while min(map(len, held), default=0) < MIN_ROWS:
        by_class = [rng.permutation(private[y[private] == label]) for label in (0, 1)]
        cuts = [(np.cumsum(rng.dirichlet([BETA] * PARTIES))[:-1] * len(rows)).astype(int) for rows in by_class]
        split = [np.split(rows, cut) for rows, cut in zip(by_class, cuts, strict=True)]
        held = [np.concatenate(parts) for parts in zip(*split, strict=True)]
    subsets = [s for rows in held for _ in range(PARTITIONS) for s in np.array_split(rng.permutation(rows), SUBSETS)]
    Parallel(2)(delayed(ask)(x[:9], y[:9], x[:9], 0) for _ in range(8))  # starts the processes
    began = time.perf_counter()
    teachers = Parallel(2)(delayed(ask)(x[rows], y[rows], x[public], 0) for rows in subsets)
    votes = np.stack(teachers).reshape(-1, SUBSETS, PUBLIC)
    taught = (votes.mean(axis=1) > 0.5).astype(np.int64)
    students = np.stack(Parallel(2)(delayed(ask)(x[public], labels, x[public], 0) for labels in taught))
    agreed = students.reshape(PARTIES, PARTITIONS, PUBLIC)
    ones, zeros = agreed.all(axis=1).sum(axis=0), (1 - agreed).all(axis=1).sum(axis=0)
    final = RandomForestClassifier(100, max_depth=6, random_state=0).fit(x[public], ones > zeros)
    seconds = time.perf_counter() - began
    print(json.dumps({"accuracy": float((final.predict(x[test]) == y[test]).mean()), "seconds": seconds}))


if __name__ == "__main__":
    main()
