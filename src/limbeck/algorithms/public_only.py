"""Public-only: the labelled public rows alone; what the private rows add stands above it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.models.jobs import Fit
from limbeck.privacy.mechanisms import PostProcessing
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, unanswerable
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class PublicOnly:
    """The server learns from the public rows and their labels; no private row is used."""

    name: ClassVar[str] = "public-only"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = True

    def lead(self, parties: Parties, site: Site) -> Outcome:
        assert site.public.y is not None
        [final] = site.train([Fit(site.model, site.public.x, site.public.y)])
        parties.ask(site.release(Adopt(final), PostProcessing(), observer="parties")).at_least(1)
        return Outcome(final)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)
