"""The noise plan of FedVote: how much noise each value of a run gets, calibrated together to one epsilon.

The sum of encoded votes gets Gaussian noise. The prior of two classes is the noisy median of the parties' estimates, if
epsilon is large enough for so few parties.
"""

from dataclasses import dataclass, replace

from limbeck.knowledge.encodings import MAX_COMPONENTS, number_of_components
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.calibration import Privacy, computed_once, gaussian_sum
from limbeck.privacy.mechanisms import GaussianSum, NoisyMedian, Unprotected
from limbeck.protocol.disclosures import Facts

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
    counts : bool
        Whether parties send class counts, or at L1 estimates of the prior.
    median : NoisyMedian or None
        The mechanism of the prior at L1; None if the prior is not estimated there.
    """

    votes: GaussianSum | Unprotected
    components: int = 0
    counts: bool = False
    median: NoisyMedian | None = None


@computed_once
def noise_plan(privacy: Privacy, run: Facts, subsets: int, sensitivity: float, counts: bool) -> NoisePlan:
    """Calibrate the noise of a run of FedVote.

    Parameters
    ----------
    privacy : Privacy
        The level, and epsilon or the size of the noise.
    run : Facts
        The public facts of the run.
    subsets : int
        The number of subsets of a party's rows.
    sensitivity : float
        The largest L2 distance between two encoded votes of a party.
    counts : bool
        Whether class counts are used (at L1, estimates of the prior instead).

    Returns
    -------
    NoisePlan
        The mechanisms, and the number of components.

    Examples
    --------
    >>> noise_plan(Privacy(), Facts(public=100, classes=2, parties=5), 5, 2.0, counts=False)
    NoisePlan(votes=Unprotected(), components=0, counts=False, median=None)
    """
    if privacy.level == "L0":
        return NoisePlan(Unprotected(), counts=counts)
    median = _median(privacy, run) if counts and subsets > 1 else None
    votes = _calibrated(privacy, GaussianSum(sensitivity, 1.0, run.classes * MAX_COMPONENTS), median, run)
    number = number_of_components(run.parties, votes.l2_sensitivity / votes.sigma, run.classes)
    return NoisePlan(replace(votes, size=run.classes * number), number, median is not None, median)


def _calibrated(privacy: Privacy, votes: GaussianSum, median: NoisyMedian | None, run: Facts) -> GaussianSum:
    if privacy.epsilon is not None:
        return gaussian_sum(privacy.epsilon, privacy.delta, votes, (median,) if median else (), run.noise)
    mu = votes.l2_sensitivity / float(privacy.sigma or 0)
    return replace(votes, sigma=votes.l2_sensitivity / mu)  # sigma, rounded as in earlier ledgers


def _median(privacy: Privacy, run: Facts) -> NoisyMedian | None:
    if run.classes != 2 or not run.task.is_multiclass:
        return None
    epsilon = privacy.epsilon
    if epsilon is None:  # only sigma is given: the epsilon of the run if the median gets its whole share
        epsilon = gaussian_epsilon(2 / float(privacy.sigma or 0), privacy.delta) / (1 - MEDIAN_SHARE)
    width = MEDIAN_RANGE / run.parties
    return NoisyMedian(width / 2) if width <= MEDIAN_SHARE * epsilon else None
