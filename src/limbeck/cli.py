"""The program `limbeck`: thin verbs over the library. Libraries are imported where a verb needs them."""

import json
import os
import signal
import sys
import warnings
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from limbeck._version import __version__
from limbeck.errors import LimbeckError, LimbeckWarning

app = typer.Typer(
    name="limbeck",
    help="Federated learning by knowledge transfer: share predictions and small students, never rows or weights.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets, and who holds what.", no_args_is_help=True)
app.add_typer(data_app, name="data")
privacy_app = typer.Typer(help="What noise is worth, and what has been spent.", no_args_is_help=True)
app.add_typer(privacy_app, name="privacy")
results_app = typer.Typer(help="Finished cells of comparisons.", no_args_is_help=True)
app.add_typer(results_app, name="results")

WIDE = 200  # characters, where nobody looks: a file loses nothing
INTERRUPTED = 130  # what typer returns after Ctrl-C

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file; may be repeated."),
]
Processes = Annotated[int | None, typer.Option(min=1, help="Training processes; default: one per core.")]
Methods = Annotated[
    str, typer.Option("--with", metavar="METHODS", help="Methods beside the file's own: solo,pate,fedkt:partitions=1")
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds, from the file's own on.")]
ResultsFolder = Annotated[Path, typer.Option("--out", help="The results folder: finished cells, tables, pictures.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


class Unit(StrEnum):
    EXAMPLE = "example"
    PARTY = "party"


class Adjacency(StrEnum):
    REPLACE = "replace"
    ADD_REMOVE = "add-remove"


class Noise(StrEnum):
    SIMULATED = "simulated"
    SECURE = "secure"


def main() -> None:
    """Run the program; what a person can put right is told in one line."""
    warnings.showwarning = _warn  # type: ignore[assignment]
    sys.path.insert(0, os.getcwd())
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)  # ends as Ctrl-C does: nothing stays behind
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            _stop("limbeck: interrupted; nothing was written", code)
        sys.exit(code)
    except LimbeckError as error:
        _stop(f"limbeck: {error}", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own complaints about the command line
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.exit(2)  # the help was shown
        _stop(f"limbeck: {error.format_message()}", 2)


def _warn(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Our own warnings in one line each; those of libraries are for programmers."""
    if issubclass(category, LimbeckWarning):
        sys.stderr.write(f"limbeck: warning: {message}\n")


def _console(stderr: bool = False, soft_wrap: bool = False) -> Any:
    """A console that takes what users named for text, never for markup."""
    from rich.console import Console

    console = Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def _stop(line: str, code: int) -> None:
    sys.stderr.write(line + "\n")
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"limbeck {__version__}")
        raise typer.Exit


@app.command()
def demo(processes: Processes = None) -> None:
    """Ten organisations with different models learn to read digits together; takes seconds."""
    from limbeck.experiments.demo import demo_file, run_demo
    from limbeck.report.progress import Watcher
    from limbeck.report.tables import comparison_table, party_table

    out, err = _console(), _console(stderr=True)
    records, folder = run_demo(processes, Watcher(err))
    solo = next(record for record in records if record.algorithm == "solo")
    out.print(party_table(solo))
    out.print(comparison_table(records))
    out.print(f"\nThe federation's model: {folder}/model.onnx\nThe experiment: {demo_file()}")


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML).")],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default: a new one in runs/.")] = None,
    as_json: AsJson = False,
    processes: Processes = None,
) -> None:
    """Run an experiment and write its folder: record.json and the model as ONNX."""
    from limbeck.models.training import warm_up

    sys.path.insert(0, str(file.parent.resolve()))  # where a user's own models lie: name = "python:module:factory"
    answer = _private_stdout() if as_json else sys.stdout
    warm_up(processes)
    from limbeck.experiments.folder import RunFolder, free_folder, ledger_beside
    from limbeck.experiments.run import ledger_of, run_experiment
    from limbeck.protocol.parties import delta_of
    from limbeck.report.progress import Watcher
    from limbeck.report.statement import statement
    from limbeck.report.tables import party_table, run_table

    err = _console(stderr=True)
    experiment, table = _experiment(file, settings or [])
    where = out or free_folder(f"{file.stem}-{experiment.algorithm.name}")
    kept = ledger_of(experiment, file.parent)
    beside = ledger_beside(where, kept) if kept or delta_of(experiment.algorithm) else nullcontext()
    with RunFolder(where) as folder, beside as ledger:
        result = run_experiment(experiment, table, processes, Watcher(err), file.parent, ledger)
        told = statement(result.record, _all_together(ledger, result.record) if ledger else [])
        own = {} if kept or ledger is None else {"ledger.sqlite": ledger.read_bytes()}
        where = folder.write({**result.files(), **own, "privacy.md": told.encode()})
        if ledger and not kept:
            ledger.unlink()
    if as_json:
        answer.write(json.dumps(result.record.summary(str(where)), allow_nan=False) + "\n")
        answer.flush()
        return
    console = _console()
    console.print(party_table(result.record))
    console.print(run_table(result.record))
    console.print(f"\nwritten: {where}")


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML): its rows, its models and its own method.")],
    beside: Methods = "",
    seeds: Seeds = 5,
    settings: Settings = None,
    out: ResultsFolder = Path("results"),
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    as_csv: AsCsv = False,
    processes: Processes = None,
) -> None:
    """Compare methods on the same rows, over seeds; what has run before is not run again."""
    _compare("compare", file, beside, [], seeds, settings, out, _form(as_json, as_markdown, as_csv), processes)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML).")],
    over: Annotated[
        list[str], typer.Option("--over", metavar="KEY=V,V,…", help="A key and its values; may be repeated.")
    ],
    beside: Methods = "",
    seeds: Seeds = 5,
    settings: Settings = None,
    out: ResultsFolder = Path("results"),
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    as_csv: AsCsv = False,
    processes: Processes = None,
) -> None:
    """Run an experiment for every combination of values, over seeds; what has run before is not run again."""
    _compare("sweep", file, beside, over, seeds, settings, out, _form(as_json, as_markdown, as_csv), processes)


@results_app.command("merge")
def results_merge(
    others: Annotated[list[Path], typer.Argument(help="Results folders from elsewhere.")],
    into: ResultsFolder = Path("results"),
) -> None:
    """Take in cells that were made on other machines."""
    from limbeck.experiments.results import Results

    for other in others:
        merged = Results(into).merge(Results(other))
        differ = f", {merged.different} with another outcome (ours was kept)" if merged.different else ""
        typer.echo(f"{other}: {merged.new} new, {merged.same} here already{differ}")


@privacy_app.command("epsilon")
def privacy_epsilon(
    mechanism: Annotated[str, typer.Option(help="laplace, gumbel, gaussian or confident-gaussian.")],
    gamma: Annotated[float | None, typer.Option(help="Inverse noise scale of laplace and gumbel.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Noise of gaussian and confident-gaussian.")] = None,
    queries: Annotated[int | None, typer.Option(help="How many; default: the rows of --votes.")] = None,
    partitions: Annotated[int, typer.Option(help="s: a party's weight, or how often an example is asked about.")] = 1,
    unit: Annotated[Unit, typer.Option(help="Who is protected.")] = Unit.PARTY,
    adjacency: Annotated[Adjacency, typer.Option(help="What neighbours are.")] = Adjacency.REPLACE,
    classes: Annotated[int | None, typer.Option(help="Of two classes more is known.")] = None,
    voters: Annotated[int | None, typer.Option(help="How many vote.")] = None,
    votes: Annotated[Path | None, typer.Option(help="An NPY file of counts, a row a query.")] = None,
    accountant: Annotated[str, typer.Option(help="Its name, or best.")] = "best",
    orders: Annotated[int, typer.Option(help="L of moments: orders 1 to L.")] = 8,
    delta: Annotated[float, typer.Option(help="The chance that epsilon leaves out.")] = 1e-5,
    noise: Annotated[Noise, typer.Option(help="Continuous, or discrete from the operating system.")] = Noise.SIMULATED,
    check: Annotated[float | None, typer.Option(help="confident-gaussian: noise of the check.")] = None,
    threshold: Annotated[float | None, typer.Option(help="confident-gaussian: votes needed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Epsilon of noisy maxima, by every accountant that has a theorem for them."""
    from dataclasses import asdict

    from limbeck.privacy.enquiry import WITH_VOTES, Enquiry, worth

    enquiry = Enquiry(
        mechanism=mechanism,
        gamma=gamma,
        sigma=sigma,
        check=check,
        threshold=threshold,
        queries=queries,
        partitions=partitions,
        unit=unit.value,
        adjacency=adjacency.value,
        classes=classes,
        voters=voters,
        votes=votes,
        orders=orders,
        delta=delta,
        noise=noise.value,
    )
    answer = worth(enquiry, accountant)
    if as_json:
        from limbeck.experiments.record import finite

        typer.echo(json.dumps(finite(asdict(answer)), allow_nan=False))
        return
    from limbeck.report.privacy import epsilon_table

    title = f"{answer.epsilon:.4f} at delta {delta:g}, by {answer.accountant}"
    dependent = [name for name in WITH_VOTES if votes is not None]
    _console().print(epsilon_table(title, answer.all, answer.accountant, dependent))


@privacy_app.command("ledger")
def privacy_ledger(
    file: Annotated[Path, typer.Argument(help="A ledger (SQLite) that runs wrote.")],
    delta: Annotated[float, typer.Option(help="The chance that epsilon leaves out.")] = 1e-5,
) -> None:
    """What has left which site, and what all of it cost."""
    from limbeck.privacy.accountants import check_delta
    from limbeck.privacy.accounting import figures
    from limbeck.privacy.ledger import read_ledger
    from limbeck.report.privacy import figures_table, ledger_table

    check_delta(delta)
    rows = read_ledger(file)
    console = _console()
    console.print(ledger_table(rows))
    console.print(figures_table(figures([row for _, _, row in rows], delta), delta))


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that a run wrote (ONNX).")],
    rows: Annotated[Path, typer.Argument(help="Rows as the model learned from: CSV, Parquet or NPZ.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A CSV file; default: print.")] = None,
) -> None:
    """Predict the class of each row, with probabilities where the model has them."""
    from limbeck.experiments.result import load
    from limbeck.report.predictions import write_predictions

    write_predictions(load(model), rows, out)


@data_app.command("list")
def data_list() -> None:
    """The data sets that are here."""
    from limbeck.data.sets import names
    from limbeck.report.datasets import list_table

    _console().print(list_table(names()))


@data_app.command("fit")
def data_fit(
    public: Annotated[str, typer.Argument(help="The public rows: a data set's name, or a file.")],
    private: Annotated[str, typer.Argument(help="The private rows: a data set's name, or a file.")],
    label: Annotated[str | None, typer.Option(help="The column of tables that holds the classes.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also save the distances as a PNG file.")] = None,
) -> None:
    """How well public rows suit private ones."""
    from limbeck.data.suitability import suitability, two_sides
    from limbeck.report.suitability import save_suitability_picture, told

    fit = suitability(*two_sides(public, private, label))
    if picture:
        save_suitability_picture(fit, picture)
    _console(soft_wrap=True).print(told(fit))


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="mnist, adult, cod-rna, cifar10, cifar100 or svhn.")],
    mirror: Annotated[str | None, typer.Option(help="Another address that has the same files.")] = None,
) -> None:
    """Download a data set into the folder that LIMBECK_DATA names."""
    from limbeck.data.downloads import get

    typer.echo(f"written: {get(name, mirror)}")


