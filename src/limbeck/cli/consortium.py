"""Commands `limbeck server` and `limbeck party`, for runs between organisations."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.shared import INTERRUPTED, AsJson, console, private_stdout, stop
from limbeck.errors import LimbeckError

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `init` made.")]
NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")]

server = typer.Typer(name="server", help="For the coordinator of a consortium.", no_args_is_help=True)
party = typer.Typer(name="party", help="For an organisation that takes part.", no_args_is_help=True)


@server.command("init")
def server_init(
    folder: NewFolder,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name or address that parties connect to; may be repeated."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The only port that must be reachable.")] = 9443,
) -> None:
    """Make a server's folder: a certificate authority, a certificate for the given names, and an example experiment."""
    from limbeck.consortium.server import init

    init(folder, name or ["localhost"], host, port)
    typer.echo(
        f"{folder}: edit experiment.toml, then run\n"
        f"  limbeck server start {folder}          (in a separate terminal)\n"
        f"  limbeck server invite {folder} PARTY   (for each party)"
    )


@server.command()
def invite(
    folder: Folder,
    party: Annotated[str, typer.Argument(metavar="PARTY", help="The party's name.")],
    experiment: Annotated[
        Path | None, typer.Option(help="Experiment to invite it to; default: experiment.toml in the folder.")
    ] = None,
) -> None:
    """Write a party's join file: address, certificate, hash of the public rows, and parameters of the algorithm."""
    from limbeck.consortium.experiment import features_file
    from limbeck.consortium.joining import read_join
    from limbeck.consortium.server import ServerFolder

    file = ServerFolder(folder).invite(party, experiment)
    features = features_file(experiment or folder / "experiment.toml") if read_join(file).features else None
    typer.echo(
        f"{file}\nSend it to {party}, with the public rows{f' and {features}' if features else ''}; "
        f"then run: limbeck server admit {folder} {party}.pub"
    )


@server.command()
def admit(
    folder: Folder,
    key: Annotated[Path, typer.Argument(metavar="PARTY.pub", help="The public key that the party made.")],
) -> None:
    """Register the key of an invited party. A new key replaces its old one."""
    from limbeck.consortium.server import ServerFolder

    name = ServerFolder(folder).admit(key)
    typer.echo(f"{name} is admitted")


@server.command()
def remove(
    folder: Folder, party: Annotated[str, typer.Argument(metavar="PARTY", help="The name of an admitted party.")]
) -> None:
    """Remove a party: it can no longer connect."""
    from limbeck.consortium.server import ServerFolder

    ServerFolder(folder).remove(party)
    typer.echo(f"{party} is removed")


