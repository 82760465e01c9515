"""What a run between organisations would do, as tables for a terminal."""

from typing import Any

from rich.console import Group

from limbeck.consortium.preview import PartyCheck, ServerCheck
from limbeck.experiments.check import NOISE, PartyFacts
from limbeck.report.check import (
    budget_line,
    column_lines,
    column_table,
    cost_lines,
    label_line,
    method_lines,
    party_table,
    trouble_lines,
)


def server_report(found: ServerCheck) -> Group:
    """Return what a run of the coordinator would do as tables and lines."""
    parts: list[Any] = [column_table(found.columns)] if found.columns else []
    parts += column_lines(found.columns, found.values)
    parts += [label_line(found.task, found.classes, None), f"{found.public} public rows, {found.test} test rows", ""]
    parts += [f"admitted: {', '.join(found.admitted) or 'nobody yet'}"]
    parts += [f"invited, not admitted: {', '.join(found.waiting)}"] if found.waiting else []
    enough = len(found.admitted) >= found.quorum
    parts += [f"parties that must reply: {found.quorum}{'' if enough else '; admit more before the run'}", ""]
    parts += [*method_lines(found.method, found.budgets), "", *cost_lines(found.estimate, _assumed(found))]
    return Group(*parts, *trouble_lines(found.missing_extras, ()))


def _assumed(found: ServerCheck) -> str:
    """What the estimate takes the parties to be."""
    parties = "one party" if found.parties == 1 else f"{found.parties} parties"
    return f" for {parties} with {found.public} rows each (as many as public rows) and the server's model"


def party_report(found: PartyCheck) -> Group:
    """Return what a party has and may be asked as tables and lines."""
    own = [PartyFacts(found.party, found.model, found.rows, found.counts)]
    if found.test is not None:
        own += [PartyFacts(f"{found.party}: own test rows", "", found.test, found.test_counts)]
    parts: list[Any] = [column_table(found.columns)] if found.columns else []
    parts += column_lines(found.columns, found.values)
    parts += [label_line(found.task, found.classes, None), f"{found.public} public rows", ""]
    parts += [party_table(own, found.classes), f"connects to {found.address}; noise: {NOISE[found.noise]}", ""]
    for each in found.agreed:
        levels = f", level {' or '.join(each.levels)}" if each.levels else ""
        cap = f"one run may spend {each.cap}" if each.cap else "no limit for one run"
        parts.append(f"agrees to {each.algorithm}{levels}: {cap}")
        if each.spends_all:
            parts.append("  such a run spends the whole budget: nothing is left for another, or for an evaluation")
    parts += [budget_line(each) for each in found.budgets] or ["no budget: answers may leave without protection"]
    return Group(*parts, *trouble_lines(found.missing_extras, ()))
