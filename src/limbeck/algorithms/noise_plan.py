"""The noise plan of FedVote: how much noise each value of a run gets, calibrated together to one epsilon.

The sum of encoded votes gets Gaussian noise. At L2 the class counts of each party get Gaussian noise too. At L1 the
prior of two classes is the noisy median of the parties' estimates, if epsilon is large enough for so few parties.
"""

import math
from dataclasses import dataclass, replace

from limbeck.knowledge.encodings import MAX_COMPONENTS, number_of_components
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.calibration import Privacy, computed_once, gaussian_sums
from limbeck.privacy.mechanisms import GaussianSum, NoisyMedian, Unprotected
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.release import Unit

COUNTS_SHARE = 0.05  # share of mu squared that class counts get
MEDIAN_RANGE = 60.0  # bounded range of the noisy median, times the number of parties
MEDIAN_SHARE = 0.5  # largest share of epsilon for the median


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The mechanisms of a run of FedVote.

    Parameters
    ----------
    votes : GaussianSum or Unprotected
        The mechanism of the sum of encoded votes.
    components : int
        Number of components in which votes are encoded; 0 without noise.
    counts : GaussianSum, Unprotected or None
        The mechanism of class counts, or of the estimates of the prior at L1; None if neither is sent.
    median : NoisyMedian or None
        The mechanism of the prior at L1; None if the prior is not estimated there.
    """

    votes: GaussianSum | Unprotected
    components: int = 0
    counts: GaussianSum | Unprotected | None = None
    median: NoisyMedian | None = None


@computed_once
def noise_plan(privacy: Privacy, run: Facts, teachers: tuple[int, int], sensitivity: float, counts: bool) -> NoisePlan:
    """Calibrate the noise of a run of FedVote.

    Parameters
    ----------
    privacy : Privacy
        The level, and epsilon or the size of the noise.
    run : Facts
        The public facts of the run.
    teachers : (int, int)
        The number of partitions and of subsets.
    sensitivity : float
        The largest L2 distance between two encoded votes of a voter.
    counts : bool
        Whether class counts are used (at L1, estimates of the prior instead).

    Returns
    -------
    NoisePlan
        The mechanisms, and the number of components.

    Examples
    --------
    >>> noise_plan(Privacy(), Facts(public=100, classes=2, parties=5), (1, 5), 2.0, counts=False)
    NoisePlan(votes=Unprotected(), components=0, counts=None, median=None)
    """
    if privacy.level == "L0":
        return NoisePlan(Unprotected(), counts=Unprotected() if counts else None)
    partitions, subsets = teachers
    unit: Unit = "party" if privacy.level == "L1" else "example"
    relation = "any" if unit == "party" else privacy.adjacency
    changed = 1 if unit == "party" else partitions  # voters that change between neighbours
    votes = GaussianSum(sensitivity * changed, 1.0, run.classes * MAX_COMPONENTS, unit, relation)
    parts, median = [(1.0, votes)], _median(privacy, run) if counts and unit == "party" and subsets > 1 else None
    if counts and unit == "example":  # a replaced example changes two counts by one
        parts = [(1 - COUNTS_SHARE, votes), (COUNTS_SHARE, GaussianSum(math.sqrt(2), 1.0, run.classes, unit, relation))]
    votes, *others = _calibrated(privacy, parts, median, run)
    voters = run.parties if unit == "party" else subsets * math.sqrt(run.parties)
    number = number_of_components(voters, votes.l2_sensitivity / votes.sigma, run.classes)
    sent = Unprotected() if median else next(iter(others), None)
    return NoisePlan(replace(votes, size=run.classes * number), number, sent, median)


def _calibrated(
    privacy: Privacy, parts: list[tuple[float, GaussianSum]], median: NoisyMedian | None, run: Facts
) -> tuple[GaussianSum, ...]:
    """Each mechanism with noise for its share of mu squared."""
    if privacy.epsilon is not None:
        others, people = (median,) if median else (), privacy.rows_per_person
        return gaussian_sums(privacy.epsilon, privacy.delta, tuple(parts), others, run.noise, people)
    (first, votes), sigma = parts[0], float(privacy.sigma or 0)
    mu = votes.l2_sensitivity / sigma
    return tuple(replace(part, sigma=part.l2_sensitivity / mu / math.sqrt(share / first)) for share, part in parts)


def _median(privacy: Privacy, run: Facts) -> NoisyMedian | None:
    if run.classes != 2:
        return None
    epsilon = privacy.epsilon
    if epsilon is None:  # only sigma is given: the epsilon of the run if the median gets its whole share
        epsilon = gaussian_epsilon(2 / float(privacy.sigma or 0), privacy.delta) / (1 - MEDIAN_SHARE)
    width = MEDIAN_RANGE / run.parties
    return NoisyMedian(width / 2) if width <= MEDIAN_SHARE * epsilon else None
