"""An evaluation on the parties' own test rows as tables for a terminal."""

from collections.abc import Sequence

from rich.table import Column, Table

from limbeck.consortium.evaluation import EvaluationResult
from limbeck.experiments.counted import FIGURES, Uncertainty
from limbeck.experiments.metrics import Metrics
from limbeck.report.tables import framed, number

TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
    "pr_auc": "precision-recall AUC",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "f1": "F1",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
SHORT = ("accuracy", "balanced_accuracy", "roc_auc")


def evaluation_tables(result: EvaluationResult) -> list[Table]:
    """Tables of an evaluation.

    Parameters
    ----------
    result : EvaluationResult
        The evaluation.

    Returns
    -------
    list of Table
        The metrics with their uncertainty, the confusions of classes, and without noise a line for each party.
    """
    record = result.completed.record
    answered = len(record.parties) - len(record.missing)
    title = f"{result.run}, test rows of {answered} of {len(record.parties)} parties"
    right = [Column(name, justify="right") for name in ("", "95 % interval", *_noise_column(result))]
    table = framed(title, "", *right)
    for name in FIGURES:
        if (value := getattr(result.metrics, name)) is not None:
            table.add_row(TITLES[name], f"{value:.3f}", *_shown(result.uncertainty[name], bool(result.sigma)))
    for observer, epsilon in record.epsilon.items():
        table.add_row(f"epsilon of the counts to {observer}", number(epsilon))
    tables = [table, _confusion_table(result.metrics.confusion or [], result.classes, bool(result.sigma))]
    return [*tables, _party_table(result)] if result.by_party else tables


def _noise_column(result: EvaluationResult) -> list[str]:
    return ["noise alone"] if result.sigma else []


def _shown(uncertainty: Uncertainty, noisy: bool) -> list[str]:
    interval = f"{uncertainty.low:.3f} to {uncertainty.high:.3f}"
    return [interval, f"± {uncertainty.noise:.3f}"] if noisy else [interval]


def _confusion_table(confusion: Sequence[Sequence[int]], classes: Sequence[str], noisy: bool) -> Table:
    predicted = [Column(f"predicted {name}", justify="right") for name in classes]
    table = framed(f"test rows{', about' if noisy else ''}", "class", *predicted)
    for name, row in zip(classes, confusion, strict=True):
        table.add_row(name, *map(str, row))
    return table


def _party_table(result: EvaluationResult) -> Table:
    table = framed(
        "parties", "party", *(Column(title, justify="right") for title in ("rows", *(TITLES[name] for name in SHORT)))
    )
    for name, metrics in result.by_party.items():
        values = [getattr(metrics, figure) for figure in SHORT]
        table.add_row(name, str(_rows(metrics)), *("–" if value is None else f"{value:.3f}" for value in values))
    return table


def _rows(metrics: Metrics) -> int:
    return sum(map(sum, metrics.confusion or []))
