"""FedKT (Li, He & Song 2021, Algorithm 1): one round with two tiers of voting, at privacy levels L0, L1 and L2.

Numbers in comments are the lines of Algorithm 1. Its noise (lines 10 and 21) is Laplace; the default here is Gumbel.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from limbeck.algorithms.subsets import Queries, QueryingAlgorithm, check_enough, cut, number_of_queries
from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import add_votes, answered, no_votes, tally, winners
from limbeck.models.jobs import Fit, FitAndVote
from limbeck.models.onnx import predict
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive


@dataclass(frozen=True, slots=True)
class Students(Reply):
    """The students of a party.

    Parameters
    ----------
    models : tuple of bytes
        One model for each partition, as ONNX.
    """

    models: tuple[bytes, ...]
    max_bytes: ClassVar[int] = 2**29

    def check(self, request: Any, site: Site, algorithm: "FedKT") -> None:
        if len(self.models) != algorithm.partitions:
            raise LimbeckError(f"{len(self.models)} students, not {algorithm.partitions}")
        for model in self.models:
            predict(model, algorithm.queried(site), site)  # raises if it cannot

    def models_within(self) -> tuple[bytes, ...]:
        return self.models


@dataclass(frozen=True, slots=True)
class TrainStudents(Request[Students]):
    """Train teachers, let them label the public rows, train one student for each partition, and send the students."""


@dataclass(frozen=True, slots=True)
class FedKT(QueryingAlgorithm):
    """FedKT: each party distils its teachers into students, whose votes label the rows that train the final model.

    Parameters
    ----------
    partitions : int
        Number of partitions of a party's rows, s in the paper; a party sends one student for each.
    subsets : int
        Number of subsets in each partition, t in the paper; one teacher is trained on each.
    consistent : bool
        Whether a party counts for a row only where all its students agree (line 19, compared in Table 11).
    queries : int or float
        Public rows that are voted on, a number or a share; the first ones, the same for all sites.
    privacy : Privacy
        Level and noise; an epsilon is calibrated by bounds that do not depend on the data. The paper adds Laplace noise
        of scale 1/gamma (lines 10 and 21): `mechanism = "laplace"`. The default is Gumbel noise of the same scale.

    Notes
    -----
    L1 protects a party: the server sees the unprotected students and adds noise to their votes. Replacing a party
    changes s votes of a row (Theorem 1). L2 protects an example: each party adds noise to its teachers' votes.
    Replacing a row changes one teacher in each of the s partitions, so s times the queries compose. Theorems 3 and 4 do
    not write this step out. The lowest class number wins a tie, and a row on which no party's students agree; the paper
    leaves this open.

    References
    ----------
    Li, He & Song 2021, Practical One-Shot Federated Learning for Cross-Silo Setting, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> algorithm = lb.FedKT(partitions=2, subsets=3)
    >>> lb.run(algorithm, parties, public=X[60:75], models="decision-tree", test=(X[75:], y[75:])).accuracy
    1.0
    """

    name: ClassVar[str] = "fedkt"
    uses_weights = "parties"
    former_keys: ClassVar[dict[str, str]] = QueryingAlgorithm.former_keys | {
        'voting = "paper"': "leave voting out: fedkt is the paper's algorithm now",
        "voting": 'voting is now weights, labels, prior of name = "fedvote"',
        **{key: f'{key} belongs to name = "fedvote" now' for key in ("weights", "labels", "prior", "consensus")},
    }

    partitions: Positive = 2
    subsets: Positive = 5
    consistent: bool = True
    queries: Queries = 1.0
    privacy: Privacy = L0

    @property
    def min_rows(self) -> int:
        return self.subsets

    def disclosures(self, run: Facts) -> list[Disclosure]:
        s, t, q = self.partitions, self.subsets, number_of_queries(self.queries, run.public)
        check_enough(run, t, self.privacy)
        students = Disclosure("party", "students", Unprotected(), "server", queries=q)
        model = Disclosure("server", "model", PostProcessing(), "public")
        if self.level == "L0":
            return [students, Disclosure("server", "model", Unprotected(), "parties")]
        if self.level == "L1":  # silent parties, and parties whose students disagree, abstain
            noise = partial(self.privacy.noisy_max, "party", s)
            labels = run.calibrated("server", "labels", noise, "public", q, voters=run.parties, abstentions=True)
            return [students, labels, model]
        noise = partial(self.privacy.noisy_max, "example", 1)  # a row is in one subset of each of the s partitions
        labels = run.calibrated("party", "labels", noise, "public", queries=s * q, voters=t)
        return [labels, Disclosure("party", "students", PostProcessing(), "server", queries=q), model]

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainStudents():
                x, s, t = self.queried(silo), self.partitions, self.subsets
                # 2: s partitions of all rows, each into t disjoint subsets
                subsets = [rows for j in range(s) for rows in cut(silo, t, self.privacy, j)]
                parts = [silo.private[rows] for rows in subsets]
                teachers = [FitAndVote(silo.model, part.x, part.y, x, part.weight) for part in parts]
                predictions = np.stack(silo.train(teachers)).reshape(s, t, len(x))  # 3-5, and T(x) in 8
                votes = np.concatenate([tally(each, silo.classes) for each in predictions])  # 6-8
                # 9-11: at L2 `disclose` adds the declared noise and takes the class with the largest count
                labels = silo.disclose("labels", votes) if self.level == "L2" else winners(votes)
                models = silo.train([Fit(silo.model, *answered(x, each)) for each in labels.reshape(s, len(x))])  # 12
                return silo.disclose("students", Students(tuple(models)))  # 13
        return QueryingAlgorithm.answer(self, request, silo)

    def lead(self, parties: Parties, site: Site) -> Outcome:
        [final] = site.train([Fit(site.model, *self.labelled_rows(parties, site))])  # 23
        return hand_out(final, parties, site)  # section 3

    def labelled_rows(self, parties: Parties, site: Site) -> tuple[Array, Array]:
        """Label the public rows by the votes of all parties' students (server).

        Parameters
        ----------
        parties : Parties
            The parties to ask.
        site : Site
            The server.

        Returns
        -------
        x : array of shape (queries, ...)
            The public rows, without those that noisy votes leave unanswered.
        labels : integer array of shape (queries,)
            Their labels.
        """
        x = self.queried(site)
        votes = no_votes(len(x), site.classes, site.parties * self.partitions)

        def count(
            party: int, reply: Students
        ) -> None:  # 14-19: a party whose students all agree has s votes, else none
            predictions = np.stack([predict(model, x, site) for model in reply.models])  # 17
            add_votes(votes, predictions, self.consistent)  # 19 is consistent voting

        parties.ask(TrainStudents(), keep=count).at_least(1)  # 1-13; silent parties are left out
        # 20-22: at L1 `disclose` adds the declared noise and takes the class with the largest count
        labels = site.disclose("labels", votes) if self.level == "L1" else winners(votes)
        return answered(x, labels)  # confident-gaussian noise leaves some rows unanswered
