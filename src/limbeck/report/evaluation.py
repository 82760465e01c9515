"""An evaluation as tables for a terminal."""

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from limbeck.experiments.evaluation import Evaluation
from limbeck.report.tables import MAX_CLASSES, confusion_table, figure, framed, percent, title_of

ORDER = (
    *("accuracy", "balanced_accuracy", "sensitivity", "specificity", "f1", "roc_auc", "pr_auc"),
    *("brier", "calibration_error", "r2", "rmse", "mae"),
)


def evaluation_report(found: Evaluation) -> Group:
    """Return an evaluation for a terminal.

    Parameters
    ----------
    found : Evaluation
        The evaluation.

    Returns
    -------
    rich.console.Group
        Rows, metrics, confusion matrix and calibration.
    """
    parts: list[Text | Table] = [Text(_rows(found)), _metrics(found)]
    if found.metrics.confusion and len(found.classes) <= MAX_CLASSES:
        parts.append(confusion_table(found.metrics.confusion, found.classes))
    if found.calibration:
        parts.append(_calibration(found))
    return Group(*parts, *([Text(found.remark)] if found.remark else []))


def _rows(found: Evaluation) -> str:
    """Number of rows, the share of each class, and the threshold."""
    shares = ", ".join(f"{name} {percent(share)}" for name, share in found.shares.items())
    threshold = "" if found.threshold is None else f"; positive from a probability of {found.threshold:g} on"
    return f"{found.rows} rows{f': {shares}' if shares else ''}{threshold}"


def _metrics(found: Evaluation) -> Table:
    numbers = (Column(name, justify="right") for name in ("model", "95 % interval", "constant predictor"))
    positive = f" (positive: {found.classes[1]})" if found.metrics.are_of_two_classes else ""
    table = framed(f"metrics{positive}", "", *numbers)
    for name in ORDER:
        value, constant = getattr(found.metrics, name), getattr(found.constant, name)
        if value is not None:
            ends = found.intervals.get(name)
            interval = f"{figure(name, ends[0])} to {figure(name, ends[1])}" if ends else "–"
            table.add_row(_title(found, name), figure(name, value), interval, figure(name, constant))
    for name, auc in zip(found.classes, found.metrics.class_auc or (), strict=False):
        table.add_row(f"ROC AUC of {name}", figure("roc_auc", auc), "–", figure("roc_auc", 0.5))
    return table


def _title(found: Evaluation, name: str) -> str:
    """Title of a metric: of more than two classes the areas under curves and F1 are means."""
    return title_of(name, "multiclass" if found.metrics.are_of_two_classes else "multilabel")


def _calibration(found: Evaluation) -> Table:
    event = f"of {found.classes[1]}" if found.metrics.are_of_two_classes else "of the prediction"
    numbers = ("rows", "mean probability", "observed")
    table = framed(f"calibration: probability {event}", "from", *(Column(name, justify="right") for name in numbers))
    for each in found.calibration:
        interval = f"{each.low:.1f} to {each.high:.1f}"
        table.add_row(interval, str(each.rows), f"{each.predicted:.3f}", f"{each.observed:.3f}")
    return table
