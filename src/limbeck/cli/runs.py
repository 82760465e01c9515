"""Commands `limbeck demo` and `limbeck run`."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from limbeck.cli.shared import (
    AsJson,
    ClusterAddress,
    Processes,
    Settings,
    console,
    experiment_in,
    private_stdout,
    start,
)
from limbeck.errors import located
from limbeck.imports import without_collection


def demo(processes: Processes = None) -> None:
    """Run a demonstration: ten organisations with different models learn to read digits. Takes seconds."""
    typer.echo("ten organisations with four kinds of models learn to read digits, in five runs", err=True)
    start(processes)
    with without_collection():
        from limbeck.experiments.demo import demo_file, run_demo
        from limbeck.progress import Watcher
        from limbeck.report.tables import comparison_table, party_table

    out, err = console(), console(stderr=True)
    records, private, folder = run_demo(processes, Watcher(err))
    solo = next(record for record in records if record.algorithm == "solo")
    out.print(party_table(solo))
    out.print(comparison_table(records))
    out.print(comparison_table(private, "with differential privacy, epsilon 1: L1 hides a whole party, L2 a row"))
    out.print(f"\nThe federation's model: {folder}/model.onnx\nThe experiment: {demo_file()}")


def run(
    file: Annotated[Path, typer.Argument(help="An experiment (TOML).")],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: a new one in runs/.")] = None,
    as_json: AsJson = False,
    processes: Processes = None,
    cluster: ClusterAddress = None,
) -> None:
    """Run an experiment, and write a folder with record.json and the model as ONNX."""
    from limbeck.experiments.headline import headline, read_toml
    from limbeck.experiments.overrides import changed_by

    sys.path.insert(0, str(file.parent.resolve()))  # for the user's own models: name = "python:module:factory"
    answer = private_stdout() if as_json else sys.stdout
    content = read_toml(file)
    planned = changed_by(content, settings or [])
    typer.echo(headline(file, planned), err=True)
    if cluster is None:
        start(processes, planned)
    with without_collection():
        from limbeck.experiments.folder import RunFolder, free_folder, ledger_beside, ledger_files, remove_ledger
        from limbeck.experiments.run import ledger_of, run_experiment
        from limbeck.models.clusters.connecting import connected
        from limbeck.progress import Watcher
        from limbeck.report.results import files_of
        from limbeck.report.tables import confusion_of, own_test_table, party_table, run_table

    err = console(stderr=True)
    experiment, table = experiment_in(file, settings or [], content)
    where = out or free_folder(f"{file.stem}-{experiment.algorithm.name}")
    named_ledger = ledger_of(experiment, file.parent)
    protected = experiment.algorithm.is_private
    own_ledger = ledger_beside(where, named_ledger) if named_ledger or protected else nullcontext()
    real = protected and experiment.noise_source == "secure"
    with connected(cluster, processes) as workers, RunFolder(where, real) as folder, own_ledger as ledger:
        with located(file):
            result = run_experiment(experiment, table, processes, Watcher(err), file.parent, ledger, workers)
        own = {} if named_ledger or ledger is None else ledger_files(ledger)
        where = folder.write({**files_of(result, ledger), **own})
        if ledger and not named_ledger:
            remove_ledger(ledger)
    if as_json:
        typer.echo(json.dumps(result.record.summary(str(where)), allow_nan=False), file=answer)
        return
    screen = console()
    screen.print(party_table(result.record))
    for shown in (run_table(result.record), *own_test_table(result.record), *confusion_of(result.record)):
        screen.print(shown)
    screen.print(f"\nwritten: {where}")
