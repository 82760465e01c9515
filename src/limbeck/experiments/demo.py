"""The demonstration: one experiment on an embedded data set, without privacy and at epsilon 1.

Without privacy, FedVote is compared with training alone and on pooled rows. At epsilon 1, each of our methods runs at
the level that it is for: FedVote hides a party (L1), FedRidge hides a row (L2).
"""

from pathlib import Path

from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.folder import RunFolder, free_folder
from limbeck.experiments.overrides import override
from limbeck.experiments.record import RunRecord
from limbeck.experiments.result import FinishedRun
from limbeck.experiments.run import run_experiment
from limbeck.models.pool import Watch

METHODS = ("solo", "fedvote", "centralized")
PRIVATE = (  # at epsilon 1
    ("algorithm.name=fedvote", "algorithm.partitions=1", "algorithm.privacy={level='L1',epsilon=1.0}"),
    ("algorithm.name=fedridge", "algorithm.privacy={level='L2',epsilon=1.0}"),
)


def demo_file() -> Path:
    """Path of the demonstration's experiment file."""
    return Path(__file__).with_name("demo.toml")


def run_demo(processes: int | None, watch: Watch) -> tuple[list[RunRecord], list[RunRecord], Path]:
    """Run the demonstration.

    Parameters
    ----------
    processes : int or None
        Training processes; by default one per core.
    watch : callable
        Shows progress.

    Returns
    -------
    tuple of list of RunRecord, list of RunRecord and Path
        Records of all methods without privacy and at epsilon 1, and the folder of the run of `fedvote` without privacy.
    """

    def run(*settings: str) -> FinishedRun:
        table, _ = override(read_toml(demo_file()), settings)
        return run_experiment(check_table(Experiment, table, str(demo_file())), table, processes, watch)

    where = free_folder("demo")
    with RunFolder(where) as folder:
        results = [run(f"algorithm.name={method}") for method in METHODS]
        private = [run(*settings) for settings in PRIVATE]
        where = folder.write(results[METHODS.index("fedvote")].files())
    return [result.record for result in results], [result.record for result in private], where
