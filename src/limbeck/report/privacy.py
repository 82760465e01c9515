"""Epsilons and ledgers as tables for a terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Column, Table

from limbeck.privacy.budget import in_force
from limbeck.privacy.chain import Contents
from limbeck.privacy.guarantees import PrivacyGuarantee, delta_of_subsets
from limbeck.privacy.over_runs import numbered_parties, over_runs
from limbeck.protocol.release import Release
from limbeck.report.tables import framed, number

FORM = ".4f"  # of an epsilon


def epsilon_table(title: str, epsilons: Mapping[str, float], chosen: str, private: Sequence[str]) -> Table:
    """Table of epsilon by accountant. Values that depend on private votes are marked.

    Parameters
    ----------
    title : str
        Title of the table.
    epsilons : mapping of str to float
        Epsilon by accountant.
    chosen : str
        Accountant that gets an arrow.
    private : sequence of str
        Accountants whose epsilon depends on the votes.

    Returns
    -------
    rich.table.Table
        The table, the smallest epsilon first.
    """
    table = framed(title, "accountant", Column("epsilon", justify="right"), "")
    for name, epsilon in sorted(epsilons.items(), key=lambda item: item[1]):
        marks = ["←"] * (name == chosen) + ["depends on the votes: as private as they are"] * (name in private)
        table.add_row(name, number(epsilon, FORM), " ".join(marks))
    return table


def ledger_table(rows: Sequence[tuple[str, str, Release]]) -> Table:
    """Table of releases with time, run, site, mechanism and observer."""
    table = framed(f"{len(rows)} releases")
    for column in ("when", "run", "site", "what", "mechanism", "observer", "queries", "noise"):
        table.add_column(column, justify="right" if column == "queries" else "left", overflow="fold")
    for at, run, row in rows:
        scale = next((f" {row.parameters[k]:.4g}" for k in ("gamma", "sigma") if k in row.parameters), "")
        noise = "" if row.mechanism in ("unprotected", "post-processing") else row.noise
        named = run[:8] if set(run) <= set("0123456789abcdef") else run  # only the start of a random identifier
        table.add_row(at, named, row.site, row.what, row.mechanism + scale, row.observer, str(row.queries), noise)
    return table


def ledger_lines(contents: Contents, anchored: bool, rows_per_person: int = 1) -> list[str]:
    """Lines to print below a ledger: its head, the budgets in force, and what could not be verified or attributed."""
    entries, digest = contents.head
    lines = [f"head: {entries} entries, the last {digest}" if entries else "head: no entries"]
    if not anchored:
        lines.append("the head is not kept beside the ledger: removed last entries could not be noticed")
    releases = over_runs(contents.releases)
    lines += [f"budget: {each}; spent {number(each.spent(releases), FORM)}" for each in in_force(contents.budgets)]
    if subsets := delta_of_subsets(releases, rows_per_person):
        lines.append(f"subsets of private rows: their own delta is {subsets:.4g}, below which no epsilon holds")
    if numbered_parties(contents.releases):
        lines.append("parties without a name count as everybody in every run: name them for smaller guarantees")
    return lines


def guarantees_table(found: Sequence[PrivacyGuarantee], delta: float) -> Table:
    """Table of epsilon by observer, unit of privacy and neighbour relation."""
    table = framed(f"epsilon at delta {delta:g}")
    people = any(guarantee.rows > 1 for guarantee in found)
    for column in ("observer", "unit", *["rows"] * people, "neighbours", "epsilon", "accountant"):
        table.add_column(column, justify="right" if column in ("rows", "epsilon") else "left")
    for each in found:
        accountant = each.accountant or "no guarantee available"
        rows = [str(each.rows) if each.unit == "example" else "all"] * people
        table.add_row(each.observer, each.unit, *rows, each.adjacency, number(each.epsilon, FORM), accountant)
    return table
