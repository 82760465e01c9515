"""Counts of test rows from which metrics follow: confusions of classes, and histograms of probabilities.

A row with the class y, the predicted class p and the probabilities s adds 1 to confusion[y, p]. It adds 1 to each of K
histograms: of each class k, in the bin of s[k] on the side y == k; and of the best class, in the bin of max(s) on the
side argmax(s) == y, for calibration. Of two classes only the histogram of the second is counted: it has all of this.

The vector of all these counts therefore gets 1 + K ones from each row. An added row moves it by sqrt(1 + K). A replaced
row takes 1 from at most 1 + K counts and adds 1 to as many others: it moves the vector by at most sqrt(2 (1 + K)). A
row reaches this if its predicted class changes, and in every histogram the bin or the side. All this needs that no row
changes the prediction of another row.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from limbeck.protocol.rows import Array


def scored_classes(classes: int) -> list[int]:
    """Classes with a histogram of their own: the second of two, else all.

    Parameters
    ----------
    classes : int
        Number of classes.

    Returns
    -------
    list of int
        Class numbers.

    Examples
    --------
    >>> scored_classes(2), scored_classes(3)
    ([1], [0, 1, 2])
    """
    return [1] if classes == 2 else list(range(classes))


def number_of_histograms(classes: int) -> int:
    """Number of histograms: of more than two classes also that of the best class."""
    return 1 if classes == 2 else classes + 1


def number_of_counts(classes: int, bins: int) -> int:
    """Length of the vector of all counts.

    Parameters
    ----------
    classes, bins : int
        Number of classes, and of bins of a probability.

    Returns
    -------
    int
        The length.

    Examples
    --------
    >>> number_of_counts(2, 20), number_of_counts(3, 20)
    (44, 169)
    """
    return classes**2 + number_of_histograms(classes) * 2 * bins


def sensitivity_of_counts(classes: int, replaced: bool) -> float:
    """Largest L2 distance of the vectors of counts of two neighbouring sets of rows.

    Parameters
    ----------
    classes : int
        Number of classes.
    replaced : bool
        Whether a row is replaced; otherwise one is added or removed.

    Returns
    -------
    float
        The distance, as derived above.

    Examples
    --------
    >>> sensitivity_of_counts(2, replaced=True), sensitivity_of_counts(3, replaced=False)
    (2.0, 2.23606797749979)
    """
    ones = 1 + number_of_histograms(classes)
    return float((2 * ones if replaced else ones) ** 0.5)


@dataclass(frozen=True, slots=True)
class PredictionCounts:
    """Counts of test rows.

    Parameters
    ----------
    confusion : array of shape (classes, classes)
        Rows of each class (first axis) and predicted class.
    histograms : array of shape (histograms, 2, bins)
        Rows of other classes and of the class itself, by their probability of the class. In the last of more than two
        classes: rows whose best class is wrong or right, by its probability.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> counts = PredictionCounts.of(np.array([0, 1]), np.array([0, 1]), scores, classes=2, bins=4)
    >>> counts.confusion.tolist(), counts.histograms.tolist()
    ([[1, 0], [0, 1]], [[[1, 0, 0, 0], [0, 0, 0, 1]]])
    """

    confusion: Array
    histograms: Array

    @classmethod
    def of(cls, y: Array, labels: Array, scores: Array, classes: int, bins: int) -> Self:
        """Count rows.

        Parameters
        ----------
        y : array of shape (rows,)
            Class numbers.
        labels : array of shape (rows,)
            Predicted class numbers.
        scores : array of shape (rows, classes)
            Finite probabilities. Those outside of [0, 1] count in the first or last bin.
        classes, bins : int
            Number of classes, and of bins.

        Returns
        -------
        PredictionCounts
            Whole numbers.
        """
        y, labels = np.asarray(y, np.int64), np.asarray(labels, np.int64)
        events = [(scores[:, k], y == k) for k in scored_classes(classes)]
        if classes > 2:
            events.append((scores.max(axis=1), scores.argmax(axis=1) == y))
        sides = [_histogram(shares, truth, bins) for shares, truth in events]
        confusion = np.bincount(y * classes + labels, minlength=classes**2).reshape(classes, classes)
        return cls(confusion, np.stack(sides))

    @classmethod
    def from_vector(cls, vector: Array, classes: int, bins: int) -> Self:
        """Counts whose vector this is."""
        parts = np.split(vector, [classes**2])
        return cls(parts[0].reshape(classes, classes), parts[1].reshape(-1, 2, bins))

    @property
    def vector(self) -> Array:
        """All counts, in one dimension."""
        return np.concatenate([self.confusion.ravel(), self.histograms.ravel()])

    @property
    def are_consistent(self) -> bool:
        """Whether the histograms count the rows that the confusions count, those of a class on its own side."""
        totals, sides = self.confusion.sum(axis=1), self.histograms.sum(axis=2)
        own = totals[known := scored_classes(len(self.confusion))]
        return bool((sides.sum(axis=1) == totals.sum()).all() and (sides[: len(known), 1] == own).all())

    def without_noise(self) -> "PredictionCounts":
        """Return the nearest counts that are not negative and agree with each other; exact counts do not change.

        The rows of each class are those of the confusions, which add up fewer noisy counts than the histograms.
        """
        confusion = np.stack([nearest_counts(row, row.sum()) for row in self.confusion])
        totals, found = confusion.sum(axis=1), list[Array]()
        for k, (others, these) in zip(known := scored_classes(len(confusion)), self.histograms, strict=False):
            found.append(np.stack([nearest_counts(others, totals.sum() - totals[k]), nearest_counts(these, totals[k])]))
        for both in self.histograms[len(known) :]:
            found.append(nearest_counts(both.ravel(), totals.sum()).reshape(both.shape))
        return PredictionCounts(confusion, np.stack(found))


def _histogram(shares: Array, truth: Array, bins: int) -> Array:
    places = np.clip(np.floor(np.asarray(shares, np.float64) * bins), 0, bins - 1).astype(np.int64)
    return np.bincount(truth * bins + places, minlength=2 * bins).reshape(2, bins)


def nearest_counts(values: Array, total: float) -> Array:
    """Find the nearest numbers that are not negative and have a given sum.

    Parameters
    ----------
    values : array of shape (n,)
        PredictionCounts with noise.
    total : float
        The sum; a negative one counts as 0.

    Returns
    -------
    array of shape (n,)
        The values less one number, and 0 where that is negative.

    Notes
    -----
    To clip every negative count to 0 would add rows to a histogram whose bins are mostly empty. This is Norm-Sub of
    Wang et al. 2020, Locally Differentially Private Frequency Estimation with Consistency: a projection on a simplex.

    Examples
    --------
    >>> nearest_counts(np.array([5.0, -2.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    values = np.asarray(values, np.float64)
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(falling > excess)[-1]], 0.0))
