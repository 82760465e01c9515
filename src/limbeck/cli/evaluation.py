"""Command `limbeck server evaluate`: a model is measured on the parties' own test rows."""

import json
import sys
from typing import Annotated

import typer

from limbeck.cli.consortium import Folder, print_line, resumed_by, write_statement
from limbeck.cli.shared import AsJson, console, private_stdout


def evaluate(
    folder: Folder,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run in DIR/runs that has ended.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the counts; needed if the run protects its parties.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of epsilon.")] = 1e-5,
    as_json: AsJson = False,
) -> None:
    """Measure the model of a run on the parties' own test rows, from counts. Writes DIR/runs/RUN/evaluation.json."""
    from limbeck.consortium.evaluation import evaluate as measure
    from limbeck.consortium.server import ServerFolder
    from limbeck.experiments.record import finite
    from limbeck.report.counted import evaluation_tables

    answer = private_stdout() if as_json else sys.stdout
    options = f" --epsilon {epsilon:g} --delta {delta:g}" if epsilon is not None else ""
    with resumed_by(f"limbeck server evaluate {folder} {run}{options}"):
        result = measure(ServerFolder(folder), run, epsilon, delta, print_line)
    write_statement(result.completed)
    if as_json:
        typer.echo(json.dumps(finite(result.to_table()), allow_nan=False), file=answer)
        return
    screen = console()
    for table in evaluation_tables(result):
        screen.print(table)
    screen.print(f"\nwritten: {result.file}")
