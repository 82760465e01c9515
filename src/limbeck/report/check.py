"""What a run would do, as tables for a terminal."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group
from rich.table import Column, Table

from limbeck.experiments.check import BudgetFacts, Check, Columns, FileFacts, MethodFacts, PartyFacts
from limbeck.experiments.estimate import Estimate
from limbeck.report.privacy import FORM, guarantees_table
from limbeck.report.tables import framed, number, weight

MAX_CLASSES = 12  # in a table with a column for each
UNTRAINED = "this method sends sums: no model of a party is trained on its rows"


def check_report(found: Check) -> Group:
    """Return what a run would do as tables and lines."""
    parts: list[Any] = [file_table(found.files)] if found.files else []
    parts += [column_table(found.columns)] if found.columns else []
    parts += column_lines(found.columns, found.values)
    parts += ["", label_line(found.task, found.classes, found.positive), party_table(found.parties, found.classes)]
    parts += [f"{found.public} public rows, {found.test} test rows", ""]
    parts += method_lines(found.method, found.budgets)
    parts += ["", *cost_lines(found.estimate)]
    parts += trouble_lines(found.missing_extras, found.warnings)
    return Group(*parts)


def file_table(files: Iterable[FileFacts]) -> Table:
    """Table of files, their rows, and how they were read."""
    table = framed("files", "rows of", "file", Column("rows", justify="right"), "read as")
    for each in files:
        table.add_row(each.role, each.path, str(each.rows), each.reading)
    return table


def column_table(columns: Columns) -> Table:
    """Table of columns and their treatment."""
    table = framed("columns", "column", "becomes")
    for name, treatment in columns.learned:
        table.add_row(name, treatment)
    if columns.row_id:
        table.add_row(columns.row_id, "names the rows; nothing is learned from it")
    for name in columns.left_out:
        table.add_row(name, "left out")
    return table


def column_lines(columns: Columns | None, values: int) -> list[str]:
    """Lines about the size of a row."""
    return [f"a row has {values} numbers" + (" after that" if columns else "")]


def label_line(task: str, classes: Sequence[str], positive: str | None) -> str:
    """Line about the classes, or the numeric target."""
    if task == "regression":
        return f"label: the number {classes[0]}"
    many = ", ".join(classes[:MAX_CLASSES]) + (", ..." if len(classes) > MAX_CLASSES else "")
    kind = "several labels a row" if task == "multilabel" else f"{len(classes)} classes"
    return f"label: {kind}: {many}" + (f"; of interest: {positive}" if positive else "")


def party_table(parties: Iterable[PartyFacts], classes: Sequence[str]) -> Table:
    """Table of the parties, their models and their rows of each class."""
    few = len(classes) <= MAX_CLASSES
    headings = [Column(name, justify="right") for name in ("rows", *(classes if few else ["classes"]))]
    table = framed("parties", "party", "model", *headings)
    for each in parties:
        held = each.counts if few else (sum(count > 0 for count in each.counts),)
        table.add_row(each.name, each.model, str(each.rows), *map(str, held))
    return table


def method_lines(method: MethodFacts, budgets: Iterable[BudgetFacts]) -> list[Any]:
    """Lines about the method, a table of its guarantees if it has noise, and what is left of budgets."""
    level = f", level {method.level}" if method.level else ""
    if method.noise is None:
        lines: list[Any] = [f"method: {method.algorithm}{level}, without noise: epsilon is infinite"]
    else:
        protected = [each for each in method.guarantees if math.isfinite(each.epsilon)]
        lines = [f"method: {method.algorithm}{level}; noise: {method.noise}", guarantees_table(protected, method.delta)]
    lines += [] if method.trains_parties else [UNTRAINED]
    return lines + [budget_line(each) for each in budgets]


def budget_line(each: BudgetFacts) -> str:
    """Line about a budget."""
    left = max(0.0, each.epsilon - each.before)
    run = f"; this run takes {number(each.after - each.before, FORM)}" if each.after != each.before else ""
    return f"budget: {each.budget}; left {number(left, FORM)}{run}"


def cost_lines(costs: Estimate | str, assumed: str = "") -> list[str]:
    """Lines about bytes and time; `assumed` says for which parties, if they are not known."""
    if isinstance(costs, str):
        return [f"bytes and time: not estimated ({costs})"]
    up, down = weight(costs.up), weight(costs.down)
    seconds = f"{costs.seconds:.0f} seconds" if costs.seconds > 1 else "about a second"
    return [f"estimate{assumed}, by short runs on made-up rows: {up} up, {down} down, {seconds} in one process"]


def trouble_lines(extras: Sequence[str], warnings: Sequence[str]) -> list[str]:
    """Lines about missing extras and warnings."""
    return [*(f"missing: {each}" for each in extras), *(f"warning: {each}" for each in warnings)]
