"""Voting: how teachers vote, how votes are weighed, asked for and read where parties are unlike one another.

FedKT as printed lets every party's students vote alike and takes the class with most votes. Parties that hold other
class mixes than the whole lean to their own: they rank rows well, but draw the line elsewhere. Here each part of a vote
is chosen for itself:

- `teachers`: plain; or prior-corrected, as if classes had the prior's shares: a network by a weighted loss, others by
  rows drawn. On a class that its subset lacks, such a teacher gives the prior's share.
- `votes`: soft, a teacher's probabilities; or hard, the class it says.
- `weights`: of a teacher, from 0 to 1, from its own subset alone: its accuracy on a fifth of it, held out, or how many
  rows it has of its rarest class, up to `cap`. Or of a party, for each class, from class counts that are a release of
  their own: class-share, its share of all rows of the class voted for (FedKD's Equation 1); contrast, the same of its
  rows of the class or of all others, whichever are fewer, for who has nothing to tell a class from cannot tell it.
- `ask`: rows; or groups of similar public rows, or directions (the public rows' principal components, and bends where
  those are few), of which the sum of all voters' words is noised, and all public rows read off it; or active: rows in
  stages, each time those of which a model of the answers so far is least sure.
- `labels`: the leader; or matched, such that classes have the prior's shares among the public rows.
- `prior`: given, uniform, or estimated: from class counts; at L1, where a whole party is hidden, the noisy median of
  what parties believe of the public rows, for two classes (more are taken as alike).

There are no students: what leaves a party is what its teachers say of public rows. What a neighbour can change: on rows
no more than by a hard vote (`knowledge.ballots`); in groups and directions a voter's word has length 1, so that a
replaced one is 2 apart. At L1 a voter is a party, at L2 a teacher, and an example is in s of them.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.bases import MOST, number_of_directions
from limbeck.knowledge.robust import Votes
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.calibration import Privacy, gaussian_mu, gaussian_sums
from limbeck.privacy.events import Spend
from limbeck.privacy.mechanisms import GaussianCounts, GaussianSum, NoisyMedian, Unprotected
from limbeck.protocol.release import Asked, Noise, Release, Unit, release_row
from limbeck.tables import check_fields

CAP = 20
STAGES = 4  # of active asking
WHOLE = (
    'ask = "rows" with votes = "hard", plain teachers and weights that are not theirs; at level L1 weights = "equal" '
    "and one teacher a party"
)
COUNTS_SHARE = 0.05  # of what Gaussian noise may tell, for class counts
MEDIAN_RANGE = 60.0  # over the number of parties: how wide a range of losses it takes to find their median
MEDIAN_SHARE = 0.5  # of epsilon, the most that goes to it
MOST_ROWS = 10**9


@dataclass(frozen=True, slots=True)
class Voting:
    """`[algorithm.voting]`. auto: weights by contrast, at L1 equal; rows, but directions where an epsilon is given."""

    teachers: Literal["plain", "prior-corrected"] = "plain"
    votes: Literal["soft", "hard"] = "soft"
    weights: Literal["auto", "equal", "accuracy", "rare-class", "class-share", "contrast"] = "auto"
    ask: Literal["auto", "rows", "groups", "directions", "active"] = "auto"
    directions: int | None = None  # or groups; a rule says how many
    labels: Literal["matched", "leader"] = "matched"
    prior: Literal["estimated", "uniform"] | list[float] = "estimated"
    cap: int = CAP  # rows of its rarest class at which a teacher counts fully
    unanswered: Literal["left-out", "spread"] = "spread"  # public rows without an answer get one from their like

    def __post_init__(self) -> None:
        check_fields(self)
        for key in ("cap", "directions"):
            if (value := getattr(self, key)) is not None and not 1 <= value <= MOST_ROWS:
                raise LimbeckError(f"{key} must be from 1 to {MOST_ROWS}, not {value}")
        if isinstance(self.prior, list) and not (min(self.prior, default=0) >= 0 < sum(self.prior) < math.inf):
            raise LimbeckError(f"prior must be finite, not negative, and not all be 0: {self.prior}")


@dataclass(frozen=True, slots=True)
class Means:
    """With what noise a vote is taken; None where nothing of the kind is released, or nothing noised."""

    median: NoisyMedian | None = None
    counts: GaussianSum | None = None
    sums: GaussianSum | None = None
    labels: Any = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a vote asks for and releases, by public facts alone."""

    voting: Voting
    privacy: Privacy
    partitions: int
    subsets: int
    consensus: Votes = "count"
    trimmed: float = 0.2

    def __post_init__(self) -> None:
        level = self.privacy.level
        self._refuse_what_does_nothing()
        if self.in_sums and self.consensus not in ("count", "mean"):
            raise LimbeckError(f'voting: consensus = "{self.consensus}" is of rows: ask = "rows"')
        if self.consensus != "count" and self.weighs_classes:
            raise LimbeckError(f'voting: consensus = "{self.consensus}" knows no weights of classes: weights = "equal"')
        if level == "L0":
            return
        if self.in_sums and self.privacy.gamma is not None:
            raise LimbeckError(f'voting: ask = "{self.ask}" takes epsilon or sigma, not gamma')
        if self.in_sums and self.privacy.mechanism not in ("gumbel", "gaussian"):
            raise LimbeckError(
                f'voting: ask = "{self.ask}" adds Gaussian noise to sums: mechanism = "gaussian"; '
                f'"{self.privacy.mechanism}" is for voting = "paper", or {WHOLE}'
            )
        if not self.in_sums and not self.whole and self.privacy.mechanism != "gaussian":
            raise LimbeckError(
                f'voting: mechanism = "{self.privacy.mechanism}" is for whole votes: voting = "paper", or {WHOLE}; '
                'others take mechanism = "gaussian", or an epsilon and ask = "directions"'
            )
        if level == "L1" and self.consensus != "count":
            raise LimbeckError(f'level L1 noises sums: consensus = "count", not "{self.consensus}"')

    def _refuse_what_does_nothing(self) -> None:
        voting, level = self.voting, self.privacy.level
        if voting.directions is not None and not self.in_sums:
            raise LimbeckError(
                f'voting: directions = {voting.directions} is for ask = "directions" or "groups", not for "{self.ask}"'
            )
        capped = self.weights == "rare-class" or (self.weighs_classes and level == "L1")
        if voting.cap != CAP and not capped:
            raise LimbeckError(f'voting: cap = {voting.cap} is for weights = "rare-class", not for "{self.weights}"')
        if voting.prior != "estimated" and not self.reads_prior and not self.corrects:
            reads = 'ask = "directions" or "groups"' if voting.labels == "matched" else 'labels = "matched"'
            raise LimbeckError(
                f"voting: prior = {json.dumps(voting.prior)} does nothing here: say {reads}, or teachers = "
                '"prior-corrected"'
            )

    @property
    def ask(self) -> str:
        if self.voting.ask != "auto":
            return self.voting.ask
        return "rows" if self.privacy.level == "L0" or self.privacy.epsilon is None else "directions"

    @property
    def in_sums(self) -> bool:
        return self.ask in ("groups", "directions")

    @property
    def weights(self) -> str:
        if self.voting.weights != "auto":
            return self.voting.weights
        return "contrast" if self.privacy.level != "L1" and self.consensus == "count" else "equal"

    @property
    def weighs_classes(self) -> bool:
        """Whether weights come from class counts."""
        return self.weights in ("class-share", "contrast")

    @property
    def corrects(self) -> bool:
        return self.voting.teachers == "prior-corrected"

    @property
    def whole(self) -> bool:
        """Whether a voter's ballot is one vote or none: a teacher's at L2, at L1 that of a party's only one.

        At L2 classes are weighed once noise was added.
        """
        hard = self.voting.votes == "hard" and not self.corrects and not self.wants_weight
        one_vote = self.partitions * self.subsets == 1 and not self.weighs_classes
        return hard and (self.privacy.level == "L2" or one_vote)

    @property
    def reads_prior(self) -> bool:
        """Whether labels are matched to a prior: sums and tallies can be, at L1 noisy maxima are labels already."""
        return self.voting.labels == "matched" and (self.privacy.level != "L1" or self.in_sums)

    @property
    def estimates(self) -> bool:
        return self.voting.prior == "estimated" and (self.reads_prior or self.corrects)

    def counts_first(self, classes: int, everyone: int) -> bool:
        """Whether class counts are asked for before anyone trains."""
        there = self.privacy.level != "L1" or self._median(classes, everyone) is not None
        return self.estimates and self.corrects and there

    @property
    def tells_mix(self) -> bool:
        """Whether parties hear of a class mix that nothing hides."""
        return self.privacy.level == "L0" and self.estimates and self.corrects

    def wants_counts(self, classes: int, everyone: int) -> bool:
        """Whether class counts go with what is said."""
        mix = self.estimates and self.privacy.level != "L1"
        return (self.weighs_classes or mix) and not self.counts_first(classes, everyone)

    @property
    def wants_weight(self) -> bool:
        """Whether a party's weight goes with what it says; at L2 it is in its sums already."""
        return self.weights in ("accuracy", "rare-class")

    def believes(self, classes: int, everyone: int) -> bool:
        """Whether parties say what they believe of the public rows' mix."""
        return not self.corrects and self._median(classes, everyone) is not None

    def given_prior(self, classes: int) -> Any:
        """The prior where it needs no asking."""
        if self.voting.prior == "estimated":
            return None
        given = np.array([1.0] * classes if self.voting.prior == "uniform" else self.voting.prior)
        if len(given) != classes:
            raise LimbeckError(f"voting: prior has {len(given)} shares, but there are {classes} classes")
        return given / given.sum()

    def stages(self, queries: int) -> list[int]:
        """How many rows are asked about at a time."""
        parts = STAGES if self.ask == "active" else 1
        return [len(part) for part in np.array_split(np.arange(queries), parts) if len(part)]

    def number(self, means: Means, everyone: int, classes: int) -> int:
        """How many groups or directions: as told, or as many as the voters can be heard in."""
        if self.voting.directions is not None:
            return self.voting.directions
        if means.sums is None:
            return MOST
        voters = everyone if self.privacy.level == "L1" else self.subsets * math.sqrt(everyone)
        return number_of_directions(voters, means.sums.apart / means.sums.sigma, classes)

    def means(self, queries: int, classes: int, everyone: int, noise: Noise) -> Means:
        """The noise of all that is released, calibrated together where an epsilon is given."""
        if self.privacy.level == "L0":
            return Means()
        unit, relation, median = self._unit, self._relation, self._median(classes, everyone)
        beside = [median] if median else []
        counts = self._counts(classes, everyone)
        if self.in_sums:
            apart = 2.0 if unit == "party" else 2.0 * self.partitions
            sums = GaussianSum(apart, 1.0, classes * (self.voting.directions or MOST), unit, relation)
            sums, *noised = self._calibrated(sums, counts, tuple(beside), noise)
            sums = replace(sums, size=classes * self.number(Means(sums=sums), everyone, classes))
            return Means(median, noised[0] if noised else None, sums)
        voters, times = (everyone, queries) if unit == "party" else (self.subsets, self.partitions * queries)
        if counts:
            counts = replace(counts, sigma=counts.apart / math.sqrt(COUNTS_SHARE) / self._mu(times))
        asked = Asked(times, classes, voters, True, noise)
        spent = tuple(Spend(each, 1, noise=noise) for each in [*beside, *([counts] if counts else [])])
        return Means(median, counts, None, self.privacy.noisy_max(unit, 1, asked, spent, self.whole))

    @property
    def _unit(self) -> Unit:
        return "party" if self.privacy.level == "L1" else "example"

    @property
    def _relation(self) -> str:
        return "any" if self.privacy.level == "L1" else self.privacy.adjacency

    def _counts(self, classes: int, everyone: int) -> GaussianSum | None:
        """A replaced example moves two counts by one; a replaced party all its own, each a share of the cap."""
        if self.privacy.level == "L1":
            wanted, apart, size = self.weighs_classes, math.sqrt(classes), everyone * classes
        else:
            wanted, apart, size = self.weighs_classes or self.estimates, math.sqrt(2), classes
        return GaussianCounts(apart, 1.0, size, self._unit, self._relation) if wanted else None

    def _calibrated(
        self, sums: GaussianSum, counts: GaussianSum | None, beside: tuple[Any, ...], noise: Noise
    ) -> tuple[GaussianSum, ...]:
        parts = ((1.0, sums),) if counts is None else ((1 - COUNTS_SHARE, sums), (COUNTS_SHARE, counts))
        if self.privacy.epsilon is not None:
            people = self.privacy.rows_per_person
            return gaussian_sums(self.privacy.epsilon, self.privacy.delta, parts, beside, noise, people)
        mu = sums.apart / float(self.privacy.sigma or 0)
        return tuple(replace(part, sigma=part.apart / mu / math.sqrt(share / parts[0][0])) for share, part in parts)

    def _mu(self, queries: int) -> float:
        """About how much all queries about rows tell."""
        privacy = self.privacy
        if privacy.epsilon is not None:
            return gaussian_mu(privacy.epsilon, privacy.delta) / privacy.rows_per_person
        if privacy.sigma is not None:
            return math.sqrt(2 * queries) / privacy.sigma
        return math.sqrt(queries) * float(privacy.gamma or 0)

    def _median(self, classes: int, everyone: int) -> NoisyMedian | None:
        """Where two classes' mix is estimated at L1, and epsilon is enough for so few parties.

        What parties believe of it comes from rows that a teacher has not learned from.
        """
        can_tell = self.corrects or self.subsets > 1
        if self.privacy.level != "L1" or not self.estimates or classes != 2 or not can_tell:
            return None
        width = MEDIAN_RANGE / everyone
        return NoisyMedian(width / 2) if width <= MEDIAN_SHARE * self._worth else None

    @property
    def _worth(self) -> float:
        """The epsilon of a run that asks for a median; where only the noise is named, if it takes its whole share."""
        if self.privacy.epsilon is not None:
            return self.privacy.epsilon
        if not self.in_sums or not self.privacy.sigma:
            return 0.0
        return gaussian_epsilon(2 / self.privacy.sigma, self.privacy.delta) / (1 - MEDIAN_SHARE)

    def planned(
        self, rows: int, queries: int, classes: int, everyone: int, noise: Noise, alone: bool = False
    ) -> list[Release]:
        """What a run will release, in the ledger's words; `alone`, all teachers are the server's own."""
        self.given_prior(classes)
        if self.in_sums and (self.voting.directions or 0) > rows:
            raise LimbeckError(f"voting: directions = {self.voting.directions}, but {rows} public rows are asked about")
        means, one = self.means(queries, classes, everyone, noise), Asked(1, classes, noise=noise)
        first = self.counts_first(classes, everyone)
        said = int(first and not alone)  # the turn in which parties speak
        found = []
        for party in (f"party {number}" for number in range(everyone)):
            if self.privacy.level == "L2":
                told = self._noised(means, queries, classes, self.subsets, noise)
                turns = [0 if first and place == 0 else said for place in range(len(told))]
                found += _rows(party, turns, told)
                continue
            found += [release_row(party, 0, 0, "Counts", Unprotected(), "server", one)] * (first and not alone)
            bare = self._unprotected(classes, everyone)
            found += [release_row(party, said, n, w, Unprotected(), "server", one) for n, w in enumerate(bare)]
            all_rows = Asked(rows, classes, noise=noise)
            found.append(release_row(party, said, len(bare), "Said", Unprotected(), "server", all_rows))
        if self.privacy.level == "L0":
            mix = [release_row("server", 1, 0, "SayTowards", Unprotected(), "parties", Asked(1, classes, noise=noise))]
            adopt = release_row("server", said + 1, 0, "Adopt", Unprotected(), "parties", Asked())
            return [*found, *mix * (self.tells_mix and not alone), adopt]
        if self.privacy.level == "L1":
            told = self._noised(means, queries, classes, everyone, noise)
            turns = [1 if what == "median" else said + 1 for what, _, _ in told]
            found += _rows("server", turns, told)
        return found

    def _unprotected(self, classes: int, everyone: int) -> list[str]:
        """What goes with a party's predictions, each a release of its own."""
        found = ["Counts"] * self.wants_counts(classes, everyone) + ["Weight"] * self.wants_weight
        return found + ["Belief"] * self.believes(classes, everyone)

    def _noised(
        self, means: Means, queries: int, classes: int, voters: int, noise: Noise
    ) -> list[tuple[str, Any, Asked]]:
        one = Asked(1, classes, noise=noise)
        told: list[tuple[str, Any, Asked]] = [("median", means.median, one)] if means.median else []
        told += [(each.gives, each, one) for each in (means.counts, means.sums) if each]
        if means.labels:
            times = 1 if self.privacy.level == "L1" else self.partitions
            stages = self.stages(queries) * times
            told += [("labels", means.labels, Asked(n, classes, voters, True, noise)) for n in stages]
        return told


def _rows(site: str, turns: list[int], told: list[tuple[str, Any, Asked]]) -> list[Release]:
    rows = enumerate(zip(turns, told, strict=True))
    return [release_row(site, turn, n, what, noise, "public", asked) for n, (turn, (what, noise, asked)) in rows]
