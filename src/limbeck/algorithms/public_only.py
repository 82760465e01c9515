"""Public-only: the labelled public rows alone; what the private rows add stands above it."""

from dataclasses import dataclass
from typing import ClassVar

from limbeck.models.jobs import Fit
from limbeck.privacy.mechanisms import PostProcessing
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import InstallModel
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Site


@dataclass(frozen=True, slots=True)
class PublicOnly(Algorithm):
    """The server learns from the public rows and their labels; no private row is used."""

    name: ClassVar[str] = "public-only"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = True

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [Disclosure("server", "model", PostProcessing(), "parties")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        assert site.public.y is not None
        [final] = site.train([Fit(site.model, site.public.x, site.public.y)])
        parties.ask(site.disclose("model", InstallModel(final))).at_least(1)
        return Outcome(final)
