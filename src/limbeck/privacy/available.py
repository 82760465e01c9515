"""Whether this machine can draw the noise of a run, which is checked before anything is fitted."""

from collections.abc import Iterable

from limbeck.privacy.mechanisms import MECHANISMS, Subsample
from limbeck.privacy.sampling import load_opendp
from limbeck.protocol.release import Release


def check_can_draw(planned: Iterable[Release]) -> None:
    """Raise before any training if secure noise is planned and OpenDP is not installed.

    Parameters
    ----------
    planned : iterable of Release
        The planned releases of this machine. Random subsets need no noise.

    Raises
    ------
    LimbeckError
        The message gives the command that installs OpenDP.

    Examples
    --------
    >>> check_can_draw([])
    """
    if any(map(_draws, planned)):
        load_opendp()


def _draws(row: Release) -> bool:
    kind = MECHANISMS.get(row.mechanism)
    return row.noise == "secure" and kind is not None and kind.noisy and kind is not Subsample
