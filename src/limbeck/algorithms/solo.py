"""SOLO: each party trains alone, the lower bound for a federation."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.algorithms.local_training import training_rows
from limbeck.models.jobs import Fit
from limbeck.protocol.algorithm import Algorithm, Outcome, unknown_request
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind


@dataclass(frozen=True, slots=True)
class TrainAlone(Request[Acknowledgement]):
    """Train a model on the private rows and keep it."""


@dataclass(frozen=True, slots=True)
class Solo(Algorithm):
    """SOLO: each party trains a model on its own rows and sends nothing.

    This is the lower bound in the papers on FedKT and FedMD. The accuracy of a run is the mean over all parties.

    Parameters
    ----------
    with_public : bool
        Whether the models also learn the labelled public rows, as in FedKD's Table 4.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> result = lb.run(lb.Solo(), parties, models="decision-tree", test=(X[60:], y[60:]))
    >>> result.accuracy, sorted(result.models)
    (1.0, [0, 1])
    """

    name: ClassVar[str] = "solo"
    uses_weights = "parties"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

    with_public: bool = False

    @property
    def needs_public_labels(self) -> bool:
        return self.with_public

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(TrainAlone()).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainAlone():
                rows = training_rows(silo, self.with_public)
                [model] = silo.train([Fit(silo.model, rows.x, rows.y, weight=rows.weight)])
                return silo.install(model)
        raise unknown_request(request, silo)
