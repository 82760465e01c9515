"""Weights as bytes (safetensors), and beside them the optimizer's moments where a training is to go on with them.

A moment's name is its weight's with `#` and a number; `#steps` counts the steps taken. Weights that come with `#steps`
are trained on with these moments, and give them back.
"""

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError

STEP_COUNT = "#steps"
MAX_WEIGHT = 1e6  # in size, of numbers in a network that comes from elsewhere


def check_weights(given: bytes, like: bytes) -> bytes:
    """Weights from elsewhere: of the same names and shapes as one's own, finite, and within MAX_WEIGHT."""
    own = load(like)
    try:
        found = load(given)
    except (SafetensorError, ValueError) as error:
        raise LimbeckError("weights that cannot be read") from error
    if {n: (v.shape, v.dtype) for n, v in found.items()} != {n: (v.shape, v.dtype) for n, v in own.items()}:
        raise LimbeckError("weights of another network")
    if not all((np.abs(values.astype(np.float64)) <= MAX_WEIGHT).all() for values in found.values()):
        raise LimbeckError(f"weights that are not finite, or beyond {MAX_WEIGHT:g}")
    return given


def continued(weights: bytes, moments: bytes | None) -> bytes:
    """Weights with the moments of an earlier training; without any, with those of one that has yet to begin."""
    found = load(moments) if moments else {STEP_COUNT: np.zeros(1, np.int64)}
    return save({**load(weights), **found})


def split_moments(found: bytes) -> tuple[bytes, bytes]:
    """Weights and moments."""
    every = load(found)
    weights, moments = ({n: v for n, v in every.items() if ("#" in n) == moment} for moment in (False, True))
    return save(weights), save(moments)
