"""FedKT: one round, two tiers of voting (Li, He & Song 2021, Algorithm 1), at privacy level L0.

Followed to the letter of the paper; consistent voting, which the authors' code skips for networks, is on for
every kind of model. The rows asked about are a prefix of the public rows, the same for all parties. As the printed
argmax has it, a tie goes to the lowest class number, and so does a row on which no party's students agree: with few
parties (three or fewer) `consistent = false` may do better.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.algorithms.distil import check_queries, number_of_queries, students
from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import consistent_votes, tally, winners
from limbeck.models.onnx import PackedModel
from limbeck.models.training import Fit
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class Students(Reply):
    """A party's students, one for each partition, as ONNX."""

    models: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TrainStudents(Request[Students]):
    """Distil your teachers into students on the first `queries` public rows."""

    queries: int


@dataclass(frozen=True, slots=True)
class FedKT:
    """Parties distil teachers into students; the students' votes teach the final model."""

    name: ClassVar[str] = "fedkt"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = False

    partitions: int = 2  # s
    subsets: int = 5  # t
    consistent: bool = True
    queries: int | float = 1.0  # number, or share of the public rows

    def __post_init__(self) -> None:
        for key in ("partitions", "subsets"):
            if getattr(self, key) < 1:
                raise LimbeckError(f"{key} must be at least 1, not {getattr(self, key)}")
        check_queries(self.queries)

    def lead(self, parties: Parties, site: Site) -> Outcome:
        queries = number_of_queries(self.queries, len(site.public))
        replies = parties.ask(TrainStudents(queries)).at_least(1)
        asked = site.public.x[:queries]
        votes = self._votes(replies, asked, site.classes)
        [final] = site.train([Fit(site.model, asked, winners(votes))])
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        return Outcome(final)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainStudents(queries):
                models = students(silo, silo.public.x[:queries], self.partitions, self.subsets)
                return silo.release(Students(models), Unprotected(), observer="server", count=queries)
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)

    def _votes(self, replies: Replies[Students], asked: Array, classes: int) -> Array:
        """[parties, partitions, queries] predictions, tallied."""
        labels = np.stack([[PackedModel(m).vote(asked) for m in party.models] for party in replies])
        if self.consistent:
            return consistent_votes(labels, classes)
        return tally(labels.reshape(-1, len(asked)), classes)
