"""Weights as bytes (safetensors), and the optimizer moments beside them if training continues.

A moment has the name of its weight with `#` and a number. `#steps` is the number of steps taken. If weights contain
`#steps`, training continues with these moments and returns them.
"""

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError

STEP_COUNT = "#steps"
MAX_WEIGHT = 1e6  # largest absolute value of a weight from another site


def check_weights(given: bytes, like: bytes) -> bytes:
    """Check weights from another site: names, shapes and types as expected, all values finite and within MAX_WEIGHT.

    Parameters
    ----------
    given : bytes
        Weights from another site (safetensors).
    like : bytes
        Weights of the expected network.

    Returns
    -------
    bytes
        The same weights.

    Raises
    ------
    LimbeckError
        If they are not valid.

    Examples
    --------
    >>> own = save({"w": np.zeros(2, np.float32)})
    >>> check_weights(save({"w": np.ones(2, np.float32)}), own) == own
    False
    >>> check_weights(save({"w": np.ones(3, np.float32)}), own)
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: weights of another network: names, shapes or types differ
    """
    own = load(like)
    try:
        found = load(given)
    except (SafetensorError, ValueError) as error:
        raise LimbeckError("weights that cannot be read; they must be safetensors") from error
    if {n: (v.shape, v.dtype) for n, v in found.items()} != {n: (v.shape, v.dtype) for n, v in own.items()}:
        raise LimbeckError("weights of another network: names, shapes or types differ")
    if not all((np.abs(values.astype(np.float64)) <= MAX_WEIGHT).all() for values in found.values()):
        raise LimbeckError(f"weights that are not finite, or larger than {MAX_WEIGHT:g}")
    return given


def continued(weights: bytes, moments: bytes | None) -> bytes:
    """Add optimizer moments to weights, so that training continues with them.

    Parameters
    ----------
    weights : bytes
        Weights (safetensors).
    moments : bytes or None
        Moments of an earlier training; None means those of a training that has not begun.

    Returns
    -------
    bytes
        Weights and moments.

    Examples
    --------
    >>> sorted(load(continued(save({"w": np.zeros(2)}), None)))
    ['#steps', 'w']
    """
    found = load(moments) if moments else {STEP_COUNT: np.zeros(1, np.int64)}
    return save({**load(weights), **found})


def split_moments(found: bytes) -> tuple[bytes, bytes]:
    """Separate weights and optimizer moments.

    Parameters
    ----------
    found : bytes
        Weights and moments (safetensors).

    Returns
    -------
    weights, moments : bytes
        Weights without moments, and moments alone.

    Examples
    --------
    >>> weights, moments = split_moments(continued(save({"w": np.zeros(2)}), None))
    >>> list(load(weights)), list(load(moments))
    (['w'], ['#steps'])
    """
    every = load(found)
    weights, moments = ({n: v for n, v in every.items() if ("#" in n) == moment} for moment in (False, True))
    return save(weights), save(moments)
