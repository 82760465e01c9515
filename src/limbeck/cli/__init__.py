"""The program `limbeck`: thin commands over the library. A command imports libraries only when it needs them."""

import atexit
import gc
import io
import os
import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from limbeck._version import __version__
from limbeck.cli import comparisons, consortium, data, evaluation, fitted, privacy, runs, starting
from limbeck.cli.shared import INTERRUPTED, stop
from limbeck.errors import LimbeckError, LimbeckWarning, missing_extra

ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
FLOWER = ("flwr", "cryptography", "httpx", "uvicorn")

app = typer.Typer(
    name="limbeck",
    help="Federated learning by knowledge transfer: share predictions, small models or sums, not rows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    runs.demo,
    starting.init,
    starting.check,
    runs.run,
    fitted.predict,
    fitted.evaluate,
    comparisons.compare,
    comparisons.sweep,
):
    app.command()(verb)
consortium.server.command()(evaluation.evaluate)
for group in (comparisons.results, privacy.app, data.app, consortium.server, consortium.party):
    app.add_typer(group)


def main() -> None:
    """Run the program; an error that the user can correct is printed in one line."""
    atexit.register(gc.freeze)  # at the end nothing is collected: a quarter of a second
    warnings.showwarning = _warn  # type: ignore[assignment]
    sys.path.insert(0, os.getcwd())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every encoding has all characters of a table
    for ending in ENDINGS:
        signal.signal(ending, signal.default_int_handler)  # ends as with Ctrl-C: no incomplete files
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            stop("limbeck: interrupted; nothing was written", code)
        sys.exit(code)
    except LimbeckError as error:
        stop(f"limbeck: {error}", 1)
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] not in FLOWER:
            raise
        stop(f"limbeck: {missing_extra('this command', 'flower')}", 1)
    except typer.Abort:  # at a question
        stop("limbeck: interrupted; nothing was written", INTERRUPTED)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's errors about the command line
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.exit(2)  # the help was shown
        stop(f"limbeck: {_suggested_once(error.format_message())}", 2)


def _suggested_once(message: str) -> str:
    """Drop the suggestion of click if typer has added the same one."""
    start, question, end = message.rpartition("Did you mean ")
    return start.rstrip() if question and question + end in start else message


def _warn(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Print a warning of Limbeck in one line; drop warnings of libraries."""
    if issubclass(category, LimbeckWarning):
        sys.stderr.write(f"limbeck: warning: {message}\n")


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"limbeck {__version__}")
        raise typer.Exit
