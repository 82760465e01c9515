"""Spreading: public rows without an answer get one from rows that are like them."""

import numpy as np

from limbeck.knowledge.encodings import components
from limbeck.protocol.rows import Array

NEIGHBOURS = 10
KEPT = 0.2  # how much of an answer gives way to its neighbours'
COMPONENTS = 50


def spread_labels(x: Array, labels: Array, known: Array) -> Array:
    """Labels of all rows: those that are known spread over the graph of nearest neighbours (Zhou et al. 2003)."""
    from sklearn.semi_supervised import LabelSpreading

    if known.all() or len(np.unique(labels[known])) == 1:
        return np.where(known, labels, labels[known][0])
    places = components(x, COMPONENTS)
    if not places.shape[1]:
        return np.where(known, labels, np.bincount(labels[known]).argmax())
    spread = LabelSpreading(kernel="knn", n_neighbors=min(NEIGHBOURS, len(x) - 1), alpha=KEPT)
    return np.asarray(spread.fit(places, np.where(known, labels, -1)).transduction_, np.int64)
