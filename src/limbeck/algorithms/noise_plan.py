"""The noise plan of a vote in principal components: how much noise everything in it gets, calibrated together.

The sum of encoded votes gets Gaussian noise. At L2 so do the class counts of each party. At L1 the prior of two classes
is the noisy median of the parties' estimates, where the epsilon is enough for so few parties.
"""

import math
from dataclasses import dataclass, replace

from limbeck.knowledge.encodings import MAX_COMPONENTS, number_of_components
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.calibration import Privacy, computed_once, gaussian_sums
from limbeck.privacy.mechanisms import GaussianSum, NoisyMedian, Unprotected
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.release import Unit

COUNTS_SHARE = 0.05  # of what Gaussian noise may reveal, for class counts
MEDIAN_RANGE = 60.0  # over the number of parties: the range of losses that it takes to find their median
MEDIAN_SHARE = 0.5  # of epsilon, the most that goes to it


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """What protects the sum of votes in so many `components`, class counts or estimates of the prior, and a median."""

    votes: GaussianSum | Unprotected
    components: int = 0  # none without noise
    counts: GaussianSum | Unprotected | None = None
    median: NoisyMedian | None = None


@computed_once
def noise_plan(privacy: Privacy, run: Facts, teachers: tuple[int, int], sensitivity: float, counts: bool) -> NoisePlan:
    """For (partitions, subsets) of teachers whose encoded votes differ by at most `sensitivity`.

    `counts`: class counts are used, or at L1 the parties' estimates of the prior in their place.
    """
    if privacy.level == "L0":
        return NoisePlan(Unprotected(), counts=Unprotected() if counts else None)
    partitions, subsets = teachers
    unit: Unit = "party" if privacy.level == "L1" else "example"
    relation = "any" if unit == "party" else privacy.adjacency
    changed = 1 if unit == "party" else partitions  # voters that one neighbour changes
    votes = GaussianSum(sensitivity * changed, 1.0, run.classes * MAX_COMPONENTS, unit, relation)
    parts, median = [(1.0, votes)], _median(privacy, run) if counts and unit == "party" and subsets > 1 else None
    if counts and unit == "example":  # a replaced example moves two counts by one
        parts = [(1 - COUNTS_SHARE, votes), (COUNTS_SHARE, GaussianSum(math.sqrt(2), 1.0, run.classes, unit, relation))]
    votes, *others = _calibrated(privacy, parts, median, run)
    voters = run.parties if unit == "party" else subsets * math.sqrt(run.parties)
    number = number_of_components(voters, votes.l2_sensitivity / votes.sigma, run.classes)
    sent = Unprotected() if median else next(iter(others), None)
    return NoisePlan(replace(votes, size=run.classes * number), number, sent, median)


def _calibrated(
    privacy: Privacy, parts: list[tuple[float, GaussianSum]], median: NoisyMedian | None, run: Facts
) -> tuple[GaussianSum, ...]:
    """Each part with its share of what the noise may reveal."""
    if privacy.epsilon is not None:
        beside, people = (median,) if median else (), privacy.rows_per_person
        return gaussian_sums(privacy.epsilon, privacy.delta, tuple(parts), beside, run.noise, people)
    (first, votes), sigma = parts[0], float(privacy.sigma or 0)
    mu = votes.l2_sensitivity / sigma
    return tuple(replace(part, sigma=part.l2_sensitivity / mu / math.sqrt(share / first)) for share, part in parts)


def _median(privacy: Privacy, run: Facts) -> NoisyMedian | None:
    if run.classes != 2:
        return None
    epsilon = privacy.epsilon
    if epsilon is None:  # only the noise is given: what the run costs if the median takes its whole share
        epsilon = gaussian_epsilon(2 / float(privacy.sigma or 0), privacy.delta) / (1 - MEDIAN_SHARE)
    width = MEDIAN_RANGE / run.parties
    return NoisyMedian(width / 2) if width <= MEDIAN_SHARE * epsilon else None
