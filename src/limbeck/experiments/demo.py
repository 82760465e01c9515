"""The demonstration: one experiment on embedded data, beside what each party and one big pool would reach."""

from pathlib import Path

from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.folder import RunFolder, free_folder
from limbeck.experiments.overrides import override
from limbeck.experiments.record import RunRecord
from limbeck.experiments.run import run_experiment
from limbeck.models.pool import Watch

METHODS = ("solo", "fedvote", "centralized")


def demo_file() -> Path:
    return Path(__file__).with_name("demo.toml")


def run_demo(processes: int | None, watch: Watch) -> tuple[list[RunRecord], Path]:
    """The records of all methods, and the folder of the federation's run."""
    where = free_folder("demo")
    with RunFolder(where) as folder:
        results = []
        for method in METHODS:
            table, _ = override(read_toml(demo_file()), [f"algorithm.name={method}"])
            experiment = check_table(Experiment, table, str(demo_file()))
            results.append(run_experiment(experiment, table, processes, watch))
        where = folder.write(results[METHODS.index("fedvote")].files())
    return [result.record for result in results], where
