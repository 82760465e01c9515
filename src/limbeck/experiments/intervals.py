"""Bootstrap intervals of metrics: how much a metric would vary with other test rows of the same kind.

All metrics are computed from the number of times that each row is in a resample. Resamples are computed together.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from limbeck.experiments.class_metrics import BINS, bin_of, confidence, squared_errors
from limbeck.protocol.rows import Array
from limbeck.protocol.task import POSITIVE, UNKNOWN, Kind

RESAMPLES = 1000
LEVEL = 0.95
AT_ONCE = 2**17  # numbers of times that are computed together

Estimate = Callable[[Array], dict[str, Array]]


def intervals(
    labels: Array,
    scores: Array | None,
    y: Array,
    classes: int,
    task: Kind = "multiclass",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Compute the 95 % percentile interval of each metric.

    Parameters
    ----------
    labels : array
        Predictions: class numbers; several labels a row as 1 and 0; or numbers in the target's unit.
    scores : array of shape (rows, classes) or None
        Probabilities.
    y : array
        Labels, as predictions; of several labels a row, unknown ones are -1.
    classes : int
        Number of classes.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    resamples : int
        Number of resamples.
    seed : int
        Seed of the resamples.

    Returns
    -------
    dict of str to (float, float)
        Low and high end, by the name of the metric in `Metrics`. A resample in which a metric is not defined, such as
        an area under a curve with rows of one class, does not count; a metric that has no value has no interval.

    Examples
    --------
    >>> y = np.arange(200) % 2
    >>> low, high = intervals(np.where(np.arange(200) < 180, y, 1 - y), None, y, classes=2)["accuracy"]
    >>> low < 0.9 < high
    True
    """
    if scores is not None and not np.isfinite(scores).all():
        scores = None
    estimate = metrics_by_times(labels, scores, y, classes, task)
    found: dict[str, list[Array]] = {}
    for times in _resampled(len(y), resamples, seed):
        for name, values in estimate(times).items():
            found.setdefault(name, []).append(values)
    ends = {name: _ends(np.concatenate(parts)) for name, parts in found.items()}
    return {name: low_high for name, low_high in ends.items() if low_high is not None}


