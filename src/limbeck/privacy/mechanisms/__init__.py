"""Mechanisms: how a value is protected before it leaves a site, and the privacy loss of one query.

A mechanism is a frozen dataclass whose fields are its parameters in the ledger. To add one, subclass `Mechanism` with a
`name` of its own. The class registers itself, so that ledgers can be read and accountants can compose it. Counts get
noise once per query, never again.
"""

from typing import Any

from limbeck.errors import LimbeckError
from limbeck.privacy.events import MECHANISMS as MECHANISMS
from limbeck.privacy.events import Mechanism as Mechanism
from limbeck.privacy.mechanisms.noiseless import PostProcessing as PostProcessing
from limbeck.privacy.mechanisms.noiseless import Unprotected as Unprotected
from limbeck.privacy.mechanisms.parameters import Gamma as Gamma
from limbeck.privacy.mechanisms.parameters import scale_of as scale_of
from limbeck.privacy.mechanisms.subsets import Subsample as Subsample
from limbeck.privacy.mechanisms.sums import ClippedGaussian as ClippedGaussian
from limbeck.privacy.mechanisms.sums import ClippedScores as ClippedScores
from limbeck.privacy.mechanisms.sums import GaussianSum as GaussianSum
from limbeck.privacy.mechanisms.sums import LaplaceCounts as LaplaceCounts
from limbeck.privacy.mechanisms.sums import LaplaceLogits as LaplaceLogits
from limbeck.privacy.mechanisms.sums import clipped as clipped
from limbeck.privacy.mechanisms.votes import ConfidentGaussian as ConfidentGaussian
from limbeck.privacy.mechanisms.votes import Gaussian as Gaussian
from limbeck.privacy.mechanisms.votes import Gumbel as Gumbel
from limbeck.privacy.mechanisms.votes import Laplace as Laplace
from limbeck.privacy.mechanisms.votes import NoisyMax as NoisyMax
from limbeck.privacy.mechanisms.votes import NoisyMedian as NoisyMedian
from limbeck.privacy.mechanisms.votes import noisy_maxima as noisy_maxima


def mechanism_from(name: str, parameters: dict[str, Any]) -> Mechanism:
    """Mechanism of a ledger row.

    Parameters
    ----------
    name : str
        Name of the mechanism.
    parameters : dict
        Its fields.

    Returns
    -------
    Mechanism
        The mechanism.

    Raises
    ------
    LimbeckError
        If no mechanism has this name, or if it has other parameters.

    Examples
    --------
    >>> mechanism_from("gumbel", {"gamma": 0.05})
    Gumbel(gamma=0.05, unit='party', weight=1, adjacency='any')
    """
    if name not in MECHANISMS:
        raise LimbeckError(f"unknown mechanism {name!r}; known: {', '.join(sorted(MECHANISMS))}")
    try:
        return MECHANISMS[name](**parameters)
    except TypeError as error:
        raise LimbeckError(f"the mechanism {name!r} has other parameters than {parameters}") from error
