"""Command `limbeck data`: data sets, and their split among parties."""

from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.shared import Settings, console
from limbeck.errors import LimbeckError

Ignore = Annotated[list[str] | None, typer.Option(help="A column to leave out, such as an ID; may be repeated.")]

app = typer.Typer(name="data", help="Data sets, and their split among parties.", no_args_is_help=True)


@app.command("list")
def list_sets() -> None:
    """List the available data sets."""
    from limbeck.data.sets import names
    from limbeck.report.datasets import list_table

    console().print(list_table(names()))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A data set, as `limbeck data list` names it.")],
) -> None:
    """Show the rows, classes and groups of a data set."""
    from limbeck.data.sets import load
    from limbeck.report.datasets import show

    console().print(show(load(name)))


@app.command()
def split(
    source: Annotated[str, typer.Argument(help="An experiment (TOML), or a data set's name.")],
    settings: Settings = None,
    picture: Annotated[Path | None, typer.Option(help="Also save a heat map as a PNG file.")] = None,
) -> None:
    """Show how many rows of each class every party gets."""
    from limbeck.experiments.splitting import split_rows
    from limbeck.report.pictures import class_counts, save_split_picture, split_table

    partitioned = split_rows(*_source(source, settings or []))
    counts = class_counts(partitioned.private, len(partitioned.classes), partitioned.task)
    if picture:
        save_split_picture(counts, partitioned.classes, picture)
    screen = console()
    screen.print(split_table(counts, partitioned.classes, screen.width, [len(rows) for rows in partitioned.private]))
    sizes = [
        f"{len(rows) if rows else 0} {kind}"
        for kind, rows in (("public", partitioned.public), ("test", partitioned.test))
    ]
    screen.print(f"\n{sum(map(len, partitioned.private))} private, {', '.join(sizes)} rows")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="mnist, adult, cod-rna, cifar10, cifar100, svhn or california-housing.")],
    mirror: Annotated[str | None, typer.Option(help="Another base URL that has the same files.")] = None,
) -> None:
    """Download a data set into the folder that LIMBECK_DATA names."""
    from limbeck.data.downloads import get

    typer.echo(f"written: {get(name, mirror)}")


@app.command()
def fit(
    public: Annotated[str, typer.Argument(help="The public rows: a data set's name, or a file.")],
    private: Annotated[str, typer.Argument(help="The private rows: a data set's name, or a file.")],
    label: Annotated[str | None, typer.Option(help="The column of tables that holds the classes.")] = None,
    ignore: Ignore = None,
    picture: Annotated[Path | None, typer.Option(help="Also save the distances as a PNG file.")] = None,
) -> None:
    """Measure how well public rows suit private rows."""
    from limbeck.data.suitability import suitability, two_sides
    from limbeck.report.suitability import save_suitability_picture, suitability_report

    fit = suitability(*two_sides(public, private, label, ignore or []))
    if picture:
        save_suitability_picture(fit, picture)
    console(soft_wrap=True).print(suitability_report(fit))


@app.command()
def schema(
    public: Annotated[Path, typer.Argument(help="The public rows (CSV or Parquet).")],
    label: Annotated[str, typer.Option(help="The column that holds the classes or numbers; or several: a,b,c.")],
    classes: Annotated[str, typer.Option(help="All classes, in order, with commas between them.")] = "",
    limits: Annotated[str, typer.Option("--range", help="Lowest and highest number of a numeric target: 0,50.")] = "",
    text: Annotated[str | None, typer.Option(help="The column of texts, if there is one.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="The column that names the rows.")] = None,
    ignore: Ignore = None,
) -> None:
    """Print the schema of public rows, for the key data.schema = "schema.json" of an experiment."""
    from limbeck.data.files import read_table
    from limbeck.data.schema import schema_of
    from limbeck.data.texts import column_of
    from limbeck.data.tokens import Tokens
    from limbeck.experiments.config import check_table
    from limbeck.experiments.data_table import Data

    labels, numbers = label.split(","), [_number(number) for number in limits.split(",")] if limits else None
    given = {"label": labels if len(labels) > 1 else label, **({"range": numbers} if numbers else {})}
    data, table = check_table(Data, given, "--label and --range"), read_table(public)
    left = [*(ignore or []), *filter(None, [row_id])]
    column = column_of(table.without(*left), labels, text, Tokens()) if text else None
    kind: Any = "regression" if data.limits else "multilabel" if len(labels) > 1 else "multiclass"
    if kind == "multiclass" and not classes:
        raise LimbeckError("--classes is missing: list all classes, in order (or give --range for a numeric target)")
    named = classes.split(",") if classes else labels
    low_high = (float(data.limits[0]), float(data.limits[1])) if data.limits else None
    names = tuple(labels) if len(labels) > 1 else label
    found = schema_of(table, names, named, column, kind, low_high, row_id, ignore or [])
    typer.echo(found.to_json())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise LimbeckError(f"--range: {text!r} is not a number; write --range 0,50") from error


def _source(source: str, settings: list[str]) -> tuple[Any, Path]:
    """Source of the rows of a file, or of a data set with ten equal parties; and the folder of its paths."""
    from limbeck.experiments.config import Source, check_table, read_toml
    from limbeck.experiments.overrides import override

    named = not source.endswith(".toml") and not Path(source).exists()
    table, _ = override({"data": {"name": source}} if named else read_toml(Path(source)), settings)
    part = {key: value for key, value in table.items() if key in Source.model_fields}
    return check_table(Source, part, source), Path() if named else Path(source).parent
