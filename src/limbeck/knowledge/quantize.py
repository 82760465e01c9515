"""Quantized scores: levels within a public bound (FedKD, Equations 3 and 4), packed into as few bits as they need."""

import math
from collections.abc import Sequence

import numpy as np
import zstandard

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

WHOLE_BYTES = (8, 16, 32)
MAX_LEVELS = 2**30


def quantized(scores: Array, bound: float, scale: int) -> Array:
    """Quantize scores that are clipped to (-B, B].

    Parameters
    ----------
    scores : array
        Scores z.
    bound : float
        Bound B.
    scale : int
        Number of levels S; there is one more if S is odd.

    Returns
    -------
    array
        Levels in int32, of the same shape.

    Notes
    -----
    The level is ceil(S z / 2B): Equation 4 of FedKD (Gong et al. 2022), divided by the width of a level.

    Examples
    --------
    >>> levels = quantized(np.array([-20.0, 0.3, 9.9]), bound=10.0, scale=4)
    >>> levels.tolist(), scores_of(levels, bound=10.0, scale=4).tolist()
    ([-1, 1, 2], [-5.0, 5.0, 10.0])
    """
    levels = np.ceil(np.asarray(scores, np.float64) * (scale / (2 * bound)))
    return np.clip(levels, *ends(scale)).astype(np.int32)


def ends(scale: int) -> tuple[int, int]:
    """Return the lowest and the highest level.

    Parameters
    ----------
    scale : int
        Number of levels S.

    Returns
    -------
    tuple of int
        The lowest and the highest level.

    Examples
    --------
    >>> ends(200)
    (-99, 100)
    """
    return math.floor(-scale / 2) + 1, math.ceil(scale / 2)


def scores_of(levels: Array, bound: float, scale: int) -> Array:
    """Compute the scores that levels stand for.

    Parameters
    ----------
    levels : array
        Levels.
    bound : float
        Bound B.
    scale : int
        Number of levels S.

    Returns
    -------
    array
        Scores, of the same shape.

    Notes
    -----
    Q(z) = ceil(S z / 2B) 2B / S (FedKD, Equation 4).
    """
    return np.asarray(levels, np.float64) * (2 * bound / scale)


def nearest_levels(scores: Array, bound: float, scale: int) -> Array:
    """Round noisy scores to the nearest level, also beyond the bound.

    Parameters
    ----------
    scores : array
        Scores with noise.
    bound : float
        Bound B.
    scale : int
        Number of levels S.

    Returns
    -------
    array
        Levels in int32, from -2^30 to 2^30.

    Examples
    --------
    >>> nearest_levels(np.array([-31.0, 0.3]), bound=10.0, scale=4).tolist()
    [-6, 0]
    """
    levels = np.rint(np.asarray(scores, np.float64) * (scale / (2 * bound)))
    return np.clip(levels, -MAX_LEVELS, MAX_LEVELS).astype(np.int32)


def packed(levels: Array) -> tuple[bytes, int, int]:
    """Pack levels into as few bits as their range needs, or into whole bytes if these compress better.

    Parameters
    ----------
    levels : array of shape (rows, classes)
        Levels.

    Returns
    -------
    data : bytes
        The levels minus the lowest one, class by class.
    bits : int
        Bits for each level.
    least : int
        The lowest level.

    Examples
    --------
    >>> levels = np.array([[-3, 4], [0, 1]])
    >>> data, bits, least = packed(levels)
    >>> least, unpacked(data, bits, least, rows=2, classes=2).tolist()
    (-3, [[-3, 4], [0, 1]])
    """
    least = int(levels.min(initial=0))
    offsets = (levels.T.ravel().astype(np.int64) - least).astype(np.uint32)
    needed = max(1, int(offsets.max(initial=0)).bit_length())
    widths = dict.fromkeys([needed, next(width for width in WHOLE_BYTES if width >= needed)])
    found = {width: _pack(offsets, width) for width in widths}
    bits = min(found, key=lambda width: compressed_size(found[width]))
    return found[bits], bits, least


def unpacked(data: bytes, bits: int, least: int, rows: int, classes: int) -> Array:
    """Unpack levels that another site packed.

    Parameters
    ----------
    data : bytes
        Packed levels.
    bits : int
        Bits for each level.
    least : int
        The lowest level.
    rows : int
        Number of rows.
    classes : int
        Number of classes.

    Returns
    -------
    array of shape (rows, classes)
        Levels.

    Raises
    ------
    LimbeckError
        If the number of bytes is wrong, or the lowest level is out of range.
    """
    if abs(least) > MAX_LEVELS:
        raise LimbeckError(f"the lowest level is {least}, outside of {-MAX_LEVELS} to {MAX_LEVELS}")
    if not 1 <= bits <= WHOLE_BYTES[-1] or len(data) != math.ceil(bits * rows * classes / 8):
        raise LimbeckError(f"{len(data)} bytes are not {rows} x {classes} levels of {bits} bits")
    return (_unpack(data, bits, rows * classes).astype(np.int64) + least).reshape(classes, rows).T


def compressed_size(data: bytes) -> int:
    """Return the number of bytes that are sent: compressed if that is shorter."""
    return min(len(data), len(zstandard.compress(data)))


def entropy_bytes(levels: Array) -> float:
    """Compute the entropy of levels, in bytes.

    It is the smallest size if each level is coded by itself, by its frequency in its class.

    Parameters
    ----------
    levels : array of shape (rows, classes)
        Levels.

    Returns
    -------
    float
        Entropy of all levels, in bytes.

    Examples
    --------
    >>> entropy_bytes(np.array([[0], [1]] * 40))
    10.0
    """
    total = 0.0
    for column in levels.T:
        _, counts = np.unique(column, return_counts=True)
        total += float(counts @ np.log2(len(column) / counts))
    return total / 8


def score_sizes(sent: Sequence[bytes], levels: Sequence[Array], classes: int, exact: bool) -> dict[str, float]:
    """Compute the sizes of scores for the run record, in bytes.

    Parameters
    ----------
    sent : sequence of bytes
        Scores as they were sent, for each party.
    levels : sequence of array of shape (rows, classes)
        Scores or levels of each party.
    classes : int
        Number of classes.
    exact : bool
        Whether sizes that depend on the values may be published.

    Returns
    -------
    dict of str to float
        `float64_bytes`, the size by the paper's formula; if `exact` also `sent_bytes`, and for levels `entropy_bytes`.
    """
    sizes = {"float64_bytes": 8.0 * classes * sum(map(len, levels))}
    if exact:
        sizes["sent_bytes"] = float(sum(map(compressed_size, sent)))
        if all(each.dtype.kind in "iu" for each in levels):
            sizes["entropy_bytes"] = sum(map(entropy_bytes, levels))
    return sizes


def _pack(offsets: Array, bits: int) -> bytes:
    if bits in WHOLE_BYTES:
        return offsets.astype(f"<u{bits // 8}").tobytes()
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint32)
    return np.packbits((offsets[:, None] >> shifts & 1).astype(np.uint8)).tobytes()


def _unpack(data: bytes, bits: int, count: int) -> Array:
    if bits in WHOLE_BYTES:
        return np.frombuffer(data, f"<u{bits // 8}")
    each = np.unpackbits(np.frombuffer(data, np.uint8), count=bits * count).reshape(count, bits)
    return each @ (1 << np.arange(bits - 1, -1, -1, dtype=np.int64))