@data_app.command("schema")
def data_schema(
    public: Annotated[Path, typer.Argument(help="The public rows (CSV or Parquet).")],
    label: Annotated[str, typer.Option(help="The column that holds the classes.")],
    classes: Annotated[str, typer.Option(help="All classes, in order, with commas between them.")],
) -> None:
    """Print the schema that public rows give, for a consortium to agree on: data.schema = "schema.json"."""
    from limbeck.data.files import read_table
    from limbeck.data.schema import schema_of

    typer.echo(schema_of(read_table(public), label, classes.split(",")).to_json())


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A data set, as `limbeck data list` names it.")],
) -> None:
    """One data set: its rows, classes and groups."""
    from limbeck.data.sets import load
    from limbeck.report.datasets import show

    _console().print(show(load(name)))


@data_app.command("split")
def data_split(
    source: Annotated[str, typer.Argument(help="An experiment (TOML), or a data set's name.")],
    settings: Settings = None,
    picture: Annotated[Path | None, typer.Option(help="Also save a heat map as a PNG file.")] = None,
) -> None:
    """Who holds what: rows per party and class."""
    from limbeck.experiments.deal import deal
    from limbeck.report.pictures import class_counts, save_split_picture, split_table

    dealt = deal(*_source(source, settings or []))
    counts = class_counts(dealt.private, len(dealt.classes))
    if picture:
        save_split_picture(counts, dealt.classes, picture)
    console = _console()
    console.print(split_table(counts, dealt.classes, console.width))
    sizes = [f"{len(rows) if rows else 0} {kind}" for kind, rows in (("public", dealt.public), ("test", dealt.test))]
    console.print(f"\n{counts.sum()} private, {', '.join(sizes)} rows")


