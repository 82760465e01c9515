"""FedKD's tables from one local phase a split: what the parties predict is kept, and only distilled again.

python benchmarks/fedkd.py local  --out FOLDER [--betas 1.0 0.1] [--seed 0] [--set KEY=VALUE ...]
python benchmarks/fedkd.py distil --out FOLDER [--only REGEX] [--seed 0] [--set KEY=VALUE ...]
python benchmarks/fedkd.py draw   --out FOLDER [--picture FILE]
"""

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.federation import Federation
from limbeck.experiments.overrides import override
from limbeck.experiments.run import federation_of
from limbeck.experiments.splitting import split_rows
from limbeck.models.device import Device
from limbeck.models.jobs import Fit, ForwardPass, InitialWeights, Pack, Refit
from limbeck.models.torch import TorchModel
from limbeck.models.trainers import trainer_for
from limbeck.privacy.guarantees import epsilon_towards
from limbeck.protocol.learning import Trainer
from limbeck.protocol.rows import Array, content_hash

DELTA = 1e-5
FILE = Path(__file__).parents[1] / "examples" / "fedkd_cifar.toml"
SHORT = 20  # epochs over all public rows; fewer of them are learned in as many steps
SHARES, GAMMAS, SCALES = (0.2, 0.5, 1.0), (1.0, 0.2, 0.1), (2, 20, 200)


def short(share: float = 1.0, **changed: Any) -> list[str]:
    changed = {"queries": share, "distil.epochs": round(SHORT / share), **changed}
    return [f"algorithm.{key}={value}" for key, value in changed.items()]


VARIANTS = {
    "table 1, alpha 1": [],
    "table 1, alpha 0.1": ["data.split.beta=0.1"],
    "table 2, equal weights": short(weights="equal"),
    "table 2, kl at 3": short(temperature=3.0),
    "table 2, 50 views of a fifth": short(0.2, views=50),
    **{
        f"figure 2, public {share:g}, gamma {gamma:g}, scale {scale}": short(share, gamma=gamma, scale=scale)
        for share in SHARES
        for gamma, scale in [(1.0, 200), *((gamma, 200) for gamma in GAMMAS[1:]), *((1.0, s) for s in SCALES[:-1])]
    },
    "no noise": short(mechanism="none"),
    **{
        f"gaussian {epsilon:g}": short(mechanism="gaussian", epsilon=epsilon, weights="equal") for epsilon in (1e3, 1e5)
    },
    **{
        f"labels {epsilon:g}": short(transfer="labels", privacy=f'{{ level = "L1", epsilon = {epsilon} }}')
        for epsilon in (1e2, 1e3, 1e4)
    },
}


@dataclass(frozen=True, slots=True)
class Args:
    """What the command line says."""

    out: Path
    file: Path = FILE
    seed: int = 0
    settings: tuple[str, ...] = ()

    def read(self, settings: Sequence[str]) -> tuple[Experiment, Federation]:
        table, _ = override(read_toml(self.file), [*self.settings, *settings, f"seed={self.seed}"])
        experiment = check_table(Experiment, table, str(self.file))
        return experiment, federation_of(experiment, table, split_rows(experiment, self.file.parent))

    def keep(self, summary: Mapping[str, Any]) -> None:
        with (self.out / "results.jsonl").open("a") as file:
            file.write(json.dumps(summary, default=str) + "\n")
        print(json.dumps(summary, default=str), flush=True)

    def known(self) -> list[dict[str, Any]]:
        results = self.out / "results.jsonl"
        return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["local", "distil", "draw"])
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--betas", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--picture", type=Path, default=Path("figure2.png"))
    options = parser.parse_args()
    args = Args(options.out, options.file, options.seed, tuple(options.settings))
    warnings.simplefilter("ignore", LimbeckWarning)
    args.out.mkdir(exist_ok=True)
    if options.phase == "local":
        local(args, options.betas)
    elif options.phase == "distil":
        distil(args, [name for name in VARIANTS if re.search(options.only, name)])
    else:
        draw(args, options.picture)


def local(args: Args, betas: Sequence[float], trainer: Trainer | None = None) -> None:
    """Every party's training to completion, all splits in one stack; what it says, and how good it is alone."""
    splits = [f"data.split.beta={beta}" for beta in betas]
    partitioned = [args.read([split]) for split in splits]
    experiment = partitioned[0][0]
    trainer = trainer or trainer_for(experiment.training, experiment.models, base=args.out)
    began = time.perf_counter()
    weights = iter(trainer.run(*first_jobs([federation for _, federation in partitioned], experiment.algorithm)))
    seconds = time.perf_counter() - began
    for split, (_, federation) in zip(splits, partitioned, strict=True):
        assert federation.test is not None
        assert federation.public is not None
        accuracy = []
        for rows, model, found in zip(federation.private, federation.models, weights, strict=False):
            name, network = (
                content_hash(rows.x)[:16],
                asked_of(model, found, federation.test.x.shape[1:], len(federation.classes)),
            )
            accuracy.append(float((network(federation.test.x).argmax(axis=1) == federation.test.y).mean()))
            np.save(args.out / f"logits-{name}.npy", network(federation.public.x))
            (args.out / f"weights-{name}").write_bytes(found)
        summary = {"name": "local", "seed": args.seed, "settings": [*args.settings, split], "standalone": accuracy}
        args.keep({**summary, "seconds": seconds, "training": dict(trainer.description)})
        print(f"{split}: standalone {100 * np.mean(accuracy):.2f} ± {100 * np.std(accuracy):.2f} %", flush=True)


