"""PATE (Papernot et al. 2017): all rows in one place, teachers on disjoint subsets, one student.

This is what one party does in FedKT, done by a server that has all rows. With one party and one partition, FedKT's
student equals PATE's to the bit.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from limbeck.algorithms.centralized import SendRows, pooled, send_rows
from limbeck.algorithms.subsets import Queries, QueryingAlgorithm, cut, number_of_queries
from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import answered, tally, winners
from limbeck.models.jobs import Fit, FitAndVote
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive


@dataclass(frozen=True, slots=True)
class Pate(QueryingAlgorithm):
    """PATE: teachers on disjoint subsets of all rows vote on public rows, and these labels train the final model.

    The FedKT paper uses it as the upper bound for learning through public rows. The server receives all private rows,
    so noise (level L2) protects a row from everybody except the server.

    Parameters
    ----------
    teachers : int or None
        Number of teachers; None means one for each party.
    queries : int or float
        Public rows that are voted on, a number or a share; the first ones.
    privacy : Privacy
        Level L0, or L2 for noise on the teachers' votes.

    References
    ----------
    Papernot et al. 2017, Semi-supervised Knowledge Transfer for Deep Learning from Private Training Data, section 2.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> result = lb.run(lb.Pate(teachers=3), parties, X[60:75], "decision-tree", test=(X[75:], y[75:]))
    >>> result.accuracy
    1.0
    """

    name: ClassVar[str] = "pate"
    uses_weights = "server"
    is_one_shot: ClassVar[bool] = False

    teachers: Positive | None = None  # as many as parties
    queries: Queries = 1.0
    privacy: Privacy = L0  # L2: noise on the teachers' votes

    def check(self) -> None:
        if self.privacy.level == "L1":
            raise LimbeckError("privacy: level L1 is for votes of parties, which pate does not have; use level L2")

    def disclosures(self, run: Facts) -> list[Disclosure]:
        k, t = number_of_queries(self.queries, run.public), self.teachers or run.parties
        rows = Disclosure("party", "rows", Unprotected(), "server")
        if self.privacy.level == "L0":
            return [rows, Disclosure("server", "model", Unprotected(), "parties")]
        labels = run.calibrated("server", "labels", partial(self.privacy.noisy_max, "example", 1), "public", k, t)
        return [rows, labels, Disclosure("server", "model", PostProcessing(), "public")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        pools, x = parties.ask(SendRows()).at_least(1), self.queried(site)
        everyone = site.silo(pooled(pools))
        own, teachers = everyone.private, self.teachers or site.parties
        subsets = cut(everyone, teachers, self.privacy)
        parts = [own[rows] for rows in subsets]
        jobs = [FitAndVote(site.model, part.x, part.y, x, part.weight) for part in parts]
        votes = tally(np.stack(everyone.train(jobs)), site.classes)
        labels = everyone.disclose("labels", votes) if self.privacy.level == "L2" else winners(votes)
        [student] = everyone.train([Fit(site.model, *answered(x, labels))])
        return hand_out(student, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendRows():
                return send_rows(silo)
        return QueryingAlgorithm.answer(self, request, silo)
