"""Weights as bytes (safetensors), and beside them the optimiser's moments where a training is to go on with them.

A moment's name is its weight's with `#` and a number; `#steps` counts the steps taken. Weights that come with `#steps`
are trained on with these moments, and give them back.
"""

import numpy as np
from safetensors.numpy import load, save

STEPS = "#steps"


def continued(weights: bytes, moments: bytes | None) -> bytes:
    """Weights with the moments of an earlier training; without any, with those of one that has yet to begin."""
    kept = load(moments) if moments else {STEPS: np.zeros(1, np.int64)}
    return save({**load(weights), **kept})


def apart(found: bytes) -> tuple[bytes, bytes]:
    """Weights and moments."""
    every = load(found)
    weights, moments = ({n: v for n, v in every.items() if ("#" in n) == moment} for moment in (False, True))
    return save(weights), save(moments)
