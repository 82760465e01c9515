"""Quantised scores: whole levels of a public bound (FedKD, Equations 3 and 4), packed into as few bits as they need."""

import math
from collections.abc import Sequence

import numpy as np
import zstandard

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

WHOLE_BYTES = (8, 16, 32)
MAX_LEVELS = 2**30


def quantized(scores: Array, bound: float, scale: int) -> Array:
    """Levels ceil(S z / 2B) of scores clipped to (-B, B]: S of them, one more where S is odd."""
    levels = np.ceil(np.asarray(scores, np.float64) * (scale / (2 * bound)))
    return np.clip(levels, *ends(scale)).astype(np.int32)


def ends(scale: int) -> tuple[int, int]:
    """The lowest and the highest level."""
    return math.floor(-scale / 2) + 1, math.ceil(scale / 2)


def scores_of(levels: Array, bound: float, scale: int) -> Array:
    """Q(z): what levels stand for."""
    return np.asarray(levels, np.float64) * (2 * bound / scale)


def nearest_levels(scores: Array, bound: float, scale: int) -> Array:
    """Levels of scores that noise has moved, however far: what is beyond the last one counts as that."""
    levels = np.rint(np.asarray(scores, np.float64) * (scale / (2 * bound)))
    return np.clip(levels, -MAX_LEVELS, MAX_LEVELS).astype(np.int32)


def packed(levels: Array) -> tuple[bytes, int, int]:
    """Levels [rows, classes], class by class, with the bits of each and the least of them.

    In as few bits as the range takes, or in whole bytes, whichever compresses better.
    """
    least = int(levels.min(initial=0))
    offsets = (levels.T.ravel().astype(np.int64) - least).astype(np.uint32)
    needed = max(1, int(offsets.max(initial=0)).bit_length())
    widths = dict.fromkeys([needed, next(width for width in WHOLE_BYTES if width >= needed)])
    found = {width: _pack(offsets, width) for width in widths}
    bits = min(found, key=lambda width: compressed_size(found[width]))
    return found[bits], bits, least


def unpacked(data: bytes, bits: int, least: int, rows: int, classes: int) -> Array:
    """The levels that were packed, or an error where the bytes are not so many, or no levels."""
    if abs(least) > MAX_LEVELS:
        raise LimbeckError("levels that begin where none are")
    if not 1 <= bits <= WHOLE_BYTES[-1] or len(data) != math.ceil(bits * rows * classes / 8):
        raise LimbeckError(f"{len(data)} bytes are not {rows} x {classes} levels of {bits} bits")
    return (_unpack(data, bits, rows * classes).astype(np.int64) + least).reshape(classes, rows).T


def compressed_size(data: bytes) -> int:
    """How many bytes travel: compressed where that helps."""
    return min(len(data), len(zstandard.compress(data)))


def entropy_bytes(levels: Array) -> float:
    """The fewest bytes that levels [rows, classes] take where each is coded by how often its class has it.

    Less is possible only where rows that follow each other are alike.
    """
    total = 0.0
    for column in levels.T:
        _, counts = np.unique(column, return_counts=True)
        total += float(counts @ np.log2(len(column) / counts))
    return total / 8


def score_sizes(sent: Sequence[bytes], levels: Sequence[Array], classes: int, exact: bool) -> dict[str, float]:
    """Bytes as sent, their entropy and what the paper counts; the first two only where they may be published."""
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
