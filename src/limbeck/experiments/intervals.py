"""Bootstrap intervals of metrics: how much a metric would vary with other test rows of the same kind.

All metrics are computed from the number of times that each row is in a resample. Resamples are computed together.
"""

from collections.abc import Iterator

import numpy as np

from limbeck.experiments.class_metrics import BINS, bin_of, confidence, squared_errors
from limbeck.protocol.rows import Array
from limbeck.protocol.task import POSITIVE, UNKNOWN, Kind

RESAMPLES = 1000
LEVEL = 0.95
AT_ONCE = 2**18  # numbers of times that are computed together


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
    found: dict[str, list[Array]] = {}
    for times in _resampled(len(y), resamples, seed):
        for name, values in weighted(times, labels, scores, y, classes, task).items():
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


def weighted(
    times: Array, labels: Array, scores: Array | None, y: Array, classes: int, task: Kind = "multiclass"
) -> dict[str, Array]:
    """Compute all metrics of several resamples.

    Parameters
    ----------
    times : array of shape (resamples, rows)
        How often each row is in each resample.
    labels, scores, y, classes, task
        As for `intervals`.

    Returns
    -------
    dict of str to array of shape (resamples,)
        Metrics by name, NaN where one is not defined.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        if task == "regression":
            return _of_numbers(times, labels, y)
        if task == "multilabel":
            return _of_several(times, labels, scores, y)
        return _of_labels(times, labels, y, classes) | ({} if scores is None else _of_scores(times, scores, y))


def _of_numbers(times: Array, predicted: Array, target: Array) -> dict[str, Array]:
    count, centred = times.sum(axis=1), target - target.mean()
    errors = np.asarray(predicted, np.float64) - target
    squared = times @ errors**2
    spread = times @ centred**2 - (times @ centred) ** 2 / count
    return {
        "rmse": np.sqrt(squared / count),
        "mae": times @ np.abs(errors) / count,
        "r2": np.where(spread > 0, 1 - squared / spread, np.nan),
    }


def _of_labels(times: Array, labels: Array, y: Array, classes: int) -> dict[str, Array]:
    present = np.unique(y)
    truth, chosen = y[:, None] == present, labels[:, None] == present
    hits, there, predicted = (times @ part.astype(np.float64) for part in (truth & chosen, truth, chosen))
    recalls = hits / there  # NaN for a class that is not in the resample
    f1 = np.where(there > 0, 2 * hits / (there + predicted), np.nan)
    found = {"accuracy": hits.sum(axis=1) / times.sum(axis=1), "balanced_accuracy": _mean(recalls)}
    if classes != 2:
        return found | {"f1": _mean(f1)}
    two = dict(zip(present.tolist(), range(len(present)), strict=True))
    named = {"specificity": (0, recalls), "sensitivity": (1, recalls), "f1": (1, f1)}
    return found | {name: of[:, two[label]] for name, (label, of) in named.items() if label in two}


def _of_scores(times: Array, scores: Array, y: Array) -> dict[str, Array]:
    count, present = times.sum(axis=1), np.unique(y)
    predicted, observed = confidence(scores, y)
    gaps = np.zeros((len(y), BINS))
    gaps[np.arange(len(y)), bin_of(predicted)] = predicted - observed
    found = {
        "brier": times @ squared_errors(scores, y) / count,
        "calibration_error": np.abs(times @ gaps).sum(axis=1) / count,
    }
    if len(present) < 2:
        return found
    columns = [1] if scores.shape[1] == 2 else present
    areas = np.stack([ranked(times, y == label, scores[:, label]) for label in columns])
    return found | {"roc_auc": _mean(areas[:, 0].T), "pr_auc": _mean(areas[:, 1].T)}


def _of_several(times: Array, labels: Array, scores: Array | None, y: Array) -> dict[str, Array]:
    known, positive = y != UNKNOWN, y == POSITIVE
    hit = known & ((labels == POSITIVE) == positive)
    recalls, f1s, areas = list[Array](), list[Array](), list[Array]()
    for column in range(y.shape[1]):
        rows = known[:, column]
        own, truth = times[:, rows], positive[rows, column]
        chosen = (labels[rows, column] == POSITIVE).astype(int)
        each = _of_labels(own, chosen, truth.astype(int), 2) if rows.any() else {}
        recalls += [each[name] for name in ("sensitivity", "specificity") if name in each]
        f1s += [each["f1"]] if "f1" in each else []
        areas += [ranked(own, truth, scores[rows, column])] if scores is not None and len(np.unique(truth)) == 2 else []
    lists = {"balanced_accuracy": recalls, "f1": f1s}
    lists |= {name: [pair[which] for pair in areas] for which, name in enumerate(("roc_auc", "pr_auc"))}
    means = {name: _mean(np.stack(values, axis=1)) for name, values in lists.items() if values}
    return {"accuracy": times @ hit.sum(axis=1) / (times @ known.sum(axis=1))} | means


def ranked(times: Array, truth: Array, scores: Array) -> Array:
    """Compute the areas under the ROC curve and under the precision-recall curve (average precision).

    Parameters
    ----------
    times : array of shape (resamples, rows)
        How often each row is in each resample.
    truth : bool array of shape (rows,)
        Whether each row is of the class.
    scores : array of shape (rows,)
        Scores of the class.

    Returns
    -------
    array of shape (2, resamples)
        The areas; NaN for a resample of one class.
    """
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)  # rows of the same score are one threshold
    ordered = times[:, order]
    right = np.cumsum(ordered * truth[order], axis=1)[:, ends]
    wrong = np.cumsum(ordered, axis=1)[:, ends] - right
    steps, false = np.diff(right, prepend=0, axis=1), np.diff(wrong, prepend=0, axis=1)
    roc = (false * (right - steps / 2)).sum(axis=1) / (right[:, -1] * wrong[:, -1])
    precision = right / np.maximum(right + wrong, 1)
    area = np.where(wrong[:, -1] > 0, (steps * precision).sum(axis=1) / right[:, -1], np.nan)
    return np.stack([roc, area])


def _mean(values: Array) -> Array:
    """Mean over the columns that are defined; NaN if none is."""
    defined = np.isfinite(values)
    return np.asarray(np.where(defined, values, 0).sum(axis=1) / defined.sum(axis=1))
