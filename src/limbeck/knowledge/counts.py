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

TINY = 1e-12


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
class Bins:
    """Bins of probabilities, and where the rows of a bin are taken to be.

    Parameters
    ----------
    edges : array of shape (histograms, bins - 1)
        Rising inner edges of each histogram's bins; an edge belongs to the bin above it.
    points : tuple of array
        Rising probabilities of each histogram, at least one in each bin. The rows of a bin are spread over them, as if
        the probabilities were calibrated within the bin.
    """

    edges: Array
    points: tuple[Array, ...]

    @classmethod
    def equal(cls, classes: int, bins: int) -> Self:
        """Bins of equal width, with their middles as points.

        Examples
        --------
        >>> Bins.equal(2, 4).edges.tolist(), Bins.equal(2, 4).points[0].tolist()
        ([[0.25, 0.5, 0.75]], [0.125, 0.375, 0.625, 0.875])
        """
        count = number_of_histograms(classes)
        return cls(np.tile(np.arange(1, bins) / bins, (count, 1)), ((np.arange(bins) + 0.5) / bins,) * count)

    @classmethod
    def of_public(cls, scores: Array, bins: int) -> Self:
        """Bins that suit the probabilities of public rows, which are their points.

        A third of the edges divides these rows into parts of equal weight, if a row's weight is the probability s of
        the class; a third, if it is 1 - s; and a third, if it is s^3. A rare class then has narrow bins, too, and above
        all where its probability is high.

        Parameters
        ----------
        scores : array of shape (rows, classes)
            Probabilities of at least one public row.
        bins : int
            Number of bins.
        """
        found = [_suited(np.sort(np.clip(shares, 0, 1)), bins) for shares in _events(np.asarray(scores, np.float64))]
        return cls(np.stack([edges for edges, _ in found]), tuple(points for _, points in found))

    def spread(self, histogram: int, sides: Array) -> tuple[Array, Array]:
        """Spread the rows of a histogram's two sides over its points.

        Parameters
        ----------
        histogram : int
            Number of the histogram.
        sides : array of shape (2, bins)
            Rows of other classes, and of the class itself.

        Returns
        -------
        tuple of array of shape (points,)
            The rows of both sides at each point.
        """
        points, bins = self.points[histogram], sides.shape[1]
        places = np.searchsorted(self.edges[histogram], points, side="right")
        parts = []
        for counts, weights in zip(sides, (1 - points + TINY, points + TINY), strict=True):
            parts.append(counts[places] * weights / np.bincount(places, weights, bins)[places])
        return parts[0], parts[1]


def _events(scores: Array) -> list[Array]:
    """The probabilities of each histogram."""
    own = [scores[:, k] for k in scored_classes(scores.shape[1])]
    return [*own, scores.max(axis=1)] if scores.shape[1] > 2 else own


def _suited(ranked: Array, bins: int) -> tuple[Array, Array]:
    """Edges that suit ranked probabilities, and points: these, and the middle of each bin that has none."""
    third = (bins - 1) // 3
    parts = ((ranked, third), (1 - ranked, third), (ranked**3, bins - 1 - 2 * third))
    edges = np.sort(np.concatenate([_quantiles(ranked, weights, count) for weights, count in parts]))
    outer = np.r_[0.0, edges, 1.0]
    empty = np.bincount(np.searchsorted(edges, ranked, side="right"), minlength=bins) == 0
    return edges, np.sort(np.r_[ranked, ((outer[1:] + outer[:-1]) / 2)[empty]])


def _quantiles(ranked: Array, weights: Array, count: int) -> Array:
    """Values that divide ranked values into parts of equal weight."""
    whole = np.cumsum(weights + TINY)
    return np.asarray(ranked[np.searchsorted(whole, whole[-1] * np.arange(1, count + 1) / (count + 1))])


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
    >>> counts = PredictionCounts.of(np.array([0, 1]), np.array([0, 1]), scores, Bins.equal(2, 4).edges)
    >>> counts.confusion.tolist(), counts.histograms.tolist()
    ([[1, 0], [0, 1]], [[[1, 0, 0, 0], [0, 0, 0, 1]]])
    """

    confusion: Array
    histograms: Array

    @classmethod
    def of(cls, y: Array, labels: Array, scores: Array, edges: Array) -> Self:
        """Count rows.

        Parameters
        ----------
        y : array of shape (rows,)
            Class numbers.
        labels : array of shape (rows,)
            Predicted class numbers.
        scores : array of shape (rows, classes)
            Finite probabilities. Those outside of [0, 1] count in the first or last bin.
        edges : array of shape (histograms, bins - 1)
            Edges of `Bins`.

        Returns
        -------
        PredictionCounts
            Whole numbers.
        """
        y, labels = np.asarray(y, np.int64), np.asarray(labels, np.int64)
        classes = scores.shape[1]
        truths = [y == k for k in scored_classes(classes)] + ([scores.argmax(axis=1) == y] if classes > 2 else [])
        sides = [_histogram(*each) for each in zip(_events(scores), truths, edges, strict=True)]
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

    def levelled(self) -> "PredictionCounts":
        """Return counts whose sums agree with each other, as `without_noise`, but which may be negative.

        Sums of products of such counts have no bias: the noise of the counts is independent.
        """
        totals = self.without_noise().confusion.sum(axis=1)
        histograms = np.array(self.histograms, np.float64)
        for k, sides in zip(scored_classes(len(totals)), histograms, strict=False):
            sides += ((np.array([totals.sum() - totals[k], totals[k]]) - sides.sum(axis=1)) / sides.shape[1])[:, None]
        return PredictionCounts(self.confusion, histograms)

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


def _histogram(shares: Array, truth: Array, edges: Array) -> Array:
    bins, places = len(edges) + 1, np.searchsorted(edges, np.asarray(shares, np.float64), side="right")
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
