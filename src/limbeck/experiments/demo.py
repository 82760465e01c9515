"""The demonstration: one experiment on an embedded data set, compared with training alone and on pooled rows."""

from pathlib import Path

from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.folder import RunFolder, free_folder
from limbeck.experiments.overrides import override
from limbeck.experiments.record import RunRecord
from limbeck.experiments.run import run_experiment
from limbeck.models.pool import Watch

METHODS = ("solo", "fedvote", "centralized")


def demo_file() -> Path:
    """Path of the demonstration's experiment file."""
    return Path(__file__).with_name("demo.toml")


def run_demo(processes: int | None, watch: Watch) -> tuple[list[RunRecord], Path]:
    """Run the demonstration.

    Parameters
    ----------
    processes : int or None
        Training processes; by default one per core.
    watch : callable
        Shows progress.

    Returns
    -------
    tuple of list of RunRecord and Path
        Records of all methods, and the folder of the run of `fedvote`.
    """
    where = free_folder("demo")
    with RunFolder(where) as folder:
        results = []
        for method in METHODS:
            table, _ = override(read_toml(demo_file()), [f"algorithm.name={method}"])
            experiment = check_table(Experiment, table, str(demo_file()))
            results.append(run_experiment(experiment, table, processes, watch))
        where = folder.write(results[METHODS.index("fedvote")].files())
    return [result.record for result in results], where
