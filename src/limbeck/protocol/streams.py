"""Random streams: every use of chance has a name, so that nothing depends on what ran before it."""

from zlib import crc32

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator for one purpose, such as `stream(seed, "party", 3, turn)`."""
    key = tuple(crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
