"""Ensemble: the parties' own models vote on every new row; what a student of theirs could at best keep."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.models.jobs import Fit
from limbeck.models.voting import voting
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, unanswerable
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class OwnModel(Reply):
    """A party's model of its own rows, as ONNX."""

    model: bytes

    largest: ClassVar[int] = 2**29

    def models_within(self) -> tuple[bytes, ...]:
        return (self.model,)


@dataclass(frozen=True, slots=True)
class ShareModel(Request[OwnModel]):
    """Fit your model on your own rows and send it."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Nothing is distilled: the final model holds every party's model and lets them vote."""

    name: ClassVar[str] = "ensemble"
    needs_public_rows: ClassVar[bool] = False
    needs_public_labels: ClassVar[bool] = False

    def lead(self, parties: Parties, site: Site) -> Outcome:
        members = parties.ask(ShareModel()).at_least(1)
        final = voting([member.model for member in members])
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        return Outcome(final)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case ShareModel():
                [model] = silo.train([Fit(silo.model, silo.private.x, silo.private.y)])
                return silo.release(OwnModel(model), Unprotected(), observer="server")
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)
