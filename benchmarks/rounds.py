"""What a round costs beside its work: 10 parties that reply at once, messages as objects and as bytes.

python benchmarks/rounds.py
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.site import Silo, Site

PARTIES, PUBLIC, CLASSES = 10, 5000, 10


@dataclass(frozen=True, slots=True)
class Scores(Reply):
    """Scores of shape (rows, classes)."""

    values: Array

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        check_array(self.values, (request.rows, site.classes))


@dataclass(frozen=True, slots=True)
class Score(Request[Scores]):
    """Score so many public rows."""

    rows: int


@dataclass(frozen=True, slots=True)
class Echo(Algorithm):
    """Rounds in which parties send scores that cost nothing to compute."""

    name: ClassVar[str] = "echo"
    needs_public_rows: ClassVar[bool] = True

    rounds: int = 1

    def disclosures(self, run: Facts) -> Sequence[Disclosure]:
        return [Disclosure("party", "scores", Unprotected(), "server", run.public, times=self.rounds)]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        for _ in range(self.rounds):
            parties.ask(Score(len(site.public)))
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        return silo.disclose("scores", Scores(np.zeros((len(silo.public), silo.classes), np.float32)))


def sites() -> tuple[Site, list[Silo]]:
    rng = np.random.default_rng(0)
    model, trainer = model_from({"name": "decision-tree"}), PoolTrainer(1)
    shared: dict[str, Any] = {
        "public": PublicRows(rng.random((PUBLIC, 20), dtype=np.float32)),
        "classes": CLASSES,
        "model": model,
        "seed": 0,
        "trainer": trainer,
    }
    private = Rows(rng.random((50, 20), dtype=np.float32), np.arange(50) % CLASSES)
    return Site(**shared), [Silo(party=party, private=private, **shared) for party in range(PARTIES)]


def main() -> None:
    print(f"{PARTIES} parties, each sends {PUBLIC} x {CLASSES} scores a round")
    for kind, rounds in ((InProcess, 200), (ThroughBytes, 200)):
        engine = kind(Echo(rounds), *sites(), PoolTrainer(1))
        began = time.perf_counter()
        engine.run()
        print(f"{kind.name}: {(time.perf_counter() - began) / rounds * 1e3:.1f} ms a round")


if __name__ == "__main__":
    main()
