"""Threads in place of processes for forests on few cores: they start at once, and take the rows as they are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from joblib import cpu_count, parallel_config
from threadpoolctl import ThreadpoolController

from limbeck.models.pool import PoolTrainer, has_chosen_backend
from limbeck.protocol.learning import Job, Model

T = TypeVar("T")
MAX_THREADS = 2  # more would wait for each other in Python, while more cores start processes beside the program


@dataclass(frozen=True, slots=True)
class ThreadTrainer:
    """Trainer that runs jobs in threads of this process.

    Parameters
    ----------
    pool : PoolTrainer
        Trainer that runs the jobs with joblib's threads; in a backend that the caller has chosen, it runs them there.
    """

    pool: PoolTrainer

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        return {**self.pool.description, "trainer": "threads"}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        if has_chosen_backend():
            return self.pool.run(jobs, classes, seeds)
        with ThreadpoolController().limit(limits=1), parallel_config("threading", n_jobs=width(self.pool.processes)):
            return self.pool.run(jobs, classes, seeds)


def width(processes: int | None) -> int:
    """Number of jobs that run at the same time."""
    return processes or cpu_count()


def suffice(models: Iterable[Model], processes: int | None) -> bool:
    """Whether threads train models as fast as processes do: forests, two at a time.

    Parameters
    ----------
    models : iterable of Model
        Models of the run.
    processes : int or None
        Number of jobs that run at the same time; None means one per core.

    Notes
    -----
    Nearly all of a forest's `fit` is compiled code, which lets other threads run. A process must import
    scikit-learn first, which takes a second of its core.
    """
    from limbeck.models.forests import is_forest

    return width(processes) <= MAX_THREADS and all(is_forest(getattr(model, "estimator", None)) for model in models)
