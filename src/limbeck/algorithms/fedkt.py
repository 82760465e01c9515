"""FedKT: one round, two tiers of voting (Li, He & Song 2021, Algorithm 1), at privacy levels L0, L1 and L2.

Numbers in comments are lines of Algorithm 1. All teachers and students label the same public rows, the first `queries`.
A tie, and a row on which no party's students agree, goes to the lowest class number; the paper leaves that open.

L1 protects a party: the server sees the unprotected students and adds noise to their votes. Replacing a party moves s
votes (Theorem 1). L2 protects an example: each party adds noise to its teachers' votes. Replacing a row changes one
teacher in each of the s partitions, so that s times the queries compose, a step that Theorems 3 and 4 do not write out.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.algorithms.subsets import LevelledAlgorithm, Queries, check_enough, cut, number_of_queries
from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import answered, consistent_votes, tally, winners
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
    """A party's students, one for each partition, as ONNX."""

    models: tuple[bytes, ...]
    max_bytes: ClassVar[int] = 2**29  # bytes

    def check(self, request: Any, site: Site, algorithm: "FedKT") -> None:
        if len(self.models) != algorithm.partitions:
            raise LimbeckError(f"{len(self.models)} students, not {algorithm.partitions}")
        for model in self.models:
            predict(model, algorithm.queried(site), site)  # raises where it cannot

    def models_within(self) -> tuple[bytes, ...]:
        return self.models


@dataclass(frozen=True, slots=True)
class TrainStudents(Request[Students]):
    """Train teachers, let them label the public rows, train a student for each partition on these, and send it."""


@dataclass(frozen=True, slots=True)
class FedKT(LevelledAlgorithm):
    """Parties distil teachers into students; the students' votes teach the final model."""

    name: ClassVar[str] = "fedkt"

    partitions: Positive = 2  # s
    subsets: Positive = 5  # t
    consistent: bool = True  # a party votes only where its students agree (section 3; Table 11 compares)
    queries: Queries = 1.0  # a number, or a share, of the public rows
    privacy: Privacy = L0  # gamma, or an epsilon that noise is calibrated to by data-independent bounds

    def disclosures(self, run: Facts) -> list[Disclosure]:
        s, t, q = self.partitions, self.subsets, number_of_queries(self.queries, run.public)
        check_enough(run, t, self.privacy)  # a party needs a row for each subset
        students = Disclosure("party", "students", Unprotected(), "server", queries=q)
        model = Disclosure("server", "model", PostProcessing(), "public")
        if self.level == "L0":
            return [students, Disclosure("server", "model", Unprotected(), "parties")]
        if self.level == "L1":  # parties that are silent, or whose students disagree, abstain
            noise = self.privacy.noisy_max("party", s, run.asked(q, run.parties, abstentions=True))
            labels = Disclosure("server", "labels", noise, "public", queries=q, voters=run.parties, abstentions=True)
            return [students, labels, model]
        noise = self.privacy.noisy_max("example", 1, run.asked(s * q, t))
        labels = Disclosure("party", "labels", noise, "public", queries=s * q, voters=t)
        return [labels, Disclosure("party", "students", PostProcessing(), "server", queries=q), model]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        [final] = site.train([Fit(site.model, *self.labelled_rows(parties, site))])  # 23
        return hand_out(final, parties, site)  # section 3: to all parties

    def labelled_rows(self, parties: Parties, site: Site) -> tuple[Array, Array]:
        """Public rows, and the labels that the students of all parties vote for."""
        x, replies = self.queried(site), parties.ask(TrainStudents()).at_least(1)  # 1; who is silent is left out
        predictions = np.stack([[predict(model, x, site)[0] for model in reply.models] for reply in replies])  # 17
        count = consistent_votes if self.consistent else tally
        votes = count(predictions, site.classes)  # 14-19: students that agree count s
        # 20-22: at L1 `disclose` adds the declared noise to the votes and gives the winning classes
        labels = site.disclose("labels", votes) if self.level == "L1" else winners(votes)
        return answered(x, labels)  # without rows that confident-gaussian noise leaves unanswered

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainStudents():
                x, s, t = self.queried(silo), self.partitions, self.subsets
                subsets = [rows for j in range(s) for rows in cut(silo, t, self.privacy, j)]  # 2: all rows, cut anew
                teachers = [FitAndVote(silo.model, silo.private.x[rows], silo.private.y[rows], x) for rows in subsets]
                predictions = np.stack(silo.train(teachers)).reshape(s, t, len(x))  # 3-5, and T(x) of 8
                votes = np.concatenate([tally(each, silo.classes) for each in predictions])  # 6-8
                labels = silo.disclose("labels", votes) if self.level == "L2" else winners(votes)  # 9-11
                models = silo.train([Fit(silo.model, *answered(x, each)) for each in labels.reshape(s, len(x))])  # 12
                return silo.disclose("students", Students(tuple(models)))  # 13
        return LevelledAlgorithm.answer(self, request, silo)
