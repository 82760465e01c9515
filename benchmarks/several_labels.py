"""Several labels a row: a federation in which no party knows all classes, and whether a second domain helps.

LIMBECK_DATA=FOLDER python benchmarks/several_labels.py [--seeds 5] [--methods solo,fedkd,...]   # needs mnist, femnist

The experiment is examples/mosaics.toml. Each model is evaluated on the test rows of both domains (the mean over the ten
classes), and on those of each domain alone (the classes that this domain labels). A single domain has its own three
parties, with the same split. For `solo` and `fedmd`, the table shows the best party.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from limbeck.data.sets import DataSet, load
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.metrics import metrics_of_several
from limbeck.experiments.overrides import override
from limbeck.experiments.result import FinishedRun
from limbeck.experiments.run import run_experiment
from limbeck.protocol.task import UNKNOWN

FILE = Path("examples/mosaics.toml")
DOMAINS = ("mnist-mosaics-0-7", "femnist-mosaics-4-9")
METHODS: Mapping[str, list[str]] = {
    "solo": ["algorithm={name='solo'}"],
    "fedkd": [],
    "fedkd, noise at epsilon 10": [
        "algorithm.mechanism=gaussian",
        "algorithm.epsilon=10.0",
        "algorithm.weights=equal",
    ],
    "fedvote": ["algorithm={name='fedvote'}"],
    "fedmd": ["algorithm={name='fedmd',rounds=10,start='none',revisit={epochs=2,batch=64}}"],
    "fedavg": ["algorithm={name='fedavg',rounds=15,local={epochs=4,batch=64}}"],
    "fedridge": ["algorithm={name='fedridge',features={number=1000}}"],
    "fedridge L2, epsilon 3": ["algorithm={name='fedridge',privacy={level='L2',epsilon=3.0}}"],
    "fedridge L2, epsilon 8": ["algorithm={name='fedridge',privacy={level='L2',epsilon=8.0}}"],
    "centralized": ["algorithm={name='centralized'}"],
}


def run(settings: list[str], public: float, domain: str | None = None) -> FinishedRun:
    """Run the experiment, with both domains or with the three parties of one."""
    table, _ = override(read_toml(FILE), settings)
    if domain:
        table["data"] = {"name": domain, "parties": 3, "split": {"kind": "dirichlet", "beta": 1.0}}
    many = int(public / 2 if domain else public)
    table["data"]["public"] = many if public >= 1 else public
    return run_experiment(check_table(Experiment, table, str(FILE)), table)


def auc(model: Any, data: DataSet, classes: list[str]) -> Iterator[float | None]:
    """Area under the ROC curve for each class that the test rows of a domain label."""
    scores = model.predict_proba(data.test_rows().x)
    there = [classes.index(name) for name in data.classes if name in classes]
    known = [position for position, name in enumerate(data.classes) if name in classes]
    assert data.test_y is not None
    yield from metrics_of_several(scores[:, there], data.test_y[:, known]).class_auc or []


def on_domains(result: FinishedRun, tests: list[DataSet]) -> list[float]:
    """Mean area on both domains together, and on each alone; of several models the best on both."""
    models = [result.model] if result.model else list(result.models.values())
    found = [[_mean(auc(model, data, model.classes_.tolist())) for data in tests] for model in models]
    both = [_mean(_union(model, tests)) for model in models]
    best = int(np.argmax(both))
    return [both[best], *found[best]]


def _union(model: Any, tests: list[DataSet]) -> list[float | None]:
    """Areas on the rows of all domains; a class that the model does not know has 0.5."""
    classes = model.classes_.tolist()
    every = sorted({name for data in tests for name in data.classes})
    scores, labels = [], []
    for data in tests:
        given = model.predict_proba(data.test_rows().x)
        rows = np.full((len(given), len(every)), 0.5)
        rows[:, [every.index(name) for name in classes]] = given
        truth = np.full(rows.shape, UNKNOWN)
        truth[:, [every.index(name) for name in data.classes]] = data.test_y
        scores.append(rows)
        labels.append(truth)
    return list(metrics_of_several(np.concatenate(scores), np.concatenate(labels)).class_auc or [])


def _mean(values: Any) -> float:
    return fmean(value for value in values if value is not None)


def _text(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--public", type=float, default=0.5, help="public rows, or their share (one domain has half of them)"
    )
    parser.add_argument("--methods", help="some of the methods, separated by semicolons")
    args = parser.parse_args()
    tests = [load(name) for name in DOMAINS]
    print("| method | both domains | MNIST | FEMNIST | MNIST alone | FEMNIST alone | bytes up |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for method in (args.methods or ";".join(METHODS)).split(";"):
        both, alone, size = [], [], 0
        for seed in range(args.seeds):
            settings = [f"seed={seed}", *METHODS[method]]
            whole = run(settings, args.public)
            both.append(on_domains(whole, tests))
            size = whole.record.bytes["up"]
            alone.append([on_domains(run(settings, args.public, data.name), [data])[0] for data in tests])
        columns = [*zip(*both, strict=True), *zip(*alone, strict=True)]
        print(
            f"| {method} | {' | '.join(_text(list(column)) for column in columns)} | {size / 1e6:.2f} MB |", flush=True
        )


if __name__ == "__main__":
    main()
