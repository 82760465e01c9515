"""Robust means: the consensus of parties some of which are Byzantine (Chang et al. 2019, Cronus)."""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from limbeck.protocol.rows import Array

Rule = Literal["mean", "median", "trimmed"]
Trimmed = Annotated[float, Field(ge=0, lt=0.5)]  # share of parties left out at either end
FAR, MIN_SPREAD = 6.0, 0.02  # of how often parties agree


def robust_mean(values: Array, rule: Rule, trimmed: float) -> Array:
    """[parties, ...] become one: value by value the mean, the median, or the mean without the outermost.

    `trimmed` is the share of parties that is left out at either end, rounded up: as many parties may be Byzantine.
    """
    if rule == "median":
        return np.asarray(np.median(values, axis=0))
    if rule == "mean":
        return np.asarray(values.mean(axis=0))
    out = min(math.ceil(trimmed * len(values)), (len(values) - 1) // 2)
    return np.asarray(np.sort(values, axis=0)[out : len(values) - out].mean(axis=0))


def agreeing(labels: Array, agreed: Array) -> Array:
    """Which parties predict what was agreed on for enough rows: [parties, students, rows] labels against [rows].

    A party is left out where it agrees much less often than most do: by more than `FAR` times their median deviation.
    At least half of the parties stay.
    """
    often = (labels == agreed).mean(axis=(1, 2))
    middle = np.median(often)
    spread = max(float(np.median(np.abs(often - middle))), MIN_SPREAD)
    return np.asarray(often >= middle - FAR * spread)


def plausible_counts(counts: Array) -> Array:
    """[parties, classes] counts become those of all together, of which a few Byzantine parties can move little.

    No party counts for more rows than half of the parties have. A party whose shares of the classes are three times as
    far from the median as those of half of the parties counts for none.
    """
    held = np.maximum(counts, 0.0)
    held = held[held.sum(axis=1) > 0]
    if not len(held):
        return np.zeros(counts.shape[1])
    totals = held.sum(axis=1)
    distributions = held / totals[:, None]
    away = np.abs(distributions - np.median(distributions, axis=0)).sum(axis=1)
    rows = np.minimum(totals, np.median(totals)) * (away <= 3 * np.median(away))
    return np.asarray(rows @ distributions)


def combined(votes: Array, rule: Rule | Literal["filtered"], trimmed: float) -> tuple[Array, Array]:
    """[parties, rows, classes] votes become [rows, classes] scores; and which parties were left out as Byzantine."""
    if rule in ("median", "trimmed"):
        return robust_mean(votes, rule, trimmed), np.zeros(len(votes), bool)
    included = np.ones(len(votes), bool)
    if rule == "filtered":
        agreed = robust_mean(votes, "median", trimmed).argmax(axis=1)
        included = agreeing(votes.argmax(axis=2)[:, None], agreed)
    return np.asarray(votes[included].sum(axis=0)), ~included
