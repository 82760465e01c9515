"""Pooled: every party's own model learns from everybody's rows (the bound that FedMD is measured against).

A party starts on the public rows, as in FedMD and with the same chance, when it hands over its own.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limbeck.algorithms.centralized import HandOver, hand_over, pooled
from limbeck.algorithms.study import begin, settle
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Done, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, unanswerable
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class LearnAll(Request[Done]):
    """Train your model on public rows and on everybody's private ones."""

    x: Array
    y: Array


@dataclass(frozen=True, slots=True)
class Pooled:
    """The start of FedMD, as if all private rows were in every party's hands."""

    name: ClassVar[str] = "pooled"
    needs_public_rows: ClassVar[bool] = False

    start: Literal["public", "none"] = "none"
    pretrain: Recipe = Recipe(epochs=20, batch=128, patience=3)
    settle: Recipe = Recipe(epochs=25, batch=32)

    @property
    def needs_public_labels(self) -> bool:
        return self.start == "public"

    def lead(self, parties: Parties, site: Site) -> Outcome:
        everything = pooled(parties.ask(HandOver()).at_least(1))
        handed = site.release(LearnAll(everything.x, everything.y), Unprotected(), observer="parties")
        parties.ask(handed).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case HandOver():
                begin(silo, self.pretrain if self.start == "public" else None)
                return hand_over(silo)
            case LearnAll(x, y):
                return settle(silo, Rows(x, y), self.settle)
            case _:
                raise unanswerable(request, silo)
