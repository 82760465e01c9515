"""PATE: all rows in one place, teachers on disjoint subsets, one student (Papernot et al. 2017).

It is what a party does in FedKT, done by one party that holds everything: the FedKT paper's upper bound for learning
through public rows. With one party and one partition, FedKT's student is PATE's to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from limbeck.algorithms.centralized import HandOver, hand_over, pooled
from limbeck.algorithms.distil import check_queries, hand_out, number_of_queries, students
from limbeck.algorithms.poll import Poll
from limbeck.algorithms.voting import Voting
from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, unanswerable
from limbeck.protocol.release import Asked, Noise, Release, release_row
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields


@dataclass(frozen=True, slots=True)
class Pate:
    """The server's teachers share everybody's rows; their majority teaches the final model."""

    name: ClassVar[str] = "pate"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = False

    teachers: int | None = None  # as many as parties
    queries: int | float = 1.0  # number, or share of the public rows
    privacy: Privacy = L0  # L2: noise on the teachers' votes
    voting: Voting | Literal["paper"] = "paper"

    def __post_init__(self) -> None:
        check_fields(self)
        check_queries(self.queries)
        if self.privacy.level == "L1":
            raise LimbeckError("privacy: pate has no parties that vote; noise on its teachers' votes is level L2")
        if self.teachers is not None and self.teachers < 1:
            raise LimbeckError(f"teachers must be at least 1, not {self.teachers}")
        self._poll(self.teachers or 1)

    @property
    def delta(self) -> float:
        return self.privacy.left_to_chance

    def _poll(self, teachers: int) -> Poll | None:
        if self.voting == "paper":
            return None
        if self.voting.weights in ("class-share", "contrast"):
            raise LimbeckError(f'voting: weights = "{self.voting.weights}" is of parties, and pate has none that vote')
        voting = replace(self.voting, weights="equal") if self.voting.weights == "auto" else self.voting
        return Poll(voting, self.privacy, 1, teachers)

    def lead(self, parties: Parties, site: Site) -> Outcome:
        asked = site.public.x[: number_of_queries(self.queries, len(site.public))]
        pools = parties.ask(HandOver()).at_least(1)
        everyone = site.silo(pooled(pools))
        if poll := self._poll(self.teachers or len(pools)):
            remarks: list[str] = []
            [final] = site.train([Fit(site.model, *poll.alone(everyone, site, len(asked), remarks))])
            return replace(hand_out(final, self.privacy, parties, site), remarks=tuple(remarks))
        [student] = students(everyone, asked, 1, self.teachers or len(pools), self.privacy)
        return hand_out(student, self.privacy, parties, site)

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        """What a run will release: its noise is calibrated and its budget checked before anyone trains."""
        bare = [
            release_row(f"party {party}", 0, 0, "PrivateRows", Unprotected(), "server", Asked())
            for party in range(len(rows))
        ]
        if poll := self._poll(self.teachers or len(rows)):
            queries = number_of_queries(self.queries, public)
            planned = poll.planned(public if poll.ask == "active" else queries, queries, classes, 1, noise, alone=True)
            return [*bare, *(replace(row, site="server") for row in planned)]
        if self.privacy.level == "L0":
            return [*bare, release_row("server", 1, 0, "Adopt", Unprotected(), "parties", Asked())]
        queries = number_of_queries(self.queries, public)
        asked = Asked(queries, classes, self.teachers or len(rows), False, noise)
        noisy_max = self.privacy.noisy_max("example", 1, asked)
        return [*bare, release_row("server", 0, 0, "labels", noisy_max, "public", asked)]

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case HandOver():
                return hand_over(silo)
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)
