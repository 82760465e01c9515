"""Command `limbeck privacy`: epsilon of noise, and of the releases in a ledger."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from limbeck.cli.shared import AsJson, console

app = typer.Typer(name="privacy", help="Epsilon of noise, and of the releases in a ledger.", no_args_is_help=True)


@app.command()
def epsilon(
    mechanism: Annotated[
        str, typer.Option(help="laplace, gumbel, gaussian, confident-gaussian; laplace-logits, clipped-gaussian.")
    ],
    gamma: Annotated[float | None, typer.Option(help="Inverse noise scale of laplace and gumbel.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of gaussian and confident-gaussian.")] = None,
    queries: Annotated[int | None, typer.Option(help="Number of queries; default: the rows of --votes.")] = None,
    partitions: Annotated[int, typer.Option(help="s: votes of a party for each query, or uses of each row.")] = 1,
    unit: Annotated[
        Literal["example", "party"], typer.Option(help="What is protected: one row, or a whole party.")
    ] = "party",
    adjacency: Annotated[
        Literal["replace", "add-remove"], typer.Option(help="How neighbouring data sets differ.")
    ] = "replace",
    classes: Annotated[int | None, typer.Option(help="Number of classes; bounds are tighter for two.")] = None,
    voters: Annotated[int | None, typer.Option(help="Number of voters.")] = None,
    votes: Annotated[Path | None, typer.Option(help="An NPY file of vote counts, one row for each query.")] = None,
    accountant: Annotated[str, typer.Option(help="Name of an accountant, or best.")] = "best",
    orders: Annotated[int, typer.Option(help="Largest order of the moments accountant.")] = 8,
    delta: Annotated[float, typer.Option(help="Delta, at which epsilon is computed.")] = 1e-5,
    noise: Annotated[
        Literal["simulated", "secure"],
        typer.Option(help="Continuous noise, or discrete noise from the operating system."),
    ] = "simulated",
    check: Annotated[float | None, typer.Option(help="confident-gaussian: noise of the threshold check.")] = None,
    threshold: Annotated[float | None, typer.Option(help="confident-gaussian: votes that a class needs.")] = None,
    bound: Annotated[float | None, typer.Option(help="Scores: bound that they are clipped to.")] = None,
    share: Annotated[float, typer.Option(help="Scores: weight of one contributor in their mean.")] = 1.0,
    rows_per_person: Annotated[int, typer.Option(help="Unit example: largest number of rows of one person.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Compute epsilon of noisy votes or noisy scores, by every accountant that covers them."""
    from dataclasses import asdict

    from limbeck.privacy.queries import WITH_VOTES, AccountingQuery, account

    query = AccountingQuery(
        mechanism=mechanism,
        gamma=gamma,
        sigma=sigma,
        check=check,
        threshold=threshold,
        bound=bound,
        share=share,
        queries=queries,
        partitions=partitions,
        unit=unit,
        adjacency=adjacency,
        classes=classes,
        voters=voters,
        votes=votes,
        orders=orders,
        delta=delta,
        noise=noise,
        rows_per_person=rows_per_person,
    )
    answer = account(query, accountant)
    if as_json:
        from limbeck.experiments.record import finite

        typer.echo(json.dumps(finite(asdict(answer)), allow_nan=False))
        return
    from limbeck.report.privacy import FORM, epsilon_table
    from limbeck.report.tables import number

    people = f" for a person with {rows_per_person} rows" if rows_per_person > 1 else ""
    title = f"{number(answer.epsilon, FORM)} at delta {delta:g}{people}, by {answer.accountant}"
    dependent = [name for name in WITH_VOTES if votes is not None]
    console().print(epsilon_table(title, answer.all, answer.accountant, dependent))


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger (SQLite) that runs wrote.")],
    delta: Annotated[float, typer.Option(help="Delta, at which epsilon is computed.")] = 1e-5,
    rows_per_person: Annotated[int, typer.Option(help="Largest number of rows of one person in a party.")] = 1,
) -> None:
    """Show what was released from which site, its total epsilon, and whether the ledger is intact."""
    from limbeck.privacy.accountants import check_delta
    from limbeck.privacy.guarantees import guarantees
    from limbeck.privacy.ledger import over_runs, read_contents
    from limbeck.report.privacy import guarantees_table, ledger_lines, ledger_table

    check_delta(delta)
    contents, anchored = read_contents(file)
    screen = console()
    screen.print(ledger_table(contents.rows))
    screen.print(guarantees_table(guarantees(over_runs(contents.releases), delta, rows_per_person), delta))
    for line in ledger_lines(contents, anchored, rows_per_person):
        screen.print(line, soft_wrap=True)
