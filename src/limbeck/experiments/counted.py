"""Metrics from counts of test rows, and how uncertain they are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from limbeck.experiments.metrics import Metrics
from limbeck.knowledge.counts import Bins, PredictionCounts, scored_classes
from limbeck.protocol.rows import Array

FIGURES = (
    "accuracy",
    "balanced_accuracy",
    "roc_auc",
    "pr_auc",
    "sensitivity",
    "specificity",
    "f1",
    "brier",
    "calibration_error",
)
INTERVALS = 10  # of the calibration error
ROUNDING = 1e-9  # a centre on the edge of an interval belongs to the upper one
DRAWS = 200
NORMAL = 1.96  # standard deviations in half of an interval of 95 %


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How uncertain a metric is.

    Parameters
    ----------
    low, high : float
        Interval of 95 %: both other test rows and other noise could change the metric this much.
    noise : float
        Standard deviation that the noise alone causes; 0 without noise.
    """

    low: float
    high: float
    noise: float


def metrics_of_counts(counts: PredictionCounts, bins: Bins | None = None, has_probabilities: bool = True) -> Metrics:
    """Compute metrics from counts, with or without noise.

    Parameters
    ----------
    counts : PredictionCounts
        Counts of all test rows.
    bins : Bins, optional
        The bins of the probabilities; by default of equal width.
    has_probabilities : bool
        Whether the model has probabilities; if not, the metrics of probabilities are None.

    Returns
    -------
    Metrics
        Metrics of the confusions are those of the rows themselves. The rows of a bin are spread over its points: the
        areas differ from those of the rows by at most the share of pairs in one bin. A metric is None without rows of
        all classes that it needs. Metrics of one class against the rest are of class 1 of two classes; of more classes
        they are means over the classes, except for the Brier score, which is a sum. The calibration error, over ten
        intervals, is that of class 1 of two classes, else that of the best class of each row.

    Examples
    --------
    >>> rows = np.array([0, 0, 1, 1])
    >>> counts = PredictionCounts.of(rows, rows, np.eye(2)[rows], Bins.equal(2, 10).edges)
    >>> found = metrics_of_counts(counts)
    >>> found.accuracy, found.roc_auc, found.confusion
    (1.0, 1.0, [[2, 0], [0, 2]])
    """
    confusion = np.asarray(counts.without_noise().confusion, np.float64)
    classes, rows, hits = len(confusion), confusion.sum(axis=1), np.diag(confusion)
    total = float(rows.sum())
    if total <= 0:
        return Metrics(confusion=_whole(confusion))
    recalls = [float(hit / of) for hit, of in zip(hits, rows, strict=True) if of > 0]
    present = [k for k in scored_classes(classes) if rows[k] > 0]
    f1 = [_share(2 * confusion[k, k], rows[k] + confusion[:, k].sum()) for k in present]
    bins = Bins.equal(classes, counts.histograms.shape[2]) if bins is None else bins
    of_shares = _metrics_of_probabilities(counts, bins, total) if has_probabilities else dict[str, float | None]()
    return Metrics(
        accuracy=float(hits.sum()) / total,
        balanced_accuracy=float(np.mean(recalls)),
        f1=_mean(f1),
        sensitivity=_share(hits[1], rows[1]) if classes == 2 else None,
        specificity=_share(hits[0], rows[0]) if classes == 2 else None,
        confusion=_whole(confusion),
        roc_auc=of_shares.get("roc_auc"),
        pr_auc=of_shares.get("pr_auc"),
        brier=of_shares.get("brier"),
        calibration_error=of_shares.get("calibration_error"),
    )


def _metrics_of_probabilities(counts: PredictionCounts, bins: Bins, total: float) -> dict[str, float | None]:
    scored = range(len(scored_classes(len(counts.confusion))))
    level, near = counts.levelled().histograms, counts.without_noise().histograms
    own = [(bins.points[k], *bins.spread(k, near[k])) for k in scored]
    last = len(near) - 1
    at, (wrong, right) = bins.points[last], bins.spread(last, near[last])
    intervals = np.clip(np.floor(at * INTERVALS + ROUNDING), 0, INTERVALS - 1).astype(np.int64)
    gaps = np.bincount(intervals, right - (wrong + right) * at, INTERVALS)
    return {
        "roc_auc": _mean([_roc_auc(*bins.spread(k, level[k])) for k in scored]),
        "pr_auc": _mean([_average_precision(others, these) for _, others, these in own]),
        "brier": sum(float(others @ at**2 + these @ (1 - at) ** 2) / total for at, others, these in own),
        "calibration_error": float(np.abs(gaps).sum()) / total,
    }


