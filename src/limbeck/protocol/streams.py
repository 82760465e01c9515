"""Random streams: every use of randomness has a name, so that results do not depend on what ran before."""

from zlib import crc32

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return the random generator for one purpose.

    Parameters
    ----------
    seed : int
        Seed of the run.
    *purpose : str or int
        Name of the stream, in parts.

    Returns
    -------
    numpy.random.Generator
        The same for the same seed and purpose; independent of all other streams.

    Examples
    --------
    >>> bool(stream(0, "party", 3).random() == stream(0, "party", 3).random())
    True
    >>> bool(stream(0, "party", 3).random() == stream(0, "party", 4).random())
    False
    """
    key = tuple(crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
