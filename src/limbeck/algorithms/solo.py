"""SOLO: every party trains on its own rows and sends nothing (the papers' lower bound)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.models.jobs import Fit
from limbeck.protocol.algorithm import Algorithm, Outcome, unknown_request
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class TrainAlone(Request[Acknowledgement]):
    """Fit your model on your own rows."""


@dataclass(frozen=True, slots=True)
class Solo(Algorithm):
    """Each party alone: nothing leaves any site."""

    name: ClassVar[str] = "solo"

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(TrainAlone()).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainAlone():
                [model] = silo.train([Fit(silo.model, silo.private.x, silo.private.y)])
                return silo.install(model)
        raise unknown_request(request, silo)
