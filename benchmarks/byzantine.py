"""What Byzantine parties cost: the mean and robust consensus rules, with and without some of them.

python benchmarks/byzantine.py [--seeds 5] [--parties 10] [--byzantine 2] [--beta 0.5] [--only REGEX]

The embedded digits, split evenly, or by Dirichlet with a beta. A random Byzantine party sends noise (FedMD: scores,
FedVote: votes), or students of random labels (FedKT). Adversarial ones send ten times the opposite of their scores
(FedMD); or they pool their rows, learn each public row's second-best class, and all send this one student (FedKT) or
its votes, with counts of a billion rows of two classes (FedVote). The other parties' models, or the final one, are
scored.
"""

import argparse
import re
import warnings
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any, TypeVar, get_args

import numpy as np

from limbeck.algorithms.fedkt import FedKT, Students
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedvote import FedVote, Votes
from limbeck.algorithms.scoring import Scores
from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet, Iid
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.federation import Federation
from limbeck.knowledge.robust import Rule
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.messages import MAX_COUNT
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo
from limbeck.protocol.streams import stream

RULES: tuple[Rule, ...] = get_args(Rule)
BEHAVIOURS = ("none", "random", "adversarial")
V = TypeVar("V")


@dataclass(slots=True, kw_only=True)
class ByzantineSilo(Silo):
    """A party that follows the algorithm, but sends other values than it computed."""

    behaviour: str
    student: bytes  # what adversarial parties have agreed on

    def disclose(self, what: str, value: V) -> V:
        falsified: V = self._falsified(value)
        return Silo.disclose(self, what, falsified)

    def _falsified(self, value: Any) -> Any:
        is_random = self.behaviour == "random"
        match value:
            case Scores(values):
                found = 10 * self.rng.normal(size=values.shape) if is_random else -10 * values
                return Scores(found.astype(np.float32))
            case Students(models) if not is_random:
                return Students((self.student,) * len(models))
            case Votes(votes, counts) if is_random:
                return Votes(self.rng.dirichlet(np.ones(self.classes), size=len(votes)).astype(np.float16), counts)
            case Votes(votes):
                labels = PackedModel(self.student).vote(self.public.x[: len(votes)])
                counts = np.where(np.arange(self.classes) < 2, MAX_COUNT, 0.0)
                return Votes(np.eye(self.classes)[labels].astype(np.float16), counts)
        return value


def byzantine(silo: Silo, algorithm: Algorithm, behaviour: str, student: bytes, seed: int) -> Silo:
    """Make a party Byzantine; with random behaviour it trains its students on random labels."""
    own = {part.name: getattr(silo, part.name) for part in fields(Silo) if part.init}
    if behaviour == "random" and isinstance(algorithm, FedKT):
        labels = stream(seed, "byzantine", silo.party).integers(silo.classes, size=len(silo.private))
        own["private"] = Rows(silo.private.x, labels)
    return ByzantineSilo(**own, behaviour=behaviour, student=student)


def federation(algorithm: Algorithm, seed: int, parties: int, beta: float | None) -> Federation:
    data = load("digits")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), seed)
    split = Iid() if beta is None else Dirichlet(beta=beta, min_rows=10)
    held = split.assign(data.y[parts.private], {}, parties, stream(seed, "split"))
    model = model_from({"name": "random-forest", "n_estimators": 50})
    return Federation(
        algorithm=algorithm,
        seed=seed,
        classes=np.array(data.classes),
        private=[data.rows(parts.private[rows]) for rows in held],
        models=[model] * parties,
        server_model=model,
        public=parts.public,
        test=parts.test,
        public_is_labelled=True,
        config={},
    )


def accuracy(
    algorithm: Algorithm, seed: int, parties: int, beta: float | None, chosen: tuple[int, ...], behaviour: str
) -> float:
    """Of the final model, or of the other parties' own on average."""
    made, trainer = federation(algorithm, seed, parties, beta), PoolTrainer()
    server, silos = made.sites(trainer)
    if behaviour != "none":
        student = false_student(made, chosen, trainer)
        silos = [
            byzantine(silo, algorithm, behaviour, student, seed) if silo.party in chosen else silo for silo in silos
        ]
    engine = InProcess(algorithm, server, silos, trainer)
    outcome = engine.run()
    if engine.rejections:
        raise SystemExit(f"the attack is refused, and shows nothing: {engine.rejections[0]}")
    others = [silo.installed for silo in engine.silos if silo.party not in chosen]
    models = [outcome.model] if outcome.model else others
    assert made.test is not None
    return fmean(float((PackedModel(model).vote(made.test.x) == made.test.y).mean()) for model in models if model)


def false_student(made: Federation, chosen: tuple[int, ...], trainer: PoolTrainer) -> bytes:
    """A model of the second-best class of each public row, as a model of all their rows sees it."""
    assert made.public is not None
    rows = [made.private[party] for party in chosen]
    pooled = Rows(np.concatenate([each.x for each in rows]), np.concatenate([each.y for each in rows]))
    [honest] = trainer.run([Fit(made.server_model, pooled.x, pooled.y)], len(made.classes), [0])
    second = PackedModel(honest).scores(made.public.x).argsort(axis=1)[:, -2]
    [student] = trainer.run([Fit(made.server_model, made.public.x, second)], len(made.classes), [0])
    return student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--byzantine", type=int, default=2)
    parser.add_argument("--beta", type=float)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore", LimbeckWarning)
    methods: dict[str, Algorithm] = {
        **{f"fedmd {rule}": FedMD(rounds=3, alignment=400, start="none", consensus=rule) for rule in RULES},
        **{f"fedvote {rule}": FedVote(consensus=rule) for rule in (*RULES, "filtered")},  # type: ignore[arg-type]
        "fedkt": FedKT(partitions=2, subsets=3),
    }
    chosen = tuple(range(args.byzantine))
    print(f"{'':20}" + "".join(f"{behaviour:>14}" for behaviour in BEHAVIOURS) + f"   ({args.seeds} seeds)")
    for name, algorithm in methods.items():
        if not re.search(args.only, name):
            continue
        found = [
            [accuracy(algorithm, seed, args.parties, args.beta, chosen, behaviour) for seed in range(args.seeds)]
            for behaviour in BEHAVIOURS
        ]
        print(f"{name:20}" + "".join(f"{100 * fmean(values):13.1f}%" for values in found), flush=True)


if __name__ == "__main__":
    main()
