"""FedKD's tables from one local phase: what the parties say of public rows is kept, and only distilled again.

python benchmarks/fedkd.py local  --kept FOLDER [--seed 0] [--set data.split.beta=0.1 ...]
python benchmarks/fedkd.py distil --kept FOLDER [--only REGEX] [--seed 0] [--set ...]
"""

import argparse
import json
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.deal import deal
from limbeck.experiments.federation import Federation
from limbeck.experiments.overrides import override
from limbeck.experiments.run import federation_of
from limbeck.models.choice import trainer_for
from limbeck.models.torch import TorchModel
from limbeck.models.training import Ask, Blank, Fit, Pack, Refit
from limbeck.privacy.accounting import epsilon_towards
from limbeck.protocol.learning import Trainer
from limbeck.protocol.rows import content_hash

DELTA = 1e-5
FILE = Path(__file__).parents[1] / "examples" / "fedkd_cifar.toml"
VARIANTS = {
    "as printed": [],
    "equal weights": ["algorithm.weights=equal"],
    "kl at 3": ["algorithm.temperature=3.0"],
    "50 views": ["algorithm.views=50"],
    "no noise": ["algorithm.noise=none"],
    **{
        f"figure 2, public {share:g}, {key} {value:g}": [f"algorithm.queries={share}", f"algorithm.{key}={value}"]
        for share in (0.2, 0.5, 1.0)
        for key, value in (("gamma", 1.0), ("gamma", 0.2), ("gamma", 0.1), ("scale", 2), ("scale", 20))
    },
    **{
        f"gaussian {epsilon:g}": ["algorithm.noise=gaussian", f"algorithm.epsilon={epsilon}", "algorithm.weights=equal"]
        for epsilon in (1e3, 1e4, 1e5)
    },
    **{
        f"labels {epsilon:g}": [
            "algorithm.transfer=labels",
            f'algorithm.privacy={{ level = "L1", epsilon = {epsilon} }}',
        ]
        for epsilon in (1e2, 1e3, 1e4)
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["local", "distil"])
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore", LimbeckWarning)
    args.kept.mkdir(exist_ok=True)
    if args.phase == "local":
        local(args)
        return
    results = args.kept / "results.jsonl"
    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    trainer: Replayed | None = None
    for name, settings in VARIANTS.items():
        what = {"name": name, "seed": args.seed, "settings": [*args.settings, *settings]}
        if not re.search(args.only, name) or any(what == {key: each[key] for key in what} for each in known):
            continue
        experiment, federation = read(args, settings)
        trainer = trainer or Replayed(trainer_for(experiment.training, experiment.models), args.kept)
        ran = {**what, **distilled(federation, trainer)}
        with results.open("a") as file:
            file.write(json.dumps(ran) + "\n")
        print(json.dumps(ran), flush=True)


def read(args: argparse.Namespace, settings: list[str]) -> tuple[Experiment, Federation]:
    table, _ = override(read_toml(args.file), [*args.settings, *settings, f"seed={args.seed}"])
    experiment = check_table(Experiment, table, str(args.file))
    return experiment, federation_of(experiment, table, deal(experiment, args.file.parent))


def local(args: argparse.Namespace) -> None:
    """Every party's training to completion, what it says of the public rows, and how good it is alone."""
    experiment, federation = read(args, [])
    trainer = trainer_for(experiment.training, experiment.models, base=args.kept)
    _, silos = federation.sites(trainer)
    classes, test, recipe = len(federation.classes), federation.test, getattr(experiment.algorithm, "local", None)
    assert test is not None
    assert federation.public is not None
    seeds = list(range(len(silos)))
    began = time.perf_counter()
    models: list[Any] = [silo.model for silo in silos]
    first = trainer.run([Blank(model, test.x.shape[1:]) for model in models], classes, seeds)
    jobs = [Refit(model, s.private.x, s.private.y, w, recipe) for model, s, w in zip(models, silos, first, strict=True)]
    weights = trainer.run(jobs, classes, seeds)
    trained = time.perf_counter() - began
    accuracy = []
    for party, (silo, model, found) in enumerate(zip(silos, models, weights, strict=True)):
        [said] = trainer.run([Ask(model, found, test.x)], classes, [0])
        [logits] = trainer.run([Ask(model, found, federation.public.x)], classes, [0])
        accuracy.append(float((said.argmax(axis=1) == test.y).mean()))
        np.save(args.kept / f"logits-{content_hash(silo.private.x)[:16]}.npy", logits)
        (args.kept / f"weights-{content_hash(silo.private.x)[:16]}").write_bytes(found)
        print(f"party {party}: {len(silo.private)} rows, {100 * accuracy[-1]:.2f} %", flush=True)
    told = {"name": "local", "seed": args.seed, "settings": args.settings, "standalone": accuracy, "seconds": trained}
    with (args.kept / "results.jsonl").open("a") as file:
        file.write(json.dumps({**told, "training": dict(trainer.said)}, default=str) + "\n")
    print(f"standalone {100 * np.mean(accuracy):.2f} ± {100 * np.std(accuracy):.2f} %, {trained:.0f} s", flush=True)


class Replayed:
    """Answers the parties' jobs by what was kept, by their weights where those are there, and hands on the others.

    The central network's weights are kept aside: where it was trained, test rows are asked about faster.
    """

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self.trainer, self.folder, self.central = trainer, folder, b""

    @property
    def said(self) -> Mapping[str, Any]:
        return self.trainer.said

    def run(self, jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> list[Any]:
        return [self._run(job, classes, seed) for job, seed in zip(jobs, seeds, strict=True)]

    def _run(self, job: Any, classes: int, seed: int) -> Any:
        match job:
            case Blank():
                return b""
            case Refit():
                name = content_hash(job.rows)[:16]
                weights = self.folder / f"weights-{name}"
                return weights.read_bytes() if weights.exists() else name.encode()
            case Pack():
                return b"alone"
            case Ask() if len(job.start) == 16:
                return np.load(self.folder / f"logits-{job.start.decode()}.npy")[: len(job.asked)]
            case Fit(model=TorchModel() as model):
                [first] = self.trainer.run([Blank(model, job.rows.shape[1:])], classes, [seed])
                fit = Refit(model, job.rows, job.targets, first, job.recipe)
                [self.central] = self.trainer.run([fit], classes, [seed])
                job = Pack(model, self.central, job.rows.shape[1:])
        return self.trainer.run([job], classes, [seed])[0]


def distilled(federation: Federation, trainer: Replayed) -> dict[str, Any]:
    began = time.perf_counter()
    engine = InProcess(federation.algorithm, *federation.sites(trainer), trainer)
    outcome = engine.run()
    assert federation.test is not None
    central: Any = federation.server_model
    [said] = trainer.run([Ask(central, trainer.central, federation.test.x)], len(federation.classes), [0])
    rows = [row for site in (*engine.silos, engine.server) for row in site.ledger.rows]
    return {
        "accuracy": float((said.argmax(axis=1) == federation.test.y).mean()),
        "epsilon_public": epsilon_towards("public", rows, DELTA),
        "figures": dict(outcome.figures),
        "up": engine.traffic.up(),
        "remarks": list(outcome.remarks),
        "seconds": time.perf_counter() - began,
    }


if __name__ == "__main__":
    main()
