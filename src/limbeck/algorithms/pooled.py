"""Pooled: every party's own model learns from everybody's rows (the bound that FedMD is measured against).

A party starts on the public rows, as in FedMD and with the same randomness, when it sends its own.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limbeck.algorithms.centralized import SendRows, pooled, send_rows
from limbeck.algorithms.local_training import fine_tune, initialize
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, unknown_request
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class TrainOnAll(Request[Acknowledgement]):
    """Train your model on public rows and on everybody's private ones."""

    x: Array
    y: Array


@dataclass(frozen=True, slots=True)
class Pooled(Algorithm):
    """The start of FedMD, as if every party held all private rows."""

    name: ClassVar[str] = "pooled"

    start: Literal["public", "none"] = "none"
    pretrain: Recipe = Recipe(epochs=20, batch=128, patience=3)
    fine_tune: Recipe = Recipe(epochs=25, batch=32)

    @property
    def needs_public_labels(self) -> bool:
        return self.start == "public"

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "rows", Unprotected(), "server"),
            Disclosure("server", "rows", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        everything = pooled(parties.ask(SendRows()).at_least(1))
        parties.ask(site.disclose("rows", TrainOnAll(everything.x, everything.y))).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendRows():
                initialize(silo, self.pretrain if self.start == "public" else None)
                return send_rows(silo)
            case TrainOnAll(x, y):
                return fine_tune(silo, Rows(x, y), self.fine_tune)
        raise unknown_request(request, silo)
