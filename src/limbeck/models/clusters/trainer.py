"""The trainer that runs jobs on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from limbeck.errors import LimbeckError
from limbeck.models.pool import Watch, attempt, small_first, unwatched
from limbeck.protocol.learning import Job

T = TypeVar("T")


class ClusterError(LimbeckError):
    """The cluster cannot run tasks any more: a whole comparison stops, not only one run."""


class Workers(Protocol):
    """Workers that run tasks; `Cluster` has those of a cluster."""

    @property
    def address(self) -> str:
        """Address of the cluster."""

    @property
    def width(self) -> int:
        """Number of tasks that run at the same time."""

    def run(self, function: Callable[..., T], tasks: Iterable[Sequence[Any]]) -> Iterator[tuple[int, T]]:
        """Run a function once for each task.

        Parameters
        ----------
        function : callable
            Function that workers can import.
        tasks : iterable of sequence
            Arguments of each call. Few of them are read ahead.

        Yields
        ------
        (int, T)
            Position of a task and its result, as they come.

        Raises
        ------
        FitError
            If a job fails.
        ClusterError
            If a task's worker dies again and again, or no worker is left.
        """


@dataclass(frozen=True, slots=True)
class ThisWorker:
    """The worker of a whole run: it runs the jobs of the run itself, one after the other.

    Parameters
    ----------
    address : str
        Address of the cluster.
    """

    address: str
    width: int = 1

    def run(self, function: Callable[..., T], tasks: Iterable[Sequence[Any]]) -> Iterator[tuple[int, T]]:
        """Run a function once for each task; yields the position of a task and its result."""
        for number, task in enumerate(tasks):
            yield number, function(*task)


@dataclass(frozen=True, slots=True)
class ClusterTrainer:
    """Trainer that runs jobs on the workers of a cluster, one core each.

    Parameters
    ----------
    cluster : Workers
        The cluster.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    why : str
        Why this trainer was chosen, for the run record.
    together : bool
        Whether small networks train together in the program's process.
    """

    cluster: Workers
    watch: Watch = unwatched
    why: str = ""
    together: bool = False

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        return {"trainer": "cluster", "device": "cpu", "why": self.why}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        if self.together:
            return small_first(self, jobs, classes, seeds)
        if not jobs:
            return []
        found: dict[int, T] = {}

        def results() -> Iterator[T]:
            tasks = zip(range(len(jobs)), jobs, [classes] * len(jobs), seeds, strict=True)
            for index, result in self.cluster.run(attempt, tasks):
                found[index] = result
                yield result

        for _ in self.watch(results(), len(jobs)):
            pass
        return [found[index] for index in range(len(jobs))]
