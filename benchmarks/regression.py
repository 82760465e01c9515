"""Numeric targets: R2 of every method on diabetes and on health visits, beside the parties alone.

python benchmarks/regression.py                # diabetes, which scikit-learn has
python benchmarks/regression.py OUT            # also writes OUT/randhie.npz from the package statsmodels (pip install
                                            # statsmodels), and measures it: visits to a doctor in a year
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.overrides import override
from limbeck.experiments.result import FinishedRun
from limbeck.experiments.run import run_experiment

FILE = Path("examples/regression.toml")
NETWORK = "model={name='torch-mlp',hidden=[32],recipe={epochs=%d,batch=32,learning_rate=0.003}}"
LONG = 60
METHODS = {
    "fedridge": [],
    "fedridge, final model a forest": ["algorithm.final=model"],
    "fedkd": ["algorithm={name='fedkd',mechanism='none'}"],
    "fedmd": ["algorithm={name='fedmd',rounds=3,start='none'}"],
    "centralized": ["algorithm={name='centralized'}"],
    "solo (network)": ["algorithm={name='solo'}", NETWORK % LONG],
    "fedkd (network)": ["algorithm={name='fedkd',mechanism='none',distil={epochs=200,batch=64}}", NETWORK % LONG],
    "fedmd (network)": [
        "algorithm={name='fedmd',rounds=5,start='none',fine_tune={epochs=60},digest={epochs=5,batch=32},revisit={epochs=5,batch=32}}",
        NETWORK % LONG,
    ],
    "fedavg (network)": ["algorithm={name='fedavg',rounds=20,local={epochs=3}}", NETWORK % LONG],
    "centralized (network)": ["algorithm={name='centralized'}", NETWORK % LONG],
    "fedridge L2, epsilon 1": ["algorithm.privacy={level='L2',epsilon=1.0}"],
    "fedridge L2, epsilon 3": ["algorithm.privacy={level='L2',epsilon=3.0}"],
    "fedridge L2, epsilon 8": ["algorithm.privacy={level='L2',epsilon=8.0}"],
}
SETS = {
    "diabetes": [],
    "randhie": ["data.name=randhie", "data.range=[0,20]", "data.public=4000", "data.parties=5", "data.test=0.25"],
}


def write_randhie(out: Path) -> None:
    """The RAND health insurance experiment: 20 190 rows, the target is the number of visits to a doctor."""
    import statsmodels.api as sm

    table = sm.datasets.randhie.load_pandas().data
    x = table.drop(columns="mdvis").to_numpy(np.float32)
    np.savez(out / "randhie.npz", x_train=x, y_train=table["mdvis"].to_numpy(np.float64))


def run(settings: list[str]) -> FinishedRun:
    table, _ = override(read_toml(FILE), settings)
    return run_experiment(check_table(Experiment, table, str(FILE)), table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    if args.out and not (args.out / "randhie.npz").exists():
        write_randhie(args.out)
    for name in ("diabetes", "randhie") if args.out else ("diabetes",):
        print(f"\n{name}\n\n| method | R2 | RMSE | bytes up |\n|---|---:|---:|---:|")
        alone = [run([f"seed={seed}", "algorithm={name='solo'}", *SETS[name]]) for seed in range(args.seeds)]
        best = [max(party.headline("regression") or 0.0 for party in each.record.parties) for each in alone]
        print(f"| the best party alone | {_spread(best)} | | |")
        _line("solo, mean over parties", alone)
        for method, settings in METHODS.items():
            _line(method, [run([f"seed={seed}", *SETS[name], *settings]) for seed in range(args.seeds)])


def _line(method: str, results: list[FinishedRun]) -> None:
    found: Any = [result.metrics for result in results]
    size = results[0].record.bytes["up"] / 1e3
    r2, rmse = _spread([each.r2 for each in found]), _spread([each.rmse for each in found], ".4g")
    print(f"| {method} | {r2} | {rmse} | {size:.1f} kB |", flush=True)


def _spread(values: list[float], form: str = ".3f") -> str:
    return f"{fmean(values):{form}} ± {stdev(values):.2g}" if len(values) > 1 else f"{values[0]:{form}}"


if __name__ == "__main__":
    main()