def _compare(
    verb: str,
    file: Path,
    beside: str,
    over: list[str],
    seeds: int,
    settings: list[str] | None,
    out: Path,
    form: str,
    processes: int | None,
) -> None:
    sys.path.insert(0, str(file.parent.resolve()))
    answer = sys.stdout if form == "table" else _private_stdout()
    from limbeck.experiments.compare import compare
    from limbeck.experiments.plan import methods_in, plan
    from limbeck.experiments.results import Results
    from limbeck.report import comparison
    from limbeck.report.progress import Watcher

    planned = plan(file, methods_in(beside) if beside else [], over, seeds, settings or [])
    try:
        summaries = compare(planned, Results(out), processes, Watcher(_console(stderr=True), "running", "cell"))
    except KeyboardInterrupt:
        _stop(f"limbeck: interrupted; finished cells are kept in {out}, the same command goes on", INTERRUPTED)
    forms = {
        "json": comparison.as_json(planned, summaries) + "\n",
        "md": comparison.as_markdown(planned, summaries),
        "csv": comparison.as_csv(planned, summaries),
    }
    written = _keep_report(out / f"{file.stem}-{verb}", forms, planned, summaries)
    if form != "table":
        answer.write(forms[form])
        answer.flush()
        return
    console = _console()
    console.print(comparison.comparison(planned, summaries))
    console.print(f"\nwritten: {written}")


