"""`limbeck privacy`: what noise is worth, and what has been spent."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from limbeck.cli.shared import AsJson, console

app = typer.Typer(name="privacy", help="What noise is worth, and what has been spent.", no_args_is_help=True)


@app.command()
def epsilon(
    mechanism: Annotated[
        str, typer.Option(help="laplace, gumbel, gaussian, confident-gaussian; laplace-logits, clipped-gaussian.")
    ],
    gamma: Annotated[float | None, typer.Option(help="Inverse noise scale of laplace and gumbel.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Noise of gaussian and confident-gaussian.")] = None,
    queries: Annotated[int | None, typer.Option(help="How many; default: the rows of --votes.")] = None,
    partitions: Annotated[int, typer.Option(help="s: a party's weight, or how often an example is asked about.")] = 1,
    unit: Annotated[Literal["example", "party"], typer.Option(help="Who is protected.")] = "party",
    adjacency: Annotated[Literal["replace", "add-remove"], typer.Option(help="What neighbours are.")] = "replace",
    classes: Annotated[int | None, typer.Option(help="Of two classes more is known.")] = None,
    voters: Annotated[int | None, typer.Option(help="How many vote.")] = None,
    votes: Annotated[Path | None, typer.Option(help="An NPY file of counts, a row a query.")] = None,
    accountant: Annotated[str, typer.Option(help="Its name, or best.")] = "best",
    orders: Annotated[int, typer.Option(help="L of moments: orders 1 to L.")] = 8,
    delta: Annotated[float, typer.Option(help="The chance that epsilon leaves out.")] = 1e-5,
    noise: Annotated[
        Literal["simulated", "secure"], typer.Option(help="Continuous, or discrete from the operating system.")
    ] = "simulated",
    check: Annotated[float | None, typer.Option(help="confident-gaussian: noise of the check.")] = None,
    threshold: Annotated[float | None, typer.Option(help="confident-gaussian: votes needed.")] = None,
    bound: Annotated[float | None, typer.Option(help="Scores: what they are clipped to.")] = None,
    share: Annotated[float, typer.Option(help="Scores: a neighbour's weight in their mean.")] = 1.0,
    rows_per_person: Annotated[int, typer.Option(help="Unit example: how many rows one person may have.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Epsilon of noisy maxima or noisy scores, by every accountant that has a theorem for them."""
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
    from limbeck.report.privacy import epsilon_table

    people = f" for a person with {rows_per_person} rows" if rows_per_person > 1 else ""
    title = f"{answer.epsilon:.4f} at delta {delta:g}{people}, by {answer.accountant}"
    dependent = [name for name in WITH_VOTES if votes is not None]
    console().print(epsilon_table(title, answer.all, answer.accountant, dependent))


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger (SQLite) that runs wrote.")],
    delta: Annotated[float, typer.Option(help="Delta, at which epsilon is computed.")] = 1e-5,
    rows_per_person: Annotated[int, typer.Option(help="How many rows one person may have in a party.")] = 1,
) -> None:
    """What was released from which site, what all of it cost, and whether the ledger is intact."""
    from limbeck.privacy.accountants import check_delta
    from limbeck.privacy.guarantees import guarantees
    from limbeck.privacy.ledger import over_runs, read_contents
    from limbeck.report.privacy import figures_table, ledger_lines, ledger_table

    check_delta(delta)
    contents, anchored = read_contents(file)
    screen = console()
    screen.print(ledger_table(contents.rows))
    screen.print(figures_table(guarantees(over_runs(contents.releases), delta, rows_per_person), delta))
    for line in ledger_lines(contents, anchored, rows_per_person):
        screen.print(line, soft_wrap=True)
