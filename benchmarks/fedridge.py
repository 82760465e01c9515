"""FedRidge at example level (L2) and without noise: accuracy by epsilon, for several final models.

python benchmarks/fedridge.py prepare FOLDER         # data sets made from those in LIMBECK_DATA, into FOLDER
python benchmarks/fedridge.py RESULTS SET...         # SET: a key of SETS, or any data set

Finished runs are kept in the folder RESULTS. FedRidge's sums are the same to the bit however the rows are split, so
that it runs at one split. Without noise, the parties' own Gram matrices give the regression on all rows in one place.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from limbeck.experiments.compare import compare
from limbeck.experiments.plan import ComparedMethod, ComparisonPlan, plan
from limbeck.experiments.results_folder import Results
from limbeck.progress import Watcher

FILE = Path(__file__).parent.parent / "examples" / "fedridge.toml"
EPSILONS = (0.5, 1, 3, 8)
BETAS = (0.1, 0.5)
HALVES = ("data.public={from='test',rows=5000}", "data.test={from='test',rows=5000}")
SHARES = ("data.public=0.125", "data.test=0.125")
SMALL = ("data.public=0.3", "data.test=0.2", "data.split.min_rows=5")
OFFICIAL = "data.test={from='test',share=1.0}"
SETS: dict[str, tuple[str, int, tuple[str, ...]]] = {  # data set, parties, settings
    "digits": ("digits", 5, SMALL),
    "wine": ("wine", 3, SMALL),
    "breast-cancer": ("breast-cancer", 3, SMALL),
    "mnist": ("mnist", 5, HALVES),
    "mnist, 10 parties": ("mnist", 10, HALVES),
    "mnist, public: other class shares": ("mnist-half", 5, ("data.public={name='mnist-shares',share=1.0}", OFFICIAL)),
    "mnist, public: FEMNIST": ("mnist", 5, ("data.public={name='femnist-digits',rows=5000}", HALVES[1])),
    "mnist, public: 100 rows": ("mnist", 5, ("data.public={from='test',rows=100}", HALVES[1])),
    "femnist-digits": (
        "femnist-digits",
        5,
        ("data.public={from='test',rows=3000}", "data.test={from='test',rows=2900}"),
    ),
    "pneumoniamnist": ("pneumoniamnist", 5, ("data.public=0.2", "data.test=0.2")),
    "adult_a9a": ("adult_a9a", 20, SHARES),
    "adult_a9a, public: 50 rows": ("adult_a9a", 20, ("data.public=50", SHARES[1])),
    "cod_rna_rowz": ("cod_rna_rowz", 20, SHARES),
    "sst264": ("sst264", 10, SHARES),
    "sst2-minilm": ("sst2-minilm", 10, SHARES),
}
MADE_UP = (5, SHARES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=["random-forest", "xgboost"])
    parser.add_argument("--votes", action="store_true", help="add FedVote without noise")
    parser.add_argument("--processes", type=int)
    args = parser.parse_args()
    if args.results == "prepare":
        return prepare(Path(args.sets[0]))
    results = Results(Path(args.results))
    print("| data, parties | method | " + " | ".join(f"epsilon {e}" for e in EPSILONS) + " | no noise |")
    print("|---" * (3 + len(EPSILONS)) + "|", flush=True)
    for name in args.sets:
        lines = _lines(name, args.models, args.votes, args.seeds)
        whole = ComparisonPlan(
            FILE, [column for _, columns in lines for column in columns if column], range(args.seeds)
        )
        compare(whole, results, args.processes, Watcher(Console(stderr=True), name, "run"))
        for title, columns in lines:
            shown = " | ".join(_accuracy(column, results) if column else "" for column in columns)
            print(f"| {name}, {_set(name)[1]} | {title} | {shown} |", flush=True)
    return None


def prepare(folder: Path) -> None:
    """Write the digits of FEMNIST, light on dark, and a half of MNIST's test rows with a tenth of the digits 0 to 4."""
    data = Path(os.environ["LIMBECK_DATA"])
    writers, mnist = np.load(data / "femnist.npz"), np.load(data / "mnist.npz")
    digits = {part: writers[f"y_{part}"] < 10 for part in ("train", "test")}
    arrays = {f"x_{part}": 255 - writers[f"x_{part}"][chosen] for part, chosen in digits.items()}
    labels = {f"y_{part}": writers[f"y_{part}"][chosen] for part, chosen in digits.items()}
    np.savez_compressed(folder / "femnist-digits.npz", **arrays, **labels)
    rng = np.random.default_rng(0)
    test, public = np.split(rng.permutation(len(mnist["y_test"])), 2)
    public = public[(mnist["y_test"][public] > 4) | (rng.random(len(public)) < 0.1)]
    train = {"x_train": mnist["x_train"], "y_train": mnist["y_train"]}
    half = {"x_test": mnist["x_test"][test], "y_test": mnist["y_test"][test]}
    np.savez_compressed(folder / "mnist-half.npz", **train, **half)
    shares = {"x_train": mnist["x_test"][public], "y_train": mnist["y_test"][public]}
    np.savez_compressed(folder / "mnist-shares.npz", **shares)


def _set(name: str) -> tuple[str, int, tuple[str, ...]]:
    return SETS.get(name, (name, *MADE_UP))


def _lines(name: str, models: Sequence[str], votes: bool, seeds: int) -> list[tuple[str, list[ComparedMethod | None]]]:
    """Title of each line of the table, and the runs of each column."""
    data, parties, rows = _set(name)
    shared = [f"data.name={data}", f"data.parties={parties}", "algorithm.privacy={level='L0'}", *rows]
    ridge = [*(f"fedridge:privacy.level=L2:privacy.epsilon={e}" for e in EPSILONS), "fedridge"]
    lines = [
        ("ridge", shared, ridge),
        ("ridge, Gram matrix of public rows", shared, ["fedridge:gram=public"]),
        ('ridge, labels = "leader"', shared, [f"{method}:labels=leader" for method in ridge]),
        *(
            (f"{model} on its labels", [*shared, "server={model={name='" + model + "'}}"], _taught(ridge))
            for model in models
        ),
        *((f"fedvote, beta {beta}", [*shared, f"data.split.beta={beta}"], ["fedvote"]) for beta in BETAS if votes),
    ]
    return [(title, _columns(settings, methods, seeds)) for title, settings, methods in lines]


def _taught(methods: Sequence[str]) -> list[str]:
    return [f"{method}:final=model" for method in methods]


def _columns(settings: Sequence[str], methods: Sequence[str], seeds: int) -> list[ComparedMethod | None]:
    """The runs of each column; columns before the last may be empty."""
    planned = {line.method: line for line in plan(FILE, methods, seeds=seeds, settings=settings).lines}
    return [None] * (len(EPSILONS) + 1 - len(methods)) + [planned[method] for method in methods]


def _accuracy(column: ComparedMethod, results: Results) -> str:
    """Mean over the seeds, in percent."""
    found = [
        result.metrics.accuracy or 0 for run in column.runs if (result := results.find(run.key)) and result.metrics
    ]
    missing = f" ({len(found)} seeds)" if len(found) < len(column.runs) else ""
    return f"{100 * np.mean(found):.1f}{missing}" if found else "–"


if __name__ == "__main__":
    main()
