"""Epsilons and ledgers as tables for a terminal."""

import math
from collections.abc import Mapping, Sequence

from rich.table import Table

from limbeck.privacy.accounting import Figure
from limbeck.protocol.release import Release
from limbeck.report.tables import framed


def epsilon_table(title: str, epsilons: Mapping[str, float], chosen: str, private: Sequence[str]) -> Table:
    """Each applicable accountant; what depends on private votes is marked."""
    table = framed(title)
    table.add_column("accountant")
    table.add_column("epsilon", justify="right")
    table.add_column("")
    for name, epsilon in sorted(epsilons.items(), key=lambda item: item[1]):
        marks = ["←"] * (name == chosen) + ["depends on the votes: as private as they are"] * (name in private)
        table.add_row(name, _number(epsilon), " ".join(marks))
    return table


def ledger_table(rows: Sequence[tuple[str, str, Release]]) -> Table:
    table = framed(f"{len(rows)} releases")
    for column in ("when", "run", "site", "what", "mechanism", "to", "queries", "noise"):
        table.add_column(column, justify="right" if column == "queries" else "left", overflow="fold")
    for at, run, row in rows:
        scale = next((f" {row.parameters[k]:.4g}" for k in ("gamma", "sigma") if k in row.parameters), "")
        noise = "" if row.mechanism in ("unprotected", "nothing-private") else row.noise
        table.add_row(at, _short(run), row.site, row.what, row.mechanism + scale, row.observer, str(row.queries), noise)
    return table


def figures_table(found: Sequence[Figure], delta: float) -> Table:
    table = framed(f"epsilon at delta {delta:g}")
    for column in ("towards", "unit", "neighbours", "epsilon", "accountant"):
        table.add_column(column, justify="right" if column == "epsilon" else "left")
    for figure in found:
        told = figure.accountant or "no theorem"
        table.add_row(figure.observer, figure.unit, figure.adjacency, _number(figure.epsilon), told)
    return table


def _short(run: str) -> str:
    """A run that nobody named is told by the beginning of its number."""
    return run[:8] if set(run) <= set("0123456789abcdef") else run


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4f}"
