"""FedMD's and FedMD-NFDP's own scenarios, public starts shared between their variants; what is kept is not run again.

python benchmarks/fedmd_papers.py femnist --starts femnist-starts --learn 0 2 4 6 8
python benchmarks/fedmd_papers.py femnist --starts femnist-starts --kept kept.jsonl [--only REGEX]

Starts on public rows are kept in a folder: several such programs, each with some of the parties, share a GPU better
than one. Options for both: --seed 0, --set KEY=VALUE.
"""

import argparse
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.deal import deal
from limbeck.experiments.overrides import override
from limbeck.experiments.run import federation_of
from limbeck.models.choice import trainer_for
from limbeck.models.sharing import Done, SharedTrainer
from limbeck.models.stacked import trainer as trainers
from limbeck.protocol.learning import Trainer

ALONE = ["algorithm.exchange=none", "bounds=false"]
NFDP = ["algorithm.name=fedmd-nfdp", "bounds=false", 'data.split={ kind = "iid" }']


def nfdp(sampled: int | float, exchange: str) -> list[str]:
    return [*NFDP, f"algorithm.sampled={sampled}", f"algorithm.exchange={exchange}"]


def variants(scenario: str, other: str) -> dict[str, tuple[str, list[str]]]:
    """By name: a file of `examples`, and what is changed in it."""
    tables = {
        f"{scenario} nfdp {k} {exchange}": (scenario, nfdp(k, exchange))
        for k, exchange in [
            (18, "logits"),
            (60, "logits"),
            (1.0, "logits"),
            (18, "softmax"),
            (18, "argmax"),
        ]
    }
    return {
        scenario: (scenario, []),
        f"{scenario} alone": (scenario, ALONE),
        other: (other, []),
        f"{other} alone": (other, ALONE),
        **tables,
        f"{scenario} np": (
            scenario,
            ["algorithm.name=fedmd-np", 'data.split={ kind = "iid" }'],
        ),
    }


SCENARIOS = {
    "femnist": variants("fedmd_femnist", "fedmd_femnist_writers"),
    "cifar": variants("fedmd_cifar", "fedmd_cifar_superclasses"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--starts", type=Path, required=True)
    parser.add_argument("--learn", type=int, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore", LimbeckWarning)
    args.starts.mkdir(exist_ok=True)
    if args.learn:
        learn_starts(args)
        return
    kept = [json.loads(line) for line in args.kept.read_text().splitlines()] if args.kept.exists() else []
    done: Done = {file.name: (file.read_bytes(), 1e6) for file in args.starts.iterdir()}
    trainer = None
    for name, (file, settings) in SCENARIOS[args.scenario].items():
        found = [each for each in kept if each["name"] == name and each["seed"] == args.seed]
        if found:
            tell(found[0])
        elif re.search(args.only, name):
            experiment, table = read(file, [*settings, *args.settings, f"seed={args.seed}"])
            trainer = trainer or trainer_for(experiment.training, experiment.models)
            ran = {"name": name, "seed": args.seed, "settings": [*settings, *args.settings]}
            ran |= record_of(experiment, table, trainer, done)
            with args.kept.open("a") as kept_file:
                kept_file.write(json.dumps(ran) + "\n")
            tell(ran)


def learn_starts(args: argparse.Namespace) -> None:
    """The start of some parties, by a run of no rounds in which the others are silent."""
    file, _ = next(iter(SCENARIOS[args.scenario].values()))
    experiment, table = read(file, [*args.settings, f"seed={args.seed}", "algorithm.rounds=0", "bounds=false"])
    trainers.PAYS_FROM = 1000  # each program compiles while others train
    shared = SharedTrainer(trainer_for(experiment.training, experiment.models))
    federation = federation_of(experiment, table, deal(experiment, Path()))
    for party in args.learn:
        silent = set(range(experiment.parties)) - {party}
        InProcess(federation.algorithm, *federation.sites(shared), shared, silent).run()
        for key, (weights, seconds) in shared.done.items():
            if isinstance(weights, bytes) and not (args.starts / key).exists():
                (args.starts / key).write_bytes(weights)
                print(f"party {party}: {len(weights)} bytes in {seconds:.1f} s", flush=True)
    print(json.dumps(shared.said["stacks"]), flush=True)


def read(file: str, settings: list[str]) -> tuple[Experiment, dict[str, Any]]:
    path = Path(__file__).parents[1] / "examples" / f"{file}.toml"
    table, _ = override(read_toml(path), settings)
    return check_table(Experiment, table, str(path)), table


def record_of(experiment: Experiment, table: Mapping[str, Any], trainer: Trainer, done: Done) -> dict[str, Any]:
    federation = federation_of(experiment, table, deal(experiment, Path()))
    shared = SharedTrainer(trainer, done)
    record = federation.run(shared).record
    if experiment.bounds:
        record = replace(record, bounds=federation.bounds(shared))
    told = asdict(record)
    return {key: told[key] for key in ("config", "curve", "bounds", "bytes", "timing", "environment") if key in told}


def tell(ran: Mapping[str, Any]) -> None:
    start, end = (np.array(ran["curve"][at]["accuracy"], float) for at in (0, -1))
    print(f"{ran['name']}, seed {ran['seed']}: {len(ran['curve']) - 1} rounds")
    print(f"   start {told(start)}, mean {100 * start.mean():.1f}")
    print(f"   end   {told(end)}, mean {100 * end.mean():.1f}")
    print(f"   gain  {told(end - start)}, mean {100 * (end - start).mean():.1f}")
    if ran["bounds"]:
        pooled = np.array(ran["bounds"]["pooled"], float)
        print(f"   pooled {told(pooled)}, mean {100 * pooled.mean():.1f}, distance {100 * (pooled - end).mean():.1f}")
    print(f"   bytes up {ran['bytes']['up']}, seconds {ran['timing']['seconds']:.1f}", flush=True)


def told(values: Any) -> str:
    return " ".join(f"{100 * value:5.1f}" for value in values)


if __name__ == "__main__":
    main()
