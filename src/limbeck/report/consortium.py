"""A consortium as tables for a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from limbeck.consortium.overview import Overview
from limbeck.report.tables import framed, number

MAX_EVENTS = 8


def member_table(seen: Overview) -> Table:
    """Table of the parties: whether each is admitted, and whether it is connected."""
    table = framed("parties", "number", "party", "admitted", "there")
    for member in seen.members:
        there = "the SuperLink does not answer"
        if seen.there is not None:
            there = "yes" if member.key in seen.there else "no"
        table.add_row(str(member.index), member.name, "yes" if member.key else "no", there)
    return table


def run_tables(seen: Overview) -> list[tuple[Table, list[str]]]:
    """Tables of the runs with their requests, answers and releases, each with lines about what went wrong."""
    tables = []
    for run in seen.runs:
        title = f"{run.name}: {'ended' if run.ended else 'not ended'}"
        table = framed(title, "turn", "request", "answered", "silent", "released")
        for place, turn in enumerate(run.turns):
            silent = [name for name in turn.asked if name not in turn.answered]
            silence = ", ".join(silent) if turn.closed else f"waiting for {', '.join(silent) or 'nobody'}"
            table.add_row(str(place), turn.request, ", ".join(turn.answered), silence, ", ".join(turn.released))
        last = run.events[-MAX_EVENTS:]
        lines = [f"{e.at}  turn {e.turn}  {run.parties.get(e.party, 'server')}: {e.what}" for e in last]
        tables.append((table, lines))
    return tables


def amendment_lines(amends: Mapping[str, Any]) -> list[str]:
    """Lines about a run that repeats another: which, and epsilon of the parties over all runs together.

    Parameters
    ----------
    amends : mapping
        Field of that name in the run's record.

    Returns
    -------
    list of str
        The lines.

    Examples
    --------
    >>> epsilons = {"epsilon_of_others": {"public": 1.0}, "epsilon_of_party": {"public": 1.0}}
    >>> for line in amendment_lines({"run": "experiment-1", "removed": "lab"} | epsilons):
    ...     print(line)
    experiment-1 without lab
    epsilon of the other parties, all runs with these replies: 1 to public
    epsilon of lab: 1 to public; what was published with its reply stays published
    """
    run, removed = amends["run"], amends.get("removed")
    party, others = removed or amends["added"], _epsilons(amends["epsilon_of_others"])
    own = f"epsilon of {party}: {_epsilons(amends['epsilon_of_party'])}"
    return [
        f"{run} {'without' if removed else 'with'} {party}",
        f"epsilon of the other parties, all runs with these replies: {others}",
        f"{own}; what was published with its reply stays published" if removed else own,
    ]


def _epsilons(epsilons: Mapping[str, float]) -> str:
    return ", ".join(f"{number(epsilon)} to {observer}" for observer, epsilon in epsilons.items()) or "not known"
