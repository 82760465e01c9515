"""An evaluation on the parties' own test rows as tables for a terminal."""

from rich.table import Column, Table

from limbeck.consortium.evaluation import EvaluationResult
from limbeck.experiments.counted import FIGURES
from limbeck.experiments.metrics import Metrics
from limbeck.report.tables import confusion_table, figure, framed, number, title_of

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
            table.add_row(_title(result, name), figure(name, value), *_shown(name, result))
    for observer, epsilon in record.epsilon.items():
        table.add_row(f"epsilon of the counts to {observer}", number(epsilon))
    tables = [table, confusion_table(result.metrics.confusion or [], result.classes, is_noisy=bool(result.sigma))]
    return [*tables, _party_table(result)] if result.by_party else tables


def _noise_column(result: EvaluationResult) -> list[str]:
    return ["noise alone"] if result.sigma else []


def _shown(name: str, result: EvaluationResult) -> list[str]:
    uncertainty = result.uncertainty[name]
    interval = f"{figure(name, uncertainty.low)} to {figure(name, uncertainty.high)}"
    return [interval, f"± {figure(name, uncertainty.noise)}"] if result.sigma else [interval]


def _title(result: EvaluationResult, name: str) -> str:
    return title_of(name, "multiclass" if result.metrics.are_of_two_classes else "multilabel")


def _party_table(result: EvaluationResult) -> Table:
    titles = ("rows", *(_title(result, name) for name in SHORT))
    table = framed("parties", "party", *(Column(title, justify="right") for title in titles))
    for party, metrics in result.by_party.items():
        values = (figure(name, getattr(metrics, name)) for name in SHORT)
        table.add_row(party, str(_rows(metrics)), *values)
    return table


def _rows(metrics: Metrics) -> int:
    return sum(map(sum, metrics.confusion or []))