def first_jobs(federations: Sequence[Federation], algorithm: Any) -> tuple[list[Any], int, list[int]]:
    """All parties' trainings, the number of classes, and the seeds: those of a split do not depend on the others."""
    jobs, seeds = [], []
    for federation in federations:
        for party, (rows, model) in enumerate(zip(federation.private, federation.models, strict=True)):
            assert isinstance(model, TorchModel)
            first = InitialWeights(model, rows.x.shape[1:]).run(len(federation.classes), party)
            jobs.append(Refit(model, rows.x, rows.y, first, algorithm.local))
            seeds.append(party)
    return jobs, len(federations[0].classes), seeds


def asked_of(model: Any, weights: bytes, row: tuple[int, ...], classes: int) -> Callable[[Array], Array]:
    """A network that is asked where there is a GPU, its products rounded to TF32."""
    import torch

    device = Device("cuda" if torch.cuda.is_available() else "cpu", "tf32")
    fitted = model.with_weights(weights, row, classes)
    fitted.network.to(device.type)
    return lambda rows: fitted.logits(rows, device)


def distil(args: Args, names: Sequence[str], trainer: "Replayed | None" = None) -> None:
    known = args.known()
    for name in names:
        what = {"name": name, "seed": args.seed, "settings": [*args.settings, *VARIANTS[name]]}
        if any(what == {key: each.get(key) for key in what} for each in known):
            continue
        experiment, federation = args.read(VARIANTS[name])
        if not (args.out / f"logits-{content_hash(federation.private[0].x)[:16]}.npy").exists():
            raise SystemExit(f"{args.out} holds no logits of the parties of {name!r}: run the phase local first")
        trainer = trainer or Replayed(trainer_for(experiment.training, experiment.models), args.out)
        args.keep({**what, **distilled(federation, trainer)})


class Replayed:
    """Answers the parties' jobs by what was kept, about other rows by their weights, and hands on the others.

    The central network's weights are kept aside: where it was trained, test rows are asked about faster.
    """

    def __init__(self, trainer: Trainer, folder: Path) -> None:
        self.trainer, self.folder, self.central = trainer, folder, b""
        self.public: Array | None = None
        self.networks: dict[str, Callable[[Array], Array]] = {}

    @property
    def description(self) -> Mapping[str, Any]:
        return self.trainer.description

    def run(self, jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> list[Any]:
        return [self._run(job, classes, seed) for job, seed in zip(jobs, seeds, strict=True)]

    def _run(self, job: Any, classes: int, seed: int) -> Any:
        match job:
            case InitialWeights():
                return b""
            case Refit():
                return content_hash(job.rows)[:16].encode()
            case Pack():
                return b"alone"
            case ForwardPass() if len(job.start) == 16:
                return self._predictions(job, classes)
            case Fit(model=TorchModel() as model):
                [first] = self.trainer.run([InitialWeights(model, job.rows.shape[1:])], classes, [seed])
                fit = Refit(model, job.rows, job.targets, first, job.recipe)
                [self.central] = self.trainer.run([fit], classes, [seed])
                job = Pack(model, self.central, job.rows.shape[1:])
        return self.trainer.run([job], classes, [seed])[0]

    def _predictions(self, job: ForwardPass, classes: int) -> Array:
        name = job.start.decode()
        if self.public is not None and np.may_share_memory(job.asked, self.public):
            return np.asarray(np.load(self.folder / f"logits-{name}.npy"))[: len(job.asked)]
        if name not in self.networks:
            weights = (self.folder / f"weights-{name}").read_bytes()
            self.networks[name] = asked_of(job.model, weights, job.asked.shape[1:], classes)
        return self.networks[name](job.asked)


def distilled(federation: Federation, trainer: Replayed) -> dict[str, Any]:
    began = time.perf_counter()
    server, silos = federation.sites(trainer)
    trainer.public = server.public.x
    engine = InProcess(federation.algorithm, server, silos, trainer)
    outcome = engine.run()
    assert federation.test is not None
    test, classes = federation.test.x, len(federation.classes)
    predictions = asked_of(federation.server_model, trainer.central, test.shape[1:], classes)(test)
    rows = [row for site in (*engine.silos, engine.server) for row in site.ledger.rows]
    return {
        "accuracy": float((predictions.argmax(axis=1) == federation.test.y).mean()),
        "epsilon_public": epsilon_towards("public", rows, DELTA),
        "figures": dict(outcome.figures),
        "up": engine.traffic.up(),
        "remarks": list(outcome.remarks),
        "seconds": time.perf_counter() - began,
    }


def draw(args: Args, picture: Path) -> None:
    """Figure 2: accuracy by noise and by levels, a line for each number of public rows."""
    from matplotlib.figure import Figure

    found = {each["name"]: 100 * each["accuracy"] for each in args.known() if "accuracy" in each}
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    by_noise, by_levels = figure.subplots(1, 2, sharey=True)
    for share in SHARES:
        at = f"figure 2, public {share:g}"
        noise = {1 / g: found.get(f"{at}, gamma {g:g}, scale {SCALES[-1]}") for g in GAMMAS}
        levels = {s: found.get(f"{at}, gamma {GAMMAS[0]:g}, scale {s}") for s in SCALES}
        for axes, points in ((by_noise, noise), (by_levels, levels)):
            there = [(x, y) for x, y in points.items() if y is not None]
            axes.plot(*zip(*there, strict=True), "o-", label=f"{share:.0%} of the public rows") if there else None
    by_noise.set(xlabel="noise, 1 / gamma", ylabel="accuracy, %", title=f"{SCALES[-1]} levels")
    by_levels.set(xlabel="levels S", xscale="log", title="gamma 1")
    by_levels.set_xticks(SCALES, [str(scale) for scale in SCALES])
    by_levels.legend()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main()
