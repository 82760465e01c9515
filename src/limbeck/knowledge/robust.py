"""Robust means: what parties say together when some of them lie (Chang et al. 2019, Cronus)."""

import math
from typing import Literal

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

Rule = Literal["mean", "median", "trimmed"]
Votes = Literal["count", Rule, "filtered"]
FAR, LEAST_SPREAD = 6.0, 0.02  # of how often parties agree


def robust_mean(said: Array, rule: Rule, trimmed: float) -> Array:
    """[parties, ...] become one: value by value the mean, the median, or the mean without the outermost.

    `trimmed` is the share of parties that is left out at either end, rounded up: as many may say what they like.
    """
    if rule == "median":
        return np.asarray(np.median(said, axis=0))
    if rule == "mean":
        return np.asarray(said.mean(axis=0))
    out = min(math.ceil(trimmed * len(said)), (len(said) - 1) // 2)
    return np.asarray(np.sort(said, axis=0)[out : len(said) - out].mean(axis=0))


def agreeing(labels: Array, agreed: Array) -> Array:
    """Which parties say, of enough rows, what was agreed on: [parties, students, rows] labels against [rows].

    A party is left out where it agrees much less often than most do: by more than `FAR` times their median deviation.
    At least half of the parties stay.
    """
    often = (labels == agreed).mean(axis=(1, 2))
    middle = np.median(often)
    spread = max(float(np.median(np.abs(often - middle))), LEAST_SPREAD)
    return np.asarray(often >= middle - FAR * spread)


def plausible_counts(counts: Array) -> Array:
    """[parties, classes] counts become those of all together, of which a few liars can move little.

    Nobody counts for more rows than half of the parties have, and who has quite another mix of classes than most, three
    times as far from the median as half of them are, for none.
    """
    held = np.maximum(counts, 0.0)
    held = held[held.sum(axis=1) > 0]
    if not len(held):
        return np.zeros(counts.shape[1])
    totals = held.sum(axis=1)
    mixes = held / totals[:, None]
    away = np.abs(mixes - np.median(mixes, axis=0)).sum(axis=1)
    rows = np.minimum(totals, np.median(totals)) * (away <= 3 * np.median(away))
    return np.asarray(rows @ mixes)


def check_trimmed(trimmed: float) -> None:
    if not 0 <= trimmed < 0.5:
        raise LimbeckError(f"trimmed must be a share from 0, below one half, not {trimmed}")
