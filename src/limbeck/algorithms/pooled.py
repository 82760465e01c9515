"""Pooled: each party's own model is trained on the rows of all parties, the upper bound for FedMD.

A party trains on the public rows when it is asked for its rows, as in FedMD and with the same random numbers.
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
from limbeck.protocol.task import ALL_TASKS, Kind


@dataclass(frozen=True, slots=True)
class TrainOnAll(Request[Acknowledgement]):
    """Train on the private rows of all parties.

    Parameters
    ----------
    x : array of shape (rows, ...)
        The features.
    y : integer array of shape (rows,)
        The class numbers.
    """

    x: Array
    y: Array


@dataclass(frozen=True, slots=True)
class TrainOnAllWeighted(TrainOnAll):
    """Train on the weighted private rows of all parties.

    Parameters
    ----------
    x : array of shape (rows, ...)
        The features.
    y : integer array of shape (rows,)
        The class numbers.
    weight : array of shape (rows,)
        The sample weights.
    """

    weight: Array


@dataclass(frozen=True, slots=True)
class Pooled(Algorithm):
    """Pooled: FedMD's initialization, as if every party had all private rows.

    Each party ends with a model of its own design. `FedMD.upper_bound` gives this algorithm. It protects nothing.

    Parameters
    ----------
    start : {"public", "none"}
        Whether models are first trained on the labelled public rows.
    pretrain : Recipe
        How networks are trained on the public rows.
    fine_tune : Recipe
        How networks are trained on all private rows.

    References
    ----------
    Li & Wang 2019, FedMD: Heterogenous Federated Learning via Model Distillation.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedMD(start="none").upper_bound() == lb.Pooled(start="none")
    True
    """

    name: ClassVar[str] = "pooled"
    uses_weights = "parties"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

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
        own, weight = (everything.x, everything.y), everything.weight
        request = TrainOnAll(*own) if weight is None else TrainOnAllWeighted(*own, weight)
        parties.ask(site.disclose("rows", request)).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendRows():
                initialize(silo, self.pretrain if self.start == "public" else None)
                return send_rows(silo)
            case TrainOnAllWeighted(x, y, weight):
                return fine_tune(silo, Rows(x, y, weight), self.fine_tune)
            case TrainOnAll(x, y):
                return fine_tune(silo, Rows(x, y), self.fine_tune)
        raise unknown_request(request, silo)