def _resampled(rows: int, resamples: int, seed: int) -> Iterator[Array]:
    """How often each row is in each resample, for some resamples at once."""
    rng, step = np.random.default_rng(seed), max(1, AT_ONCE // rows)
    for first in range(0, resamples, step):
        count = min(step, resamples - first)
        chosen = rng.integers(rows, size=(count, rows)) + rows * np.arange(count)[:, None]
        yield np.bincount(chosen.ravel(), minlength=count * rows).reshape(count, rows).astype(np.float64)


def _ends(values: Array) -> tuple[float, float] | None:
    defined = values[np.isfinite(values)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def metrics_by_times(
    labels: Array, scores: Array | None, y: Array, classes: int, task: Kind = "multiclass"
) -> Estimate:
    """Prepare the metrics of resamples.

    Parameters
    ----------
    labels, scores, y, classes, task
        As for `intervals`.

    Returns
    -------
    callable
        From the number of times that each row is in each resample, an array of shape (resamples, rows), it computes
        an array of shape (resamples,) for each metric by its name; NaN where a metric is not defined.
    """
    if task == "regression":
        parts = [_of_numbers(labels, y)]
    elif task == "multilabel":
        parts = [_of_several(labels, scores, y)]
    else:
        parts = [_of_labels(labels, y, classes), *([] if scores is None else [_of_scores(scores, y)])]

    def estimate(times: Array) -> dict[str, Array]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return {name: values for part in parts for name, values in part(times).items()}

    return estimate


def _of_numbers(predicted: Array, target: Array) -> Estimate:
    centred, errors = target - target.mean(), np.asarray(predicted, np.float64) - target

    def estimate(times: Array) -> dict[str, Array]:
        count, squared = times.sum(axis=1), times @ errors**2
        spread = times @ centred**2 - (times @ centred) ** 2 / count
        r2 = np.where(spread > 0, 1 - squared / spread, np.nan)
        return {"rmse": np.sqrt(squared / count), "mae": times @ np.abs(errors) / count, "r2": r2}

    return estimate


def _of_labels(labels: Array, y: Array, classes: int) -> Estimate:
    present = np.unique(y)
    truth, chosen = y[:, None] == present, labels[:, None] == present
    columns = [part.astype(np.float64) for part in (truth & chosen, truth, chosen)]
    two = {int(label): position for position, label in enumerate(present)} if classes == 2 else {}

    def estimate(times: Array) -> dict[str, Array]:
        hits, there, predicted = (times @ part for part in columns)
        recalls = hits / there  # NaN for a class that is not in the resample
        f1 = np.where(there > 0, 2 * hits / (there + predicted), np.nan)
        found = {"accuracy": hits.sum(axis=1) / times.sum(axis=1), "balanced_accuracy": _mean(recalls)}
        if classes != 2:
            return found | {"f1": _mean(f1)}
        named = {"specificity": (0, recalls), "sensitivity": (1, recalls), "f1": (1, f1)}
        return found | {name: of[:, two[label]] for name, (label, of) in named.items() if label in two}

    return estimate


def _of_scores(scores: Array, y: Array) -> Estimate:
    predicted, observed = confidence(scores, y)
    gaps, errors = np.zeros((len(y), BINS)), squared_errors(scores, y)
    gaps[np.arange(len(y)), bin_of(predicted)] = predicted - observed
    present = np.unique(y)
    columns = [] if len(present) < 2 else [1] if scores.shape[1] == 2 else present
    rankings = [Ranking(y == label, scores[:, label]) for label in columns]

    def estimate(times: Array) -> dict[str, Array]:
        count = times.sum(axis=1)
        gap = np.abs(times @ gaps).sum(axis=1) / count
        return {"brier": times @ errors / count, "calibration_error": gap} | _mean_areas(rankings, times)

    return estimate


def _of_several(labels: Array, scores: Array | None, y: Array) -> Estimate:
    known, positive, chosen = y != UNKNOWN, y == POSITIVE, labels == POSITIVE
    hits, counts = (known & (chosen == positive)).sum(axis=1), known.sum(axis=1)
    columns = [column for column in range(y.shape[1]) if known[:, column].any()]
    both = [column for column in columns if len(np.unique(positive[known[:, column], column])) == 2]
    rows_known = [known[:, column] for column in columns]
    of_columns = [
        _of_labels(chosen[rows, column].astype(int), positive[rows, column].astype(int), 2)
        for column, rows in zip(columns, rows_known, strict=True)
    ]
    rankings = [] if scores is None else [Ranking(positive[:, c], scores[:, c], known[:, c]) for c in both]

    def estimate(times: Array) -> dict[str, Array]:
        each = [part(times[:, rows]) for part, rows in zip(of_columns, rows_known, strict=True)]
        recalls = [found[name] for found in each for name in ("sensitivity", "specificity") if name in found]
        lists = {"balanced_accuracy": recalls, "f1": [found["f1"] for found in each if "f1" in found]}
        means = {name: _mean(np.stack(values, axis=1)) for name, values in lists.items() if values}
        return {"accuracy": times @ hits / (times @ counts)} | means | _mean_areas(rankings, times)

    return estimate


class Ranking:
    """Rows in the order of their scores, for areas under curves.

    Parameters
    ----------
    truth : bool array of shape (rows,)
        Whether each row is of the class.
    scores : array of shape (rows,)
        Scores of the class.
    known : bool array of shape (rows,), optional
        Rows that count; by default all.
    """

    def __init__(self, truth: Array, scores: Array, known: Array | None = None) -> None:
        rows = np.arange(len(truth)) if known is None else np.flatnonzero(known)
        self.order = rows[np.argsort(-scores[rows], kind="stable")]
        self.truth = truth[self.order].astype(np.float64)
        ends = np.diff(scores[self.order], append=np.nan) != 0  # rows of the same score are one threshold
        self.starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])

    def areas(self, times: Array) -> Array:
        """Compute the areas under the ROC curve and under the precision-recall curve (average precision).

        Parameters
        ----------
        times : array of shape (resamples, rows)
            How often each row is in each resample.

        Returns
        -------
        array of shape (2, resamples)
            The areas; NaN for a resample of one class.
        """
        ordered = np.take(times, self.order, axis=1)
        steps = np.add.reduceat(ordered * self.truth, self.starts, axis=1)
        false = np.add.reduceat(ordered, self.starts, axis=1) - steps
        right, wrong = np.cumsum(steps, axis=1), np.cumsum(false, axis=1)
        roc = (false * (right - steps / 2)).sum(axis=1) / (right[:, -1] * wrong[:, -1])
        precision = right / np.maximum(right + wrong, 1)
        area = np.where(wrong[:, -1] > 0, (steps * precision).sum(axis=1) / right[:, -1], np.nan)
        return np.stack([roc, area])


def _mean_areas(rankings: Sequence[Ranking], times: Array) -> dict[str, Array]:
    if not rankings:
        return {}
    areas = np.stack([ranking.areas(times) for ranking in rankings])
    return {"roc_auc": _mean(areas[:, 0].T), "pr_auc": _mean(areas[:, 1].T)}


def _mean(values: Array) -> Array:
    """Mean over the columns that are defined; NaN if none is."""
    defined = np.isfinite(values)
    return np.asarray(np.where(defined, values, 0).sum(axis=1) / defined.sum(axis=1))
