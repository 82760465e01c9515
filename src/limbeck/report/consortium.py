"""A consortium as tables for a terminal."""

from rich.table import Table

from limbeck.consortium.overview import Overview
from limbeck.report.tables import framed

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
        for number, turn in enumerate(run.turns):
            silent = [name for name in turn.asked if name not in turn.answered]
            silence = ", ".join(silent) if turn.closed else f"waiting for {', '.join(silent) or 'nobody'}"
            table.add_row(str(number), turn.request, ", ".join(turn.answered), silence, ", ".join(turn.released))
        last = run.events[-MAX_EVENTS:]
        lines = [f"{e.at}  turn {e.turn}  {run.parties.get(e.party, 'server')}: {e.what}" for e in last]
        tables.append((table, lines))
    return tables