def _roc_auc(others: Array, own: Array) -> float | None:
    """Share of pairs in which the row of the class has the higher probability; pairs in one bin count half."""
    below = np.cumsum(others) - others
    area = _share(float(own @ (below + others / 2)), float(own.sum() * others.sum()))
    return None if area is None else float(np.clip(area, 0, 1))


def _average_precision(others: Array, own: Array) -> float | None:
    """Mean of the precision over the rows of the class, from the highest bin down."""
    found = np.cumsum(own[::-1])
    every = found + np.cumsum(others[::-1])
    precision = np.divide(found, every, out=np.zeros_like(found), where=every > 0)
    return _share(float(precision @ own[::-1]), float(own.sum())) if others.sum() > 0 else None


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def _whole(confusion: Array) -> list[list[int]]:
    return [[int(count) for count in row] for row in np.rint(confusion)]


def uncertainty_of(
    counts: PredictionCounts,
    sigma: float,
    bins: Bins | None = None,
    has_probabilities: bool = True,
    seed: int = 0,
) -> dict[str, Uncertainty]:
    """Estimate how uncertain the metrics of counts are, by a parametric bootstrap.

    Parameters
    ----------
    counts : PredictionCounts
        The counts.
    sigma : float
        Standard deviation of the noise on each count; 0 without noise.
    bins : Bins, optional
        The bins of the probabilities; by default of equal width.
    has_probabilities : bool
        Whether the model has probabilities.
    seed : int
        Seed of the draws.

    Returns
    -------
    dict of str to Uncertainty
        By metric; without those that are None.

    Notes
    -----
    The nearest counts without noise are taken for the true ones. They are drawn anew `DRAWS` times, with new noise, and
    once more with new noise only. The intervals are the metric plus and minus 1.96 standard deviations of these draws.
    They do not include the bias of a metric: much noise makes the calibration error larger, and the area under the
    precision-recall curve smaller.
    """
    rng, near = np.random.default_rng(seed), counts.without_noise()
    known = metrics_of_counts(counts, bins, has_probabilities)

    def redrawn(drawn: Callable[[Array], Array]) -> dict[str, float]:
        def once() -> Metrics:
            histograms = np.stack([drawn(each) for each in near.histograms])
            found = _with_noise(PredictionCounts(drawn(near.confusion), histograms), sigma, rng)
            return metrics_of_counts(found, bins, has_probabilities)

        return _deviations([once() for _ in range(DRAWS)])

    by_noise = redrawn(lambda table: table) if sigma else dict.fromkeys(FIGURES, 0.0)
    by_rows = redrawn(lambda table: _drawn(table, rng))
    return {
        name: Uncertainty(*_interval(name, value, by_rows[name]), by_noise[name])
        for name in FIGURES
        if (value := getattr(known, name)) is not None
    }


def _drawn(table: Array, rng: np.random.Generator) -> Array:
    """As many rows from the same shares. One row more, divided among all counts, stands for what was never seen."""
    shares = (table.ravel() + 1 / table.size) / (table.sum() + 1)
    return np.asarray(rng.multinomial(round(float(table.sum())), shares / shares.sum()).reshape(table.shape))


def _with_noise(counts: PredictionCounts, sigma: float, rng: np.random.Generator) -> PredictionCounts:
    if not sigma:
        return counts
    noisy = counts.vector + rng.normal(scale=sigma, size=counts.vector.size)
    return PredictionCounts.from_vector(noisy, len(counts.confusion), counts.histograms.shape[2])


def _deviations(found: list[Metrics]) -> dict[str, float]:
    values = {name: [v for each in found if (v := getattr(each, name)) is not None] for name in FIGURES}
    return {name: float(np.std(some)) if some else 0.0 for name, some in values.items()}


def _interval(name: str, value: float, deviation: float) -> tuple[float, float]:
    most = 2.0 if name == "brier" else 1.0
    return max(0.0, value - NORMAL * deviation), min(most, value + NORMAL * deviation)
