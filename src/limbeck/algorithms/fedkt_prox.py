"""FedKT-Avg and FedKT-Prox (Li, He & Song 2021, section 4): iterative methods that start from FedKT's final model."""

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
    """FedKT-Avg: FedKT in the first round, then rounds of FedAvg from its final model.

    Weights leave unprotected in the rounds of FedAvg, so FedKT's privacy level must be L0.

    Parameters
    ----------
    start : FedKT
        The first round.
    then : FedAvg
        The rounds that follow; its `rounds` do not include the first one.

    References
    ----------
    Li, He & Song 2021, Practical One-Shot Federated Learning for Cross-Silo Setting, section 4.

    Examples
    --------
    >>> import limbeck as lb
    >>> algorithm = lb.FedKTAvg(start=lb.FedKT(subsets=3), then=lb.FedAvg(rounds=10))
    >>> algorithm.needs_one_network, algorithm.needs_public_rows
    (True, True)
    """

    name: ClassVar[str] = "fedkt-avg"
    uses_weights = "parties"
    needs_public_rows: ClassVar[bool] = True
    needs_one_network: ClassVar[bool] = True

    start: FedKT = field(default_factory=FedKT)
    then: FedAvg = field(default_factory=FedAvg)

    def check(self) -> None:
        if self.start.privacy.level != "L0":
            raise LimbeckError('start.privacy: weights leave unprotected in the rounds after FedKT; use level = "L0"')

    @property
    def partitions(self) -> int:
        """The number of students of a party."""
        return self.start.partitions

    @property
    def min_rows(self) -> int:
        return self.start.min_rows

    def queried(self, site: Site) -> Array:
        """The public rows that are voted on."""
        return self.start.queried(site)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        first = [each for each in self.start.disclosures(run) if each.origin == "party"]
        return [*first, *self.then.disclosed(self.then.rounds)]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        rows, labels = self.start.labelled_rows(parties, site)
        model, fresh = cast(Any, site.model), None
        if (labels == labels[0]).all():  # FedKT's final model would be a constant, not a network
            [fresh] = site.train([InitialWeights(model, row_shape(site))])
        [weights] = site.train([Refit(model, rows, labels, fresh)])
        return self.then.train_from(weights, "weights", parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        part: Algorithm = self.start if isinstance(request, TrainStudents) else self.then
        return part.answer(request, silo)


@dataclass(frozen=True, slots=True)
class FedKTProx(FedKTAvg):
    """FedKT-Prox: FedKT in the first round, then rounds of FedProx from its final model.

    Parameters
    ----------
    start : FedKT
        The first round.
    then : FedProx
        The rounds that follow.

    References
    ----------
    Li, He & Song 2021, Practical One-Shot Federated Learning for Cross-Silo Setting, section 4.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedKTProx(then=lb.FedProx(rounds=10, mu=0.01)).then.mu
    0.01
    """

    name: ClassVar[str] = "fedkt-prox"

    then: FedProx = field(default_factory=FedProx)
