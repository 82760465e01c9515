"""Matching: labels whose class mix is that of a prior, and what mix a voter believes the public rows to have.

Voters who saw other class mixes still rank rows well; where they draw the line is what their own mix bends.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

Prior = Literal["estimated", "uniform"] | list[float]

SWEEPS = 50
BAND = 2.0  # standard errors
MIN_ROWS_PER_CLASS = 5  # rows of either class that a voter's belief is built on


def matched(scores: Array, prior: Array) -> Array:
    """The class with the largest score plus an offset of its class, such that classes have the shares they should.

    Each class in turn gets the offset that is right while the others stand: coordinate ascent on the dual of the best
    assignment of rows to classes. Rows with equal scores stay together: shares are then as near as they can be.
    """
    values, classes = np.asarray(scores, np.float64), scores.shape[1]
    found = values.argmax(axis=1)
    wanted = np.rint(len(values) * _shares(np.bincount(found, minlength=classes) / len(values), prior, len(values)))
    offsets = np.zeros(classes)
    for _ in range(SWEEPS):
        if np.array_equal(np.bincount(found, minlength=classes), wanted):
            break
        before = offsets.copy()
        for one in range(classes - 1):  # offsets are only differences: the last class keeps its own
            rest = np.delete(values + offsets, one, axis=1).max(axis=1)
            offsets[one] = _cut(values[:, one] - rest, int(wanted[one]))
        found = (values + offsets).argmax(axis=1)
        if np.array_equal(before, offsets):
            break
    return np.asarray(found)


def _shares(found: Array, prior: Array, rows: int) -> Array:
    """What shares classes should have: the prior's, and where those found lie near it for so few rows, as found.

    Of rows drawn from the prior, a share lies within `BAND` standard errors of it. One that is further off is trusted
    the less the further: of its distance d, band^2 / d is left.
    """
    band = BAND * np.sqrt(prior * (1 - prior) / rows)
    off = found - prior
    limited = np.where(np.abs(off) <= band, off, band**2 / np.where(off == 0, 1.0, off))
    shares = np.maximum(prior + limited, 0.0)
    return np.asarray(shares / shares.sum()) if shares.any() else prior


def _cut(lead: Array, wanted: int) -> float:
    """What to add so that about `wanted` of the leads are above 0; equal ones are not told apart."""
    order = np.sort(lead)[::-1]
    ends = np.concatenate([[order[0] + 1.0], order, [order[-1] - 1.0]])
    cuts = np.flatnonzero(ends[:-1] > ends[1:])  # so many leads lie above each
    best = int(cuts[np.abs(cuts - wanted).argmin()])
    return -float(ends[best] + ends[best + 1]) / 2


def check_prior(prior: Prior) -> None:
    """Raise unless these can be shares of classes: finite, not negative, and not all 0."""
    if not isinstance(prior, str) and not min(prior, default=0) >= 0 < sum(prior) < np.inf:
        raise LimbeckError(f"prior must be finite, not negative, and not all be 0: {prior}")


def shares_of(prior: Prior | Array, classes: int) -> Array:
    """The shares of a prior that is given, or of counts, where negative ones are none; equal shares without either."""
    given = np.ones(classes) if isinstance(prior, str) else np.maximum(prior, 0.0)
    if len(given) != classes:
        raise LimbeckError(f"algorithm.prior has {len(given)} shares, but there are {classes} classes")
    return np.asarray(given / given.sum()) if given.any() else shares_of("uniform", classes)


def estimated_shares(scores: Sequence[Array], labels: Array, subsets: Sequence[Array]) -> Array:
    """A voter's estimate of the shares of two classes among the public rows; [0, 0] where it has none.

    The scores of each teacher are those of the public rows, then of all labelled rows: it has learned a subset of them.
    """
    public = len(scores[0]) - len(labels)
    own = [np.delete(each[public:, 1], rows) for each, rows in zip(scores, subsets, strict=True)]
    unlearned = [np.delete(labels, rows) for rows in subsets]
    found = label_shift(np.concatenate(own), np.concatenate(unlearned), np.concatenate([s[:public, 1] for s in scores]))
    return np.array([0.0, 0.0] if found is None or not np.isfinite(found) else [1 - found, found])


def label_shift(own: Array, labels: Array, public: Array) -> float | None:
    """Of two classes, a voter's estimate of the share of the second among the public rows; None where it has none.

    `own` are its scores for the second class on labelled rows that it has not learned from, `public` those on the
    public rows: a mean of the former's two means, in which share (Lipton, Wang & Smola 2018).
    """
    first, second = own[labels == 0], own[labels == 1]
    if min(len(first), len(second)) < MIN_ROWS_PER_CLASS or not second.mean() > first.mean():
        return None
    return float(np.clip((public.mean() - first.mean()) / (second.mean() - first.mean()), 0.0, 1.0))
