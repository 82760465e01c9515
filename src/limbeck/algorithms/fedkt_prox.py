"""FedKT-Prox and FedKT-Avg (Li, He & Song 2021, section 4): FedKT's final model is where an iterative method starts.

Its rounds come on top of FedKT's one. They are bare, so that FedKT's privacy is worth nothing here: its level is L0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from limbeck.algorithms.fedavg import FedAvg, row_of
from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.fedprox import FedProx
from limbeck.algorithms.questions import Count, Say
from limbeck.errors import LimbeckError
from limbeck.models.jobs import InitialWeights, Refit
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Outcome, Parties
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class FedKTAvg:
    """FedKT, then FedAvg."""

    name: ClassVar[str] = "fedkt-avg"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = False
    one_network: ClassVar[bool] = True

    start: FedKT = field(default_factory=FedKT)
    then: FedAvg = field(default_factory=FedAvg)

    def __post_init__(self) -> None:
        if self.start.privacy.level != "L0":
            raise LimbeckError('start.privacy: weights leave bare in the rounds that follow; say level = "L0"')

    def lead(self, parties: Parties, site: Site) -> Outcome:
        remarks: list[str] = []
        rows, labels = self.start.lesson(parties, site, remarks)
        model, fresh = cast(Any, site.model), None
        if (labels == labels[0]).all():  # FedKT's model would say so without being a network
            [fresh] = site.train([InitialWeights(model, row_of(site))])
        [weights] = site.train([Refit(model, rows, labels, fresh)])
        outcome = self.then.go_on(weights, Unprotected(), parties, site)
        return replace(outcome, remarks=(*remarks, *outcome.remarks))

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if isinstance(request, TrainStudents | Count | Say):
            return self.start.answer(request, silo)
        return self.then.answer(request, silo)

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        asked = (public, classes, rows, noise)
        return [*self.start.planned(*asked), *self.then.planned(*asked)]


@dataclass(frozen=True, slots=True)
class FedKTProx(FedKTAvg):
    """FedKT, then FedProx."""

    name: ClassVar[str] = "fedkt-prox"

    then: FedProx = field(default_factory=FedProx)
