"""What all commands share: options, the console, and how the program stops."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from limbeck.errors import LimbeckError

WIDE = 200  # characters, if the output is not a terminal: nothing is cut off
INTERRUPTED = 130  # what typer returns after Ctrl-C

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file; may be repeated."),
]
ReadingOption = Annotated[
    list[str] | None,
    typer.Option("--reading", metavar="KEY=VALUE", help="How files are read, such as dates=%d/%m/%Y; may be repeated."),
]
Processes = Annotated[int | None, typer.Option(min=1, help="Training processes; default: one per core.")]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Train on a cluster: dask://HOST:PORT, ray://HOST:PORT, ray://auto."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def console(stderr: bool = False, soft_wrap: bool = False) -> Any:
    """Console that prints names that users chose as text, never as markup."""
    from rich.console import Console

    console = Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def stop(line: str, code: int) -> NoReturn:
    """Print one line to stderr and exit."""
    sys.stderr.write(line + "\n")
    sys.exit(code)


def private_stdout() -> TextIO:
    """Private copy of stdout; what models print, here or in other processes, goes to stderr from now on."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


def start(processes: int | None, table: Mapping[str, Any] | None = None) -> None:
    """Start the processes that train, which import libraries meanwhile, unless threads of this one will do."""
    from limbeck.experiments.headline import has_networks, has_only_forests
    from limbeck.models.pool import warm_up
    from limbeck.models.threads import MAX_THREADS, width

    if table is not None and has_only_forests(table) and width(processes) <= MAX_THREADS:
        return
    networks = table is not None and has_networks(table)
    warm_up(processes, "limbeck.models.torch" if networks else "limbeck.models.sklearn")


def experiment_in(file: Path, settings: list[str], content: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    """Read an experiment file with overrides; returns the checked experiment and its table.

    `content` is what the file says, if it has been read: a pipe can be read once only.
    """
    from limbeck.experiments.choosing import with_algorithm
    from limbeck.experiments.config import Experiment, check_table, read_toml
    from limbeck.experiments.overrides import override

    table, notes = override(read_toml(file) if content is None else content, settings)
    table, choice = with_algorithm(table)
    for note in [*notes, *choice]:
        typer.echo(note, err=True)
    return check_table(Experiment, table, str(file)), table


def stated(settings: list[str]) -> dict[str, Any]:
    """What is stated about reading by the options `--reading`."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise LimbeckError(f"--reading {setting}: write --reading KEY=VALUE, such as --reading dates=%d/%m/%Y")
        found[key] = value.split(",") if key == "missing" else value
    return found
