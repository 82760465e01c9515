"""FedKT: one round, two tiers of voting (Li, He & Song 2021, Algorithm 1), at privacy levels L0, L1 and L2.

Followed to the letter of the paper; consistent voting, which the authors' code skips for networks, is on for
every kind of model. The rows asked about are a prefix of the public rows, the same for all parties. As the printed
argmax has it, a tie goes to the lowest class number, and so does a row on which no party's students agree: with few
parties (three or fewer) `consistent = false` may do better.

L1: the server sees the students bare and noises their votes; a replaced party moves two counts by s (Theorem 1). L2:
each party noises its teachers' votes; a row is in all s partitions, so that s k queries compose, which the printed
Theorem 4 leaves out for s > 1. Noise goes on one side only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from limbeck.algorithms.distil import (
    answered,
    check_asked,
    check_enough,
    check_queries,
    hand_out,
    number_of_queries,
    students,
)
from limbeck.algorithms.poll import Poll
from limbeck.algorithms.questions import Count, Say
from limbeck.algorithms.voting import Voting
from limbeck.errors import LimbeckError
from limbeck.knowledge.robust import Votes, agreeing, check_trimmed, robust_mean
from limbeck.knowledge.votes import consistent_votes, tally, winners
from limbeck.models.jobs import Fit
from limbeck.models.onnx import PackedModel
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.release import Asked, Noise, Release, release_row
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields


@dataclass(frozen=True, slots=True)
class Students(Reply):
    """A party's students, one for each partition, as ONNX."""

    models: tuple[bytes, ...]

    largest: ClassVar[int] = 2**29

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        if not self.models:
            raise LimbeckError("no student")

    def models_within(self) -> tuple[bytes, ...]:
        return self.models


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
    consensus: Votes = "count"  # median, trimmed and filtered withstand liars among parties that are alike
    trimmed: float = 0.2  # share of parties left out at either end
    queries: int | float = 1.0  # number, or share of the public rows
    privacy: Privacy = L0
    voting: Voting | Literal["paper"] = field(default_factory=Voting)

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """The printed algorithm, to the letter."""
        return cls(voting="paper", **parameters)

    def __post_init__(self) -> None:
        check_fields(self)
        for key in ("partitions", "subsets"):
            if getattr(self, key) < 1:
                raise LimbeckError(f"{key} must be at least 1, not {getattr(self, key)}")
        check_queries(self.queries)
        check_trimmed(self.trimmed)
        if self._poll:
            if not self.consistent:
                raise LimbeckError('consistent = false is of students, and for voting = "paper"')
            return
        if self.privacy.level == "L1" and self.consensus != "count":
            raise LimbeckError(f'level L1 noises counts: consensus = "count", not "{self.consensus}"')
        if self.privacy.level == "L1" and self.partitions > 1 and not self.consistent:
            raise LimbeckError("level L1 lets a party's students vote as one: consistent = true, or partitions = 1")

    @property
    def delta(self) -> float:
        return self.privacy.left_to_chance

    @property
    def _poll(self) -> Poll | None:
        """The vote, where it is other than printed."""
        if self.voting == "paper":
            return None
        return Poll(self.voting, self.privacy, self.partitions, self.subsets, self.consensus, self.trimmed)

    def lead(self, parties: Parties, site: Site) -> Outcome:
        remarks: list[str] = []
        [final] = site.train([Fit(site.model, *self.lesson(parties, site, remarks))])
        return replace(hand_out(final, self.privacy, parties, site), remarks=tuple(remarks))

    def lesson(self, parties: Parties, site: Site, remarks: list[str]) -> tuple[Array, Array]:
        """Public rows, and the labels that were voted for: as printed, by the students of all parties."""
        queries = number_of_queries(self.queries, len(site.public))
        if self._poll:
            return self._poll.take(parties, site, queries, remarks)
        replies = parties.ask(TrainStudents(queries)).at_least(1)
        asked = site.public.x[:queries]
        votes = self._votes(replies, asked, site.classes, remarks)
        return answered(asked, self._labels(votes, len(replies) + len(replies.missing), site), site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainStudents(queries):
                check_asked(queries, self.queries, silo)
                asked = silo.public.x[:queries]
                if self.privacy.level == "L1":
                    silo.announce(Unprotected(), "server", queries, what=Students.__name__)
                models = Students(students(silo, asked, self.partitions, self.subsets, self.privacy))
                seen = PostProcessing() if self.privacy.level == "L2" else Unprotected()
                return silo.release(models, seen, observer="server", queries=queries)
            case Adopt(model):
                return silo.adopt(model)
            case Count(queries) | Say(_, queries) if self._poll:
                check_asked(queries, self.queries, silo)
                return self._poll.answer(request, silo)
            case _:
                raise unanswerable(request, silo)

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        """What a run will release: its noise is calibrated and its budget checked before anyone trains."""
        queries, everyone = number_of_queries(self.queries, public), [f"party {party}" for party in range(len(rows))]
        for held, party in sorted(zip(rows, everyone, strict=True)):
            check_enough(party, held, self.subsets, self.privacy)
        if self._poll:
            asked_about = public if self._poll.ask == "active" else queries
            return self._poll.planned(asked_about, queries, classes, len(rows), noise)
        match self.privacy.level:
            case "L0":
                bare = [release_row("server", 1, 0, "Adopt", Unprotected(), "parties", Asked())]
                return [*self._bare_students(everyone, queries), *bare]
            case "L1":
                asked = Asked(queries, classes, len(rows), True, noise)
                noisy_max = self.privacy.noisy_max("party", self.partitions, asked)
                labels = release_row("server", 1, 0, "labels", noisy_max, "public", asked)
                return [*self._bare_students(everyone, queries), labels]
            case "L2":
                asked = Asked(self.partitions * queries, classes, self.subsets, False, noise)
                noisy_max = self.privacy.noisy_max("example", 1, asked)
                return [release_row(party, 0, 0, "labels", noisy_max, "public", asked) for party in everyone]

    def _bare_students(self, everyone: list[str], queries: int) -> list[Release]:
        asked = Asked(queries)
        return [release_row(party, 0, 0, "Students", Unprotected(), "server", asked) for party in everyone]

    def _labels(self, votes: Array, parties: int, site: Site) -> Array:
        if self.privacy.level != "L1":
            return winners(votes)
        asked = Asked(len(votes), site.classes, parties, True, site.noise)  # who falls silent or disagrees abstains
        noisy_max = self.privacy.noisy_max("party", self.partitions, asked)
        return site.release(votes, noisy_max, observer="public", voters=parties, abstentions=True)

    def _votes(self, replies: Replies[Students], asked: Array, classes: int, remarks: list[str]) -> Array:
        """[parties, partitions, queries] predictions, tallied; or what parties' scores are together."""
        heard = self._heard(replies, asked, classes, remarks)
        labels, scores = (np.stack([each[part] for each in heard.values()]) for part in (0, 1))
        if self.consensus in ("mean", "median", "trimmed"):
            return robust_mean(scores, self.consensus, self.trimmed)
        if self.consensus == "filtered":
            kept = agreeing(labels, winners(robust_mean(scores, "median", self.trimmed)))
            remarks += [
                f"party {party} agreed with the others too seldom and was left out"
                for party, stays in zip(heard, kept, strict=True)
                if not stays
            ]
            labels = labels[kept]
        if self.consistent:
            return consistent_votes(labels, classes)
        return tally(labels.reshape(-1, len(asked)), classes)

    def _heard(
        self, replies: Replies[Students], asked: Array, classes: int, remarks: list[str]
    ) -> dict[int, tuple[Array, Array]]:
        """What each party's students say: their labels, and the mean of their scores; without who sent none."""
        found = {}
        for party in sorted(replies.by_party):
            try:
                said = [PackedModel(model).run(asked) for model in replies.by_party[party].models]
                labels, scores = (np.stack(each) for each in zip(*said, strict=True))
            except (LimbeckError, ValueError):
                said = []
            right = len(said) == self.partitions and scores.shape == (self.partitions, len(asked), classes)
            if right and labels.dtype.kind in "iu" and ((labels >= 0) & (labels < classes)).all():
                sane = np.clip(np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)
                found[party] = labels, sane.mean(axis=0)
            else:
                remarks.append(f"party {party} sent other than {self.partitions} students that vote and was left out")
        if not found:
            raise LimbeckError(f"no party sent {self.partitions} students that vote")
        return found
