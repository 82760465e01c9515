"""Spreading: public rows without an answer get one from rows that are like them."""

import numpy as np

from limbeck.knowledge.encodings import components
from limbeck.knowledge.matching import matched
from limbeck.knowledge.votes import winners
from limbeck.protocol.rows import UNANSWERED, Array

NEIGHBOURS = 10
ALPHA = 0.2  # how much of an answer gives way to its neighbours'
COMPONENTS = 50


def label_rows(scores: Array, prior: Array | None, x: Array) -> Array:
    """Labels of the public rows: matched to the prior, or the leaders without one; `scores` are of the first rows.

    Rows without votes get labels of rows that are like them.
    """
    labels, voted = np.full(len(x), UNANSWERED), np.flatnonzero(scores.any(axis=1))
    labels[voted] = winners(scores[voted]) if prior is None else matched(scores[voted], prior)
    return spread_labels(x, labels)


def spread_labels(x: Array, labels: Array) -> Array:
    """Labels of all rows: those that are known spread over the graph of nearest neighbours (Zhou et al. 2003)."""
    from sklearn.semi_supervised import LabelSpreading

    known = labels != UNANSWERED
    if known.all() or len(np.unique(labels[known])) == 1:
        return np.where(known, labels, labels[known][0])
    coordinates = components(x, COMPONENTS)
    if not coordinates.shape[1]:
        return np.where(known, labels, np.bincount(labels[known]).argmax())
    spread = LabelSpreading(kernel="knn", n_neighbors=min(NEIGHBOURS, len(x) - 1), alpha=ALPHA)
    return np.asarray(spread.fit(coordinates, labels).transduction_, np.int64)
