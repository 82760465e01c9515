"""A consortium as tables for a terminal."""

from rich.table import Table

from limbeck.consortium.overview import Overview
from limbeck.report.tables import framed

MOST_EVENTS = 8


def member_table(seen: Overview) -> Table:
    """Every party: whether it is admitted, and there."""
    table = framed("parties")
    for column in ("number", "party", "admitted", "there"):
        table.add_column(column)
    for each in seen.members:
        there = {True: "yes", False: "no", None: "the SuperLink does not answer"}[each.there]
        table.add_row(str(each.member.index), each.member.name, "yes" if each.member.key else "no", there)
    return table


def run_tables(seen: Overview) -> list[Table]:
    """Every run: its requests, who answered them, what was released, and what went wrong."""
    tables = []
    for run in seen.runs:
        table = framed(f"{run.name}: {'ended' if run.ended else 'not ended'}")
        for column in ("turn", "request", "answered", "silent", "released to whom it concerns"):
            table.add_column(column)
        for number, turn in enumerate(run.turns):
            silent = [name for name in turn.asked if name not in turn.answered]
            silence = ", ".join(silent) if turn.closed else f"waiting for {', '.join(silent) or 'nobody'}"
            table.add_row(str(number), turn.request, ", ".join(turn.answered), silence, ", ".join(turn.released))
        for event in run.events[-MOST_EVENTS:]:
            who = run.parties.get(event.party, "server")
            table.add_row(str(event.turn), f"{event.at} {who}: {event.what}", "", "", "")
        tables.append(table)
    return tables
