"""FedMD's and FedMD-NFDP's own scenarios, public starts shared between their variants; what is kept is not run again.

python benchmarks/fedmd_papers.py femnist --starts femnist-starts --learn 0 2 4 6 8
python benchmarks/fedmd_papers.py femnist --starts femnist-starts --out results.jsonl [--only REGEX]

Starts on public rows are kept in a folder: several such programs, each with some of the parties, share a GPU better
than one. Test rows are asked where networks are trained, for ONNX would keep the CPU busy. Options for both: --seed 0,
--set KEY=VALUE.
"""

import argparse
import json
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms.local_training import WEIGHTS
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.federation import Federation
from limbeck.experiments.overrides import override
from limbeck.experiments.run import federation_of
from limbeck.experiments.splitting import split_rows
from limbeck.models.caching import key_of_job
from limbeck.models.jobs import ForwardPass, Refit
from limbeck.models.trainers import trainer_for
from limbeck.protocol.learning import Trainer

ALONE = ["algorithm.score_format=none", "bounds=false"]
NFDP = ["algorithm.name=fedmd-nfdp", "bounds=false", 'data.split={ kind = "iid" }']


def nfdp(sampled: int | float, score_format: str) -> list[str]:
    return [*NFDP, f"algorithm.sampled={sampled}", f"algorithm.score_format={score_format}"]


def variants(scenario: str, other: str) -> dict[str, tuple[str, list[str]]]:
    """By name: a file of `examples`, and what is changed in it."""
    tables = {
        f"{scenario} nfdp {k} {score_format}": (scenario, nfdp(k, score_format))
        for k, score_format in [
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
        f"{scenario} softmax": (scenario, ["algorithm.score_format=softmax", "bounds=false"]),
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
    parser.add_argument("--out", type=Path)
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
    results = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    trainer = None
    for name, (file, settings) in SCENARIOS[args.scenario].items():
        found = [each for each in results if each["name"] == name and each["seed"] == args.seed]
        if found:
            print_summary(found[0])
        elif re.search(args.only, name):
            experiment, table = read(file, [*settings, *args.settings, f"seed={args.seed}"])
            trainer = trainer or Starting(trainer_for(experiment.training, experiment.models), args.starts)
            ran = {"name": name, "seed": args.seed, "config": table, **result_of(experiment, table, trainer)}
            with args.out.open("a") as results_file:
                results_file.write(json.dumps(ran) + "\n")
            print_summary(ran)


def read(file: str, settings: list[str]) -> tuple[Experiment, dict[str, Any]]:
    path = Path(__file__).parents[1] / "examples" / f"{file}.toml"
    table, _ = override(read_toml(path), settings)
    return check_table(Experiment, table, str(path)), table


@dataclass(slots=True)
class Starting:
    """Stores the results of training on public rows, which is all that has a `patience`; passes on all other jobs."""

    trainer: Trainer
    folder: Path

    @property
    def description(self) -> Mapping[str, Any]:
        return self.trainer.description

    def run(self, jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> list[Any]:
        if not (isinstance(jobs[0], Refit) and jobs[0].recipe and jobs[0].recipe.patience):
            return self.trainer.run(jobs, classes, seeds)
        files = [self.folder / str(key_of_job(job, classes, seed, {})) for job, seed in zip(jobs, seeds, strict=True)]
        new = [i for i, file in enumerate(files) if not file.exists()]
        if new:
            for i, weights in zip(
                new, self.trainer.run([jobs[i] for i in new], classes, [seeds[i] for i in new]), strict=True
            ):
                files[i].write_bytes(weights)
        return [file.read_bytes() for file in files]


def learn_starts(args: argparse.Namespace) -> None:
    """The start of some parties, by a run of no rounds in which the others are silent."""
    file, _ = next(iter(SCENARIOS[args.scenario].values()))
    experiment, table = read(file, [*args.settings, f"seed={args.seed}", "algorithm.rounds=0", "bounds=false"])
    starting = Starting(trainer_for(experiment.training, experiment.models), args.starts)
    federation = federation_of(experiment, table, split_rows(experiment, Path()))
    for party in args.learn:
        silent = set(range(experiment.parties)) - {party}
        InProcess(federation.algorithm, *federation.sites(starting), starting, silent).run()
    print(json.dumps(starting.description["stacks"]), flush=True)


def result_of(experiment: Experiment, table: Mapping[str, Any], trainer: Trainer) -> dict[str, Any]:
    federation = federation_of(experiment, table, split_rows(experiment, Path()))
    began = time.perf_counter()
    curve, up = learned(federation, trainer)
    seconds = time.perf_counter() - began
    bound = replace(federation, algorithm=federation.check_bounds()) if experiment.bounds else None
    return {
        "curve": curve,
        "pooled": learned(bound, trainer)[0][-1] if bound else None,
        "up": up,
        "seconds": seconds,
        "rows": [len(rows) for rows in federation.private],
        "test": len(federation.test) if federation.test else 0,
    }


def learned(federation: Federation, trainer: Trainer) -> tuple[list[list[float]], int]:
    """Every party's accuracy after its start and after every round, and the bytes that the parties sent."""
    engine = InProcess(federation.algorithm, *federation.sites(trainer), trainer)
    curve: list[list[float]] = []
    last: list[Any] = []
    test = federation.test
    assert test is not None

    def look(engine: Any) -> None:
        nonlocal last
        weights = [silo.memory.get(WEIGHTS) for silo in engine.silos]
        if None in weights or weights == last:
            return
        last = weights
        asked = [ForwardPass(silo.model, weights, test.x) for silo, weights in zip(engine.silos, last, strict=True)]
        predictions = trainer.run(asked, len(federation.classes), [0] * len(asked))
        curve.append([float((logits.argmax(axis=1) == test.y).mean()) for logits in predictions])

    engine.watch = look
    engine.run()
    return curve, engine.traffic.up()


def print_summary(ran: Mapping[str, Any]) -> None:
    start, end = (np.array(ran["curve"][at]) for at in (0, -1))
    print(f"{ran['name']}, seed {ran['seed']}: {len(ran['curve']) - 1} rounds")
    print(f"   start {percent(start)}, mean {100 * start.mean():.1f}")
    print(f"   end   {percent(end)}, mean {100 * end.mean():.1f}")
    print(f"   gain  {percent(end - start)}, mean {100 * (end - start).mean():.1f}")
    if ran["pooled"]:
        pooled = np.array(ran["pooled"])
        print(
            f"   pooled {percent(pooled)}, mean {100 * pooled.mean():.1f}, distance {100 * (pooled - end).mean():.1f}"
        )
    print(f"   bytes up {ran['up']}, seconds {ran['seconds']:.1f}", flush=True)


def percent(values: Any) -> str:
    return " ".join(f"{100 * value:5.1f}" for value in values)


if __name__ == "__main__":
    main()
