"""What lying parties cost: plain and robust rules, with a share of the parties lying and without.

python benchmarks/liars.py [--seeds 5] [--parties 10] [--liars 2] [--beta 0.5] [--only REGEX]

On digits, dealt evenly, or by Dirichlet with a beta. FedMD's liars send noise (random), or ten times the opposite of
what they think of the public rows (adversarial); FedKT's train students on random labels, or pool their rows, learn
each public row's second-best class and all send that one student, so that they always agree with each other. By the
default vote they say so, and claim a billion rows of two classes besides. The others' models are scored.
"""

import argparse
import re
import warnings
from dataclasses import dataclass
from statistics import fmean
from typing import Any, get_args

import numpy as np

from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.algorithms.fedmd import FedMD, Scores
from limbeck.algorithms.questions import LARGEST, Said
from limbeck.data.draw import Draw, cut
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet, Iid
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckWarning
from limbeck.experiments.federation import Federation
from limbeck.knowledge.robust import Rule, Votes
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo
from limbeck.protocol.streams import stream

RULES: tuple[Rule, ...] = get_args(Rule)
VOTES: tuple[Votes, ...] = get_args(Votes)
KINDS = ("nobody", "random", "adversarial")


@dataclass(frozen=True)
class Liar:
    """An algorithm as some parties pervert it."""

    algorithm: Any
    liars: tuple[int, ...]
    how: str
    student: bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party not in self.liars or self.how == "nobody":
            answered: Reply = self.algorithm.answer(request, silo)
            return answered
        if isinstance(request, TrainStudents) and self.how == "adversarial":
            same = Students((self.student,) * self.algorithm.partitions)
            sent: Reply = silo.release(same, Unprotected(), observer="server")
            return sent
        if isinstance(request, TrainStudents):
            silo.private = Rows(silo.private.x, silo.rng.integers(silo.classes, size=len(silo.private)))
        reply: Reply = self.algorithm.answer(request, silo)
        if isinstance(reply, Said):
            return self._false_ballot(reply, silo)
        if not isinstance(reply, Scores):
            return reply
        values = -10 * reply.values if self.how == "adversarial" else 10 * silo.rng.normal(size=reply.values.shape)
        lie: Reply = silo.release(Scores(values.astype(np.float32)), Unprotected(), observer="server")
        return lie

    def _false_ballot(self, said: Said, silo: Silo) -> Reply:
        votes, counts = silo.rng.dirichlet(np.ones(silo.classes), size=len(said.votes)), said.counts
        if self.how == "adversarial":
            votes = np.eye(silo.classes)[PackedModel(self.student).vote(silo.public.x[: len(said.votes)])]
            counts = np.where(np.arange(silo.classes) < 2, LARGEST, 0.0)
        lie: Reply = silo.release(
            Said(votes.astype(np.float16), 1.0, said.belief, counts), Unprotected(), observer="server"
        )
        return lie


def federation(algorithm: Any, seed: int, parties: int, beta: float | None) -> Federation:
    data = load("digits")
    parts = cut(data, Draw(0.3), Draw(0.2), seed)
    split = Iid() if beta is None else Dirichlet(beta=beta, least=10)
    held = split.deal(data.y[parts.private], {}, parties, stream(seed, "split"))
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


def accuracy(algorithm: Any, seed: int, parties: int, beta: float | None, liars: tuple[int, ...], how: str) -> float:
    """Of the final model, or of the honest parties' own on average."""
    made, trainer = federation(algorithm, seed, parties, beta), PoolTrainer()
    lying: Any = Liar(algorithm, liars, how, false_student(made, liars, trainer))
    engine = InProcess(lying, *made.sites(trainer), trainer)
    outcome = engine.run()
    honest = [silo.adopted for silo in engine.silos if silo.party not in liars]
    models = [outcome.model] if outcome.model else honest
    assert made.test is not None
    return fmean(float((PackedModel(model).vote(made.test.x) == made.test.y).mean()) for model in models if model)


def false_student(made: Federation, liars: tuple[int, ...], trainer: PoolTrainer) -> bytes:
    """What learned the class that is second best by all that the liars know."""
    assert made.public is not None
    rows = [made.private[party] for party in liars]
    pooled = Rows(np.concatenate([each.x for each in rows]), np.concatenate([each.y for each in rows]))
    [honest] = trainer.run([Fit(made.server_model, pooled.x, pooled.y)], len(made.classes), [0])
    second = PackedModel(honest).scores(made.public.x).argsort(axis=1)[:, -2]
    [student] = trainer.run([Fit(made.server_model, made.public.x, second)], len(made.classes), [0])
    return student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--liars", type=int, default=2)
    parser.add_argument("--beta", type=float)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore", LimbeckWarning)
    methods: dict[str, Any] = {
        **{f"fedmd consensus={rule}": FedMD(rounds=3, alignment=400, start="none", consensus=rule) for rule in RULES},
        **{f"fedkt consensus={rule}": FedKT(partitions=2, subsets=3, consensus=rule) for rule in VOTES},
        **{f"printed consensus={rule}": FedKT.paper(partitions=2, subsets=3, consensus=rule) for rule in VOTES},
    }
    liars = tuple(range(args.liars))
    print(f"{'':26}" + "".join(f"{kind:>14}" for kind in KINDS) + f"   ({args.seeds} seeds)")
    for name, algorithm in methods.items():
        if not re.search(args.only, name):
            continue
        found = [
            [accuracy(algorithm, seed, args.parties, args.beta, liars, kind) for seed in range(args.seeds)]
            for kind in KINDS
        ]
        print(f"{name:26}" + "".join(f"{100 * fmean(values):13.1f}%" for values in found), flush=True)


if __name__ == "__main__":
    main()
