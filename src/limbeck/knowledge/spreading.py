"""Label spreading: public rows without a label get one from similar rows."""

import numpy as np

from limbeck.knowledge.encodings import components
from limbeck.knowledge.matching import matched
from limbeck.knowledge.votes import winners
from limbeck.protocol.rows import UNANSWERED, Array

NEIGHBOURS = 10
ALPHA = 0.2  # weight of the neighbours' labels against a row's own
COMPONENTS = 50


def label_rows(scores: Array, prior: Array | None, x: Array) -> Array:
    """Label all public rows from scores of the first ones.

    Parameters
    ----------
    scores : array of shape (queries, classes)
        Scores of the first public rows; all 0 for a row without votes.
    prior : array of shape (classes,) or None
        Class shares that labels are matched to. Without it, the class with the largest score is taken.
    x : array of shape (rows, ...)
        All public rows.

    Returns
    -------
    array of shape (rows,)
        Class numbers. Rows without votes get the labels of similar rows.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> label_rows(np.array([[2.0, 1.0], [0.0, 0.0], [0.0, 3.0]]), None, x).tolist()
    [0, 0, 1, 1]
    """
    labels, voted = np.full(len(x), UNANSWERED), np.flatnonzero(scores.any(axis=1))
    labels[voted] = winners(scores[voted]) if prior is None else matched(scores[voted], prior)
    return spread_labels(x, labels)


def spread_labels(x: Array, labels: Array) -> Array:
    """Spread known labels to all rows over the graph of nearest neighbours.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows.
    labels : array of shape (rows,)
        Class numbers, or `UNANSWERED`.

    Returns
    -------
    array of shape (rows,)
        Class numbers.

    Notes
    -----
    Label spreading (Zhou et al. 2003) on principal components of the rows.
    """
    from sklearn.semi_supervised import LabelSpreading

    known = labels != UNANSWERED
    if known.all() or len(np.unique(labels[known])) == 1:
        return np.where(known, labels, labels[known][0])
    coordinates = components(x, COMPONENTS)
    if not coordinates.shape[1]:
        return np.where(known, labels, np.bincount(labels[known]).argmax())
    spread = LabelSpreading(kernel="knn", n_neighbors=min(NEIGHBOURS, len(x) - 1), alpha=ALPHA)
    return np.asarray(spread.fit(coordinates, labels).transduction_, np.int64)
