"""Ensemble: the parties' own models vote on every new row; what a student of theirs could at best keep."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.models.jobs import Fit
from limbeck.models.onnx import predict
from limbeck.models.voting import voting
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class OwnModel(Reply):
    """A party's model of its own rows, as ONNX."""

    model: bytes
    max_bytes: ClassVar[int] = 2**29

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        predict(self.model, site.public.x, site)

    def models_within(self) -> tuple[bytes, ...]:
        return (self.model,)


@dataclass(frozen=True, slots=True)
class SendModel(Request[OwnModel]):
    """Fit your model on your own rows and send it."""


@dataclass(frozen=True, slots=True)
class Ensemble(Algorithm):
    """Nothing is distilled: the final model holds every party's model and lets them vote."""

    name: ClassVar[str] = "ensemble"

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "model", Unprotected(), "server"),
            Disclosure("server", "model", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        members = parties.ask(SendModel()).at_least(1)
        final = voting([member.model for member in members])
        return hand_out(final, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendModel():
                [model] = silo.train([Fit(silo.model, silo.private.x, silo.private.y)])
                return silo.disclose("model", OwnModel(model))
        return Algorithm.answer(self, request, silo)
