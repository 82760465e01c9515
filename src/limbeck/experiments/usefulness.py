"""Whether a model is better than the constant predictor."""

import math
import warnings

import numpy as np

from limbeck.errors import LimbeckWarning
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import RunRecord
from limbeck.protocol.task import Kind

THRESHOLD = "a threshold (limbeck predict --threshold)"


def no_better_than_constant(
    metrics: Metrics,
    constant: float | None,
    task: Kind = "multiclass",
    what: str = "the model is",
    method: str | None = None,
    is_protected: bool | None = None,
) -> str | None:
    """Say in one line that a model is no better than the constant predictor.

    Parameters
    ----------
    metrics : Metrics
        Metrics of the model.
    constant : float or None
        Headline metric of the constant predictor; None if it is withheld.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    what : str
        Beginning of the sentence.
    method : str, optional
        Name of the algorithm, if it is known.
    is_protected : bool, optional
        Whether the run had a finite epsilon; None if that is not known.

    Returns
    -------
    str or None
        The line, with what to try; None if the model is better.

    Notes
    -----
    The constant predictor's balanced accuracy is 1 / classes whatever it predicts. A balanced accuracy counts as better
    if it is above this by more than its own standard error, sqrt(sum of r (1 - r) / n) / classes, with the recall r and
    the rows n of each class: a smaller lead is what a model that knows nothing reaches on every sixth set of test rows.

    Examples
    --------
    >>> line = no_better_than_constant(Metrics(0.9, 0.5, confusion=[[90, 0], [10, 0]]), 0.9)
    >>> line.partition(" and ")[0]
    'the model is no better than the constant predictor in accuracy (90.0 %, constant 90.0 %)'
    """
    if task == "multiclass":
        compared = {"accuracy": (metrics.accuracy, constant, 0.0), "balanced accuracy": _balanced(metrics)}
    else:
        name = {"multilabel": "mean ROC AUC", "regression": "R2"}[task]
        compared = {name: (metrics.headline(task), constant, 0.0)}
    poor, better = list[str](), list[str]()
    for name, (value, low, by) in compared.items():
        if value is not None and low is not None:
            text = f"{name} ({_text(name, value)}, constant {_text(name, low)})"
            (poor if value <= low + by else better).append(text)
    if not poor:
        return None
    end = f", but better in {better[0]}" if better else ""
    todo = advice(task, metrics.are_of_two_classes, method, is_protected)
    return f"{what} no better than the constant predictor in {' and '.join(poor)}{end}; {todo}"


def advice(task: Kind, two_classes: bool, method: str | None = None, is_protected: bool | None = None) -> str:
    """Say what may help, as far as it can be done with these labels, this method and this privacy.

    Parameters
    ----------
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    two_classes : bool
        Whether each row has one of two classes.
    method : str, optional
        Name of the algorithm, if it is known.
    is_protected : bool, optional
        Whether the run had a finite epsilon; None if that is not known.

    Returns
    -------
    str
        The end of a sentence.

    Examples
    --------
    >>> advice("multiclass", two_classes=False, method="fedvote", is_protected=False)
    'try more public rows, class_weights under [data], or another model'
    """
    found = ["more public rows"]
    if task == "multiclass":
        found.append("class_weights under [data]")
    if task == "multilabel" or (task == "multiclass" and two_classes):
        found.append(THRESHOLD)
    if is_protected is not False:
        found.append("a larger epsilon" if is_protected else "a larger epsilon if the run had one")
    last = "fedvote" if task == "multiclass" and method != "fedvote" and not is_protected else "another model"
    return f"try {', '.join(found)}, or {last}"


def _text(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if "accuracy" in name else f"{value:.3f}"


def _balanced(metrics: Metrics) -> tuple[float | None, float | None, float]:
    """Balanced accuracy, that of the constant predictor, and the standard error; None if they are not known."""
    counts = np.array(metrics.confusion or np.zeros((0, 0)))
    rows = counts.sum(axis=1)
    there = rows > 0
    if there.sum() < 2:
        return None, None, 0.0
    recalls = (counts.diagonal() / np.maximum(rows, 1))[there]
    error = math.sqrt((recalls * (1 - recalls) / rows[there]).sum()) / there.sum()
    return metrics.balanced_accuracy, float(1 / there.sum()), float(error)


def warn_if_no_better(record: RunRecord) -> None:
    """Warn if the model of a run is no better than the constant predictor, as far as the record has metrics.

    The record of a real run withholds the constant predictor, and the metrics unless they are computed from released
    values. The warning therefore depends on nothing else.
    """
    if record.metrics is None:
        return
    own = any(party.metrics for party in record.parties)
    what = "the parties' own models are, on average," if own else "the final model is"
    is_protected = any(each["epsilon"] is not None and math.isfinite(each["epsilon"]) for each in record.privacy)
    args = record.metrics, record.constant, record.task, what, record.algorithm, is_protected
    if line := no_better_than_constant(*args):
        warnings.warn(line, LimbeckWarning, stacklevel=4)