@server.command("check")
def server_check(
    folder: Folder,
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="An experiment; default: experiment.toml there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do, before anything is sent."""
    from limbeck.consortium.preview import check_server
    from limbeck.consortium.server import ServerFolder
    from limbeck.report.preview import server_report

    _show(check_server(ServerFolder(folder), experiment), server_report, as_json, folder)


@server.command("start")
def server_start(folder: Folder) -> None:
    """Run the server until it is interrupted. It restarts Flower's SuperLink after a crash."""
    from limbeck.consortium.supervisor import supervise

    with _until_interrupted():
        supervise(folder, print_line)


@server.command()
def run(
    folder: Folder,
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="An experiment (TOML).")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the latest run of the experiment, if it has not ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment with all admitted parties, and write DIR/runs/NAME-N."""
    from limbeck.consortium.coordinator import begin
    from limbeck.consortium.coordinator import resume as go_on
    from limbeck.consortium.server import ServerFolder

    lead = partial(go_on if resume else begin, ServerFolder(folder), experiment, print_line)
    _lead(lead, as_json, f"limbeck server run {folder} {experiment} --resume")


@server.command()
def add_late(
    folder: Folder,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run in DIR/runs.")],
    party: Annotated[str, typer.Argument(metavar="PARTY", help="The party that was silent in it.")],
    as_json: AsJson = False,
) -> None:
    """Count the replies again with a party that was late (one-shot methods). No other party is asked for results."""
    from limbeck.consortium.amendments import add_late as join_in
    from limbeck.consortium.server import ServerFolder

    lead = partial(join_in, ServerFolder(folder), run, party, print_line)
    _lead(lead, as_json, f"limbeck server add-late {folder} {run} {party}")


@server.command("remove-party")
def remove_from_run(
    folder: Folder,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run in DIR/runs.")],
    party: Annotated[str, typer.Argument(metavar="PARTY", help="The party whose reply no longer counts.")],
    as_json: AsJson = False,
) -> None:
    """Count the replies again without a party (one-shot methods). No party is asked for results."""
    from limbeck.consortium.amendments import remove_party
    from limbeck.consortium.server import ServerFolder

    lead = partial(remove_party, ServerFolder(folder), run, party, print_line)
    _lead(lead, as_json, f"limbeck server remove-party {folder} {run} {party}")


@server.command()
def status(folder: Folder) -> None:
    """Show which parties are connected, which have answered, and what was released."""
    from limbeck.consortium.overview import overview
    from limbeck.consortium.server import ServerFolder
    from limbeck.report.consortium import member_table, run_tables

    seen = overview(ServerFolder(folder))
    screen = console()
    screen.print(member_table(seen))
    for table, lines in run_tables(seen):
        screen.print(table)
        for line in lines:
            screen.print(line, soft_wrap=True)


@party.command("init")
def party_init(
    folder: NewFolder,
    join_file: Annotated[Path, typer.Argument(metavar="JOIN_FILE", help="The join file from the coordinator.")],
) -> None:
    """Make a party's folder: a private key, which never leaves, PARTY.pub for the coordinator, and party.toml."""
    from limbeck.consortium.party import init

    public = init(folder, join_file)
    typer.echo(
        f"Send {public} to the coordinator.\n"
        f"Edit {folder}/party.toml: where your rows are, and what you agree to. Then run: limbeck party start {folder}"
    )


@party.command("rekey")
def party_rekey(folder: Folder) -> None:
    """Replace the key by a new one. The coordinator must admit the new key."""
    from limbeck.consortium.party import PartyFolder, rekey

    public = rekey(PartyFolder(folder))
    typer.echo(f"Send {public} to the coordinator.")


@party.command("rejoin")
def party_rejoin(
    folder: Folder,
    join_file: Annotated[Path, typer.Argument(metavar="JOIN_FILE", help="A new join file for the same party.")],
) -> None:
    """Replace the join file, after the coordinator has changed the experiment. What you agree to stays as it is."""
    from limbeck.consortium.party import PartyFolder, rejoin

    rejoin(PartyFolder(folder), join_file)
    typer.echo(f"Check [[agree]] in {folder}/party.toml before you start again.")


@party.command("check")
def party_check(folder: Folder, as_json: AsJson = False) -> None:
    """Check rows, model and settings as `start` does, and show what this party may be asked. Nothing is sent."""
    from limbeck.consortium.party import PartyFolder
    from limbeck.consortium.preview import check_party
    from limbeck.report.preview import party_report

    _show(check_party(PartyFolder(folder)), party_report, as_json, folder)


@party.command("start")
def party_start(folder: Folder) -> None:
    """Answer requests that this party agreed to, until it is interrupted. Reconnects when the connection is lost."""
    from limbeck.consortium.client_loop import ClientLoop
    from limbeck.consortium.party import PartyFolder

    client = ClientLoop(PartyFolder(folder), print_line)
    client.check()
    with _until_interrupted():
        client.run()


@party.command("ledger")
def party_ledger(
    folder: Folder,
    delta: Annotated[float, typer.Option(help="Delta, at which epsilon is computed.")] = 1e-5,
    rows_per_person: Annotated[
        int | None, typer.Option(help="Largest number of rows of one person; default: as in the budget.")
    ] = None,
) -> None:
    """Show what has left this party in all runs, its epsilon, and whether the ledger is intact."""
    from limbeck.consortium.party import PartyFolder
    from limbeck.privacy.accountants import check_delta
    from limbeck.privacy.budget import in_force
    from limbeck.privacy.guarantees import guarantees
    from limbeck.privacy.ledger import read_contents
    from limbeck.report.privacy import guarantees_table, ledger_table

    check_delta(delta)
    path, own = PartyFolder(folder).path / "ledger.sqlite", PartyFolder(folder).settings.budget
    if not path.exists() or not (contents := read_contents(path)[0]).rows:
        typer.echo("Nothing has left.")
        return
    screen, releases = console(), [row for _, _, row in contents.rows]
    people = rows_per_person if rows_per_person is not None else own.rows_per_person if own else 1
    screen.print(ledger_table(contents.rows))
    screen.print(guarantees_table(guarantees(releases, delta, people), delta))
    for budget in in_force([*contents.budgets, *([own] if own else [])]):
        screen.print(f"budget: {budget}; spent {budget.spent(releases):.4g}", soft_wrap=True)
    number, digest = contents.head
    screen.print(f"head: {number} entries, the last {digest}", soft_wrap=True)


@party.command()
def requests(folder: Folder) -> None:
    """List requests that need approval, and the decisions."""
    from limbeck.consortium.party import PartyFolder

    found = PartyFolder(folder).answer_store.requests()
    for each in found:
        typer.echo(f"{each.number}  {each.decision or 'waits'}  {each.run}  turn {each.turn}  {each.what}")
    if not found:
        typer.echo("None.")


@party.command()
def approve(
    folder: Folder,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Number in `limbeck party requests`.")],
    deny: Annotated[bool, typer.Option("--deny", help="Deny it instead.")] = False,
) -> None:
    """Approve a request that waits, or deny it."""
    from limbeck.consortium.party import PartyFolder

    answer_store = PartyFolder(folder).answer_store
    waiting = {each.number for each in answer_store.requests() if each.decision is None}
    if number not in waiting:
        raise LimbeckError(f"request {number} does not wait; waiting: {', '.join(map(str, sorted(waiting))) or 'none'}")
    answer_store.decide(number, "denied" if deny else "approved")
    typer.echo("denied" if deny else "approved")


def _show(found: Any, report: Callable[[Any], Any], as_json: bool, folder: Path) -> None:
    """Print a check; a missing extra is an error."""
    if as_json:
        typer.echo(json.dumps(found.to_json(), allow_nan=False))
    else:
        console().print(report(found))
    if found.missing_extras:
        raise LimbeckError(f"{folder}: {found.missing_extras[0]}")


def _lead(lead: Callable[[], Any], as_json: bool, again: str) -> None:
    """Show the result of a run; `again` is the command that resumes it after an interruption."""
    from limbeck.experiments.record import finite
    from limbeck.experiments.usefulness import warn_if_no_better
    from limbeck.report.consortium import amendment_lines
    from limbeck.report.tables import run_table

    answer = private_stdout() if as_json else sys.stdout
    with resumed_by(again):
        result = lead()
    write_statement(result)
    record = result.record
    warn_if_no_better(record)
    if as_json:
        summary = record.summary(str(result.folder)) | ({"amends": finite(record.amends)} if record.amends else {})
        typer.echo(json.dumps(summary, allow_nan=False), file=answer)
        return
    screen = console()
    screen.print(run_table(record))
    for line in amendment_lines(record.amends) if record.amends else ():
        screen.print(line, soft_wrap=True)
    screen.print(f"\nwritten: {result.folder}")


@contextmanager
def resumed_by(again: str) -> Iterator[None]:
    """Context manager: an interruption names the command that continues."""
    try:
        yield
    except KeyboardInterrupt:
        stop(f"limbeck: interrupted; {again} continues", INTERRUPTED)


def write_statement(result: Any) -> None:
    """Write the privacy statement of a run (a `RunResult`) into its folder."""
    from limbeck.consortium.files import write_private
    from limbeck.report.statement import statement

    text = statement(result.record, result.costs_more, head=result.head)
    write_private(result.folder / "privacy.md", text.encode())


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Context manager: an interruption ends the program without an error."""
    try:
        yield
    except KeyboardInterrupt:
        print_line("stopped")


def print_line(line: str) -> None:
    """Print a line about an event, with the time."""
    typer.echo(f"{datetime.now():%H:%M:%S} {line}", err=True)