def _keep_report(stem: Path, forms: dict[str, str], planned: Any, summaries: Any) -> Path:
    """The table in every form and its pictures, beside the cells; drawn anew only where something changed."""
    from limbeck.drafts import Draft
    from limbeck.report.curves import save_pictures

    page, data, picture, sheet = (stem.with_name(stem.name + end) for end in (".md", ".json", "-bytes.png", ".csv"))
    try:
        drawn = all(path.exists() for path in (page, picture, sheet))
        if drawn and data.exists() and data.read_bytes() == forms["json"].encode():
            return page
        try:
            pictures = save_pictures(planned, summaries, stem)
        except LimbeckError as error:
            warnings.warn(str(error), LimbeckWarning, stacklevel=2)
            pictures = []
        shown = "".join(f"\n![{picture.stem}]({picture.name})\n" for picture in pictures)
        for path, text in ((sheet, forms["csv"]), (page, forms["md"] + shown), (data, forms["json"])):
            with Draft(path) as file:
                file.write(text.encode())
    except OSError as error:
        raise LimbeckError(f"cannot write {error.filename}: {error.strerror}; the cells are kept") from error
    return page


def _form(as_json: bool, as_markdown: bool, as_csv: bool) -> str:
    chosen = [name for name, given in (("json", as_json), ("md", as_markdown), ("csv", as_csv)) if given]
    if len(chosen) > 1:
        raise LimbeckError("--json, --markdown and --csv: choose one")
    return chosen[0] if chosen else "table"


def _all_together(ledger: Path, record: Any) -> Any:
    """What all runs in a ledger cost, where there are others than this one."""
    from limbeck.privacy.accounting import figures
    from limbeck.privacy.ledger import read_ledger

    rows = read_ledger(ledger)
    several = len({run for _, run, _ in rows}) > 1
    return figures([row for _, _, row in rows], record.delta) if several and record.delta else []


def _private_stdout() -> TextIO:
    """Stdout for us alone: what models print, here or in the pool, goes to stderr from now on."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return ours


def _experiment(file: Path, settings: list[str]) -> tuple[Any, dict[str, Any]]:
    from limbeck.experiments.config import Experiment, check_table, read_toml
    from limbeck.experiments.overrides import override

    table, notes = override(read_toml(file), settings)
    for note in notes:
        typer.echo(note, err=True)
    return check_table(Experiment, table, str(file)), table


def _source(source: str, settings: list[str]) -> tuple[Any, Path]:
    """The rows' part of a file, or a data set by name with ten equal parties; and where its paths start."""
    from limbeck.experiments.config import Source, check_table, read_toml
    from limbeck.experiments.overrides import override

    named = not source.endswith(".toml") and not Path(source).exists()
    table, _ = override({"data": {"name": source}} if named else read_toml(Path(source)), settings)
    part = {key: value for key, value in table.items() if key in Source.model_fields}
    return check_table(Source, part, source), Path() if named else Path(source).parent
