"""What a round costs beside its work: 10 parties that reply at once, messages as objects and as bytes.

python benchmarks/rounds.py
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from measured import Measured, best, show

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

PARTIES, PUBLIC, CLASSES, ROUNDS = 10, 5000, 10, 200


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


def a_round(kind: type[InProcess]) -> float:
    """Milliseconds of a round."""
    engine = kind(Echo(ROUNDS), *sites(), PoolTrainer(1))
    return best([engine.run], 1)[0] / ROUNDS * 1e3


def measure() -> Iterator[Measured]:
    objects, encoded = (min(a_round(kind) for _ in range(2)) for kind in (InProcess, ThroughBytes))
    what = f"a round of {PARTIES} parties that each send {PUBLIC} x {CLASSES} scores, through bytes"
    yield Measured(what, encoded, "ms", "as objects", objects)


if __name__ == "__main__":
    show(measure)
