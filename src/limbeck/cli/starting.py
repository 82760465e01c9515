"""Commands `limbeck init` and `limbeck check`: the first file of an experiment, and what a run of it would do."""

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.shared import AsJson, ReadingOption, Settings, console, experiment_in, stated
from limbeck.errors import LimbeckError, LimbeckWarning


def init(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="The file of each party; or one file to split.")],
    public: Annotated[Path | None, typer.Option(help="File of public rows, which all parties have.")] = None,
    test: Annotated[Path | None, typer.Option(help="File of rows that test the final model.")] = None,
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help='The column that names the rows; "" for none.')] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    positive: Annotated[str | None, typer.Option(help="The class of interest, one of two.")] = None,
    limits: Annotated[str | None, typer.Option("--range", help="Public range of a numeric target: 0,100.")] = None,
    epsilon: Annotated[float | None, typer.Option(min=0, help="Epsilon for each private row; 0: no noise.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of epsilon.")] = 1e-5,
    model: Annotated[
        list[str] | None, typer.Option(help="Model of all parties; or repeated, one for each party.")
    ] = None,
    parties: Annotated[int | None, typer.Option(min=1, help="Number of parties that one file is split among.")] = None,
    reading: ReadingOption = None,
    out: Annotated[Path, typer.Option(help="The new file.")] = Path("experiment.toml"),
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take what the files suggest.")] = False,
) -> None:
    """Look at your files, ask what matters, and write an experiment that runs."""
    from limbeck.experiments.looking import look_at
    from limbeck.experiments.starting import Answers, check_new, completed, left_out, limits_in, write_experiment

    check_new(out)
    seen = look_at(files, public, test, stated(reading or []))
    for table in seen.tables:
        how = table.reading.in_words()
        typer.echo(f"{table.where}: {len(table)} rows, {len(table.columns)} columns{f'; {how}' if how else ''}")
    given = Answers(
        label=label,
        row_id=row_id,
        ignore=tuple(ignore or ()),
        positive=positive,
        limits=limits_in(limits) if limits else None,
        epsilon=epsilon,
        delta=delta,
        models=tuple(model or ()),
        parties=parties,
    )
    asks = sys.stdin.isatty() and not yes
    ask = (lambda question, proposed: typer.prompt(question, proposed)) if asks else None
    with warnings.catch_warnings(record=True) as noted:  # each is shown once
        warnings.simplefilter("always", LimbeckWarning)
        answers = completed(seen, given, ask)
        write_experiment(seen, answers, out)
        lines = _chosen(seen, answers, left_out(seen, answers))
    for note in dict.fromkeys(str(each.message) for each in noted if issubclass(each.category, LimbeckWarning)):
        typer.echo(f"limbeck: warning: {note}", err=True)
    for line in lines:
        typer.echo(line)
    typer.echo(f"written: {out}\nNext: limbeck check {out}, then: limbeck run {out}")


def check(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML).")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do, before anything is trained or spent."""
    from limbeck.experiments.check import check_experiment
    from limbeck.report.check import check_report

    sys.path.insert(0, str(file.parent.resolve()))  # for the user's own models
    experiment, table = experiment_in(file, settings or [])
    found = check_experiment(experiment, table, file)
    if as_json:
        typer.echo(json.dumps(found.to_json(), allow_nan=False))
    else:
        console().print(check_report(found))
    if found.missing_extras:
        raise LimbeckError(f"{file}: {found.missing_extras[0]}")


def _chosen(files: Any, answers: Any, ignored: dict[str, str]) -> list[str]:
    """Lines about what the file will say."""
    kind = files.kind(answers.label)
    label = "a number" if kind == "regression" else f"classes {', '.join(files.classes(answers.label))}"
    protection = f"epsilon {answers.epsilon:g} for each private row" if answers.epsilon else "no noise"
    return [
        f"label: {answers.label} ({label})",
        *([f"positive class: {answers.positive} (another: --positive)"] if answers.positive is not None else []),
        *([f"id: {answers.row_id}"] if answers.row_id else []),
        *([f"left out: {', '.join(f'{name} ({why})' for name, why in ignored.items())}"] if ignored else []),
        f"privacy: {protection}",
    ]
