"""Commands `limbeck compare`, `limbeck sweep` and `limbeck results`."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.shared import INTERRUPTED, AsJson, ClusterAddress, Processes, Settings, console, private_stdout, stop
from limbeck.errors import LimbeckError, LimbeckWarning

Methods = Annotated[
    str,
    typer.Option(
        "--with", metavar="METHODS", help="Methods to compare with the file's own: solo,pate,fedkt:partitions=1"
    ),
]
Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds, from the file's own seed on.")]
ResultsFolder = Annotated[Path, typer.Option("--out", help="Folder for finished runs, tables and pictures.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]

results = typer.Typer(name="results", help="Finished runs of comparisons.", no_args_is_help=True)


def compare(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML) with rows, models and one method.")],
    methods: Methods = "",
    seeds: Seeds = 5,
    settings: Settings = None,
    out: ResultsFolder = Path("results"),
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    as_csv: AsCsv = False,
    processes: Processes = None,
    cluster: ClusterAddress = None,
) -> None:
    """Compare methods on the same rows, over several seeds. A finished run is not repeated."""
    sweep(file, [], methods, seeds, settings, out, as_json, as_markdown, as_csv, processes, cluster)


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML).")],
    over: Annotated[
        list[str], typer.Option("--over", metavar="KEY=V,V,…", help="A key and its values; may be repeated.")
    ],
    methods: Methods = "",
    seeds: Seeds = 5,
    settings: Settings = None,
    out: ResultsFolder = Path("results"),
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    as_csv: AsCsv = False,
    processes: Processes = None,
    cluster: ClusterAddress = None,
) -> None:
    """Run an experiment for every combination of values, over several seeds. A finished run is not repeated."""
    form = _form(as_json, as_markdown, as_csv)
    sys.path.insert(0, str(file.parent.resolve()))
    answer = sys.stdout if form == "table" else private_stdout()
    from limbeck.experiments.compare import compare
    from limbeck.experiments.plan import methods_in, plan
    from limbeck.experiments.results_folder import Results
    from limbeck.models.clusters.connecting import connected
    from limbeck.progress import Watcher
    from limbeck.report import comparison

    planned = plan(file, methods_in(methods) if methods else [], over, seeds, settings or [])
    for note in planned.notes:
        typer.echo(note, err=True)
    try:
        with connected(cluster, processes) as workers:
            watch = Watcher(console(stderr=True), "running", "run")
            summaries = compare(planned, Results(out), processes, watch, workers)
    except KeyboardInterrupt:
        stop(f"limbeck: interrupted; finished runs are stored in {out}, the same command continues", INTERRUPTED)
    forms = {
        "json": comparison.as_json(planned, summaries) + "\n",
        "md": comparison.as_markdown(planned, summaries),
        "csv": comparison.as_csv(planned, summaries),
    }
    verb = "sweep" if over else "compare"
    written = _keep_report(out / f"{file.stem}-{verb}", forms, planned, summaries)
    if form != "table":
        typer.echo(forms[form], nl=False, file=answer)
        return
    screen = console()
    screen.print(comparison.comparison(planned, summaries))
    screen.print(f"\nwritten: {written}")


@results.command()
def merge(
    others: Annotated[list[Path], typer.Argument(help="Results folders from other machines.")],
    into: ResultsFolder = Path("results"),
) -> None:
    """Add finished runs from other machines to the results folder."""
    from limbeck.experiments.results_folder import Results

    for other in others:
        merged = Results(into).merge(Results(other))
        differ = f", {merged.different} with different metrics (the existing results stay)" if merged.different else ""
        typer.echo(f"{other}: {merged.new} new, {merged.same} here already{differ}")


def _keep_report(stem: Path, forms: dict[str, str], planned: Any, summaries: Any) -> Path:
    """Write the table in every format and its pictures, unless nothing has changed."""
    from limbeck.atomic_files import AtomicFile
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
            with AtomicFile(path) as file:
                file.write(text.encode())
    except OSError as error:
        raise LimbeckError(f"cannot write {error.filename}: {error.strerror}; the finished runs are stored") from error
    return page


def _form(as_json: bool, as_markdown: bool, as_csv: bool) -> str:
    chosen = [name for name, given in (("json", as_json), ("md", as_markdown), ("csv", as_csv)) if given]
    if len(chosen) > 1:
        raise LimbeckError("--json, --markdown and --csv: choose one")
    return chosen[0] if chosen else "table"
