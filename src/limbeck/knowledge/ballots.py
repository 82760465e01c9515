"""Ballots: what one voter says of rows, such that a replaced voter moves no more than a hard vote would.

A ballot is [rows, classes], not negative, of sum 1 at most in each row: in a row two of them are at most sqrt(2) apart,
a ballot and silence 1. A weight from 0 to 1 changes neither.
"""

import numpy as np

from limbeck.protocol.release import UNITS
from limbeck.protocol.rows import Array

LEAST_SHARE = 1e-6  # of a class in a prior: smaller ones are none, so that weights are always finite
MOST_DRAWN = 3  # times its size a subset grows when its classes are evened out


def soft_ballot(scores: Array) -> Array:
    """A voter's probabilities; what is no number is no vote."""
    clipped = np.clip(np.nan_to_num(np.asarray(scores, np.float64), posinf=0.0), 0.0, 1.0)
    return np.asarray(clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0))


def hard_ballot(scores: Array) -> Array:
    """One vote for the class with the largest score; none where all are 0."""
    said = np.nan_to_num(scores)
    return np.asarray(np.eye(said.shape[1])[said.argmax(axis=1)] * said.any(axis=1, keepdims=True))


def abstaining(ballot: Array, counts: Array, prior: Array) -> Array:
    """On classes of which a voter has seen no row, it gives the prior's share rather than none."""
    lacking = np.where(counts > 0, 0.0, prior)
    return np.asarray(ballot * (1 - lacking.sum()) + lacking)


def rare_class_weight(counts: Array, cap: int) -> float:
    """How many rows a voter has of its rarest class, as a share of a public cap."""
    return min(int(counts.min()), cap) / cap


def in_units(ballot: Array) -> Array:
    """Rounded down to whole units: nothing grows, and sums are exact, so that exact noise can be added."""
    return np.asarray(np.floor(ballot * UNITS) / UNITS)


def class_weights(labels: Array, prior: Array) -> Array:
    """Of each row, such that classes weigh as the prior says; 1 on average, and where the prior knows none of them."""
    counts = np.bincount(labels, minlength=len(prior))
    shares = np.where(counts > 0, np.where(prior >= LEAST_SHARE, prior, 0.0), 0.0)
    weights = (shares / np.maximum(counts, 1))[labels]
    return np.asarray(weights / weights.mean()) if weights.any() else np.ones(len(labels))


def drawn_to(labels: Array, prior: Array, seed: int) -> Array:
    """Rows of a subset, some several times, such that its classes have about the prior's shares.

    No row is left out, unless the subset would grow beyond MOST_DRAWN times its size.
    """
    weights = class_weights(labels, prior)
    times = weights / max(weights[weights > 0].min(initial=np.inf), 1 / MOST_DRAWN)
    chance = np.random.default_rng(seed).random(len(labels))
    return np.repeat(np.arange(len(labels)), np.floor(times + chance).astype(int))
