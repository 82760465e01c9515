"""FedKT-Prox and FedKT-Avg (Li, He & Song 2021, section 4): FedKT's final model is where an iterative method starts.

Its rounds come on top of FedKT's one. Weights leave unprotected in them, so that FedKT's level must be L0.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from limbeck.algorithms.fedavg import FedAvg, row_shape
from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.fedprox import FedProx
from limbeck.errors import LimbeckError
from limbeck.models.jobs import InitialWeights, Refit
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class FedKTAvg(Algorithm):
    """FedKT, then FedAvg."""

    name: ClassVar[str] = "fedkt-avg"
    needs_public_rows: ClassVar[bool] = True
    needs_one_network: ClassVar[bool] = True

    start: FedKT = field(default_factory=FedKT)
    then: FedAvg = field(default_factory=FedAvg)

    def check(self) -> None:
        if self.start.privacy.level != "L0":
            raise LimbeckError('start.privacy: weights leave unprotected in the rounds that follow; use level = "L0"')

    @property
    def partitions(self) -> int:
        return self.start.partitions

    def queried(self, site: Site) -> Array:
        return self.start.queried(site)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [*(each for each in self.start.disclosures(run) if each.origin == "party"), *self.then.disclosures(run)]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        rows, labels = self.start.labelled_rows(parties, site)
        model, fresh = cast(Any, site.model), None
        if (labels == labels[0]).all():  # then FedKT's model is a constant, not a network
            [fresh] = site.train([InitialWeights(model, row_shape(site))])
        [weights] = site.train([Refit(model, rows, labels, fresh)])
        return self.then.train_from(weights, "weights", parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        part: Algorithm = self.start if isinstance(request, TrainStudents) else self.then
        return part.answer(request, silo)


@dataclass(frozen=True, slots=True)
class FedKTProx(FedKTAvg):
    """FedKT, then FedProx."""

    name: ClassVar[str] = "fedkt-prox"

    then: FedProx = field(default_factory=FedProx)
