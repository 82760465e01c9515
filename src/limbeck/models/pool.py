"""The process pool that runs training jobs."""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar, cast

from joblib import Parallel, cpu_count, delayed
from joblib._parallel_backends import LokyBackend
from joblib.externals.loky.backend import resource_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from limbeck.errors import LimbeckError
from limbeck.imports import without_collection
from limbeck.models.caching import plain
from limbeck.models.shared_rows import SharedRows
from limbeck.protocol.learning import FitError, Job, Trainer

T = TypeVar("T")
Watch = Callable[[Iterable[Any], int], Iterable[Any]]
QUICK = 0.05  # seconds for which no process is worth its while
MAX_QUICK_VALUES = 100_000  # of all rows of jobs that may be so quick


def failed(job: Any, index: int, error: BaseException) -> FitError:
    """FitError that names a job and its error in one line."""
    reason = " ".join(str(error).split())
    return FitError(f"cannot fit {job}: {reason or type(error).__name__}", index)


def completed(
    results: dict[int, Any], others: Trainer, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]
) -> list[T]:
    """Results of all jobs, in order; `others` runs the jobs that have no result yet.

    Parameters
    ----------
    results : dict
        Results so far, by the index of the job.
    others : Trainer
        Trainer of the other jobs.
    jobs : sequence of Job
        All jobs.
    classes : int
        Number of classes.
    seeds : sequence of int
        Seed of each job.
    """
    rest = [index for index in range(len(jobs)) if index not in results]
    try:
        done = others.run([jobs[i] for i in rest], classes, [seeds[i] for i in rest]) if rest else []
    except FitError as error:
        raise FitError(error.message, rest[error.index]) from error
    every = {**results, **dict(zip(rest, done, strict=True))}
    return [every[index] for index in range(len(jobs))]


def small_first(trainer: Any, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
    """Results of all jobs, in order: small networks train together in this process, `trainer` runs the other jobs.

    Parameters
    ----------
    trainer : Trainer
        A dataclass with the fields `watch` and `together`.
    jobs : sequence of Job
        All jobs.
    classes : int
        Number of classes.
    seeds : sequence of int
        Seed of each job.
    """
    from limbeck.models.small_networks import train_small

    small = train_small(jobs, classes, seeds)
    results = dict(zip(small, trainer.watch(small.values(), len(small)) if small else (), strict=True))
    return completed(results, replace(trainer, together=False), jobs, classes, seeds)


def unwatched(results: Iterable[Any], total: int) -> Iterable[Any]:
    """Return the results as they are, without a progress bar."""
    return results


@dataclass(frozen=True, slots=True)
class PoolTrainer:
    """Trainer that runs jobs in joblib's processes, one core each, those with most rows first.

    Jobs that take some milliseconds run in this process, because handing them over takes longer. If the caller has
    chosen a joblib backend, all jobs run there.

    Parameters
    ----------
    processes : int or None
        Number of processes; None means one per core.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    why : str
        Why this trainer was chosen, for the run record.
    together : bool
        Whether small networks train together in this process.
    """

    processes: int | None = None
    watch: Watch = unwatched
    why: str = ""
    together: bool = False
    _shared: SharedRows = field(default_factory=SharedRows, compare=False, repr=False)

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        return {"trainer": "pool", "device": "cpu", "why": self.why}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        if self.together:
            return small_first(self, jobs, classes, seeds)
        return self._in_processes(jobs, classes, seeds)

    def _in_processes(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        if not jobs:
            return []
        backend, _ = get_active_backend()
        processes = self.processes or (None if has_chosen_backend() else min(cpu_count(), len(jobs)))
        lazily = "generator" if backend.supports_return_generator else "list"
        found = {} if has_chosen_backend() or processes == 1 else _quick_ones(jobs, classes, seeds)
        order = sorted(set(range(len(jobs))) - set(found), key=lambda i: -rows_of(jobs[i]))
        there = jobs if has_chosen_backend() or processes == 1 else [self._shared.in_files(job) for job in jobs]
        tasks = (delayed(_attempt)(os.getpid(), i, there[i], classes, seeds[i]) for i in order)
        try:
            results = self.watch(chain(found.values(), Parallel(processes, return_as=lazily)(tasks)), len(jobs))
            every = dict(zip([*found, *order], results, strict=True))
            return [every[index] for index in range(len(jobs))]
        except TerminatedWorkerError as error:
            raise LimbeckError(
                "a training process was killed, perhaps for lack of memory; use fewer processes"
            ) from error
        except BrokenProcessPool as error:
            raise LimbeckError(
                "other processes cannot load a model; define it in a module that they can import"
            ) from error


def has_chosen_backend() -> bool:
    """Whether the caller has chosen a joblib backend, by joblib's `parallel_config`."""
    backend, width = get_active_backend()
    return width is not None or not isinstance(backend, LokyBackend)


def _quick_ones(jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> dict[int, T]:
    """Results of the first jobs, which run in this process until that takes `QUICK` seconds, if all of them look quick.

    These are fits of scikit-learn's models to few values. Other models may be long, or end their process.
    """
    fits = [plain(job) for job in jobs]
    if not all(map(_is_of_sklearn, fits)) or sum(fit.rows.size for fit in fits) > MAX_QUICK_VALUES:
        return {}
    found: dict[int, T] = {}
    began = time.perf_counter()
    for index, job in enumerate(jobs):
        if time.perf_counter() - began > QUICK:
            break
        found[index] = attempt(index, job, classes, seeds[index])
    return found


def _is_of_sklearn(fit: Any) -> bool:
    """Whether a job fits a model of scikit-learn, or a pipeline of such."""
    estimator = getattr(getattr(fit, "model", None), "estimator", None)
    steps = [estimator, *(step for _, step in getattr(estimator, "steps", ()))]
    return all(type(step).__module__.startswith("sklearn.") for step in steps)


def rows_of(job: Job[Any]) -> int:
    """Number of training rows of a job; 0 if it has none."""
    return len(getattr(plain(job), "rows", ()))


def warm_up(processes: int | None = None, module: str = "limbeck.models.sklearn") -> None:
    """Start the pool in the background: its processes import a module while the caller reads its data."""
    width = processes or cpu_count()
    if width > 1:
        imports = [delayed(_import)(module, os.getpid())] * width
        with _children_ignoring_interrupts():
            started = Parallel(width, batch_size=1, return_as="generator")(imports)
        threading.Thread(target=list, args=(started,), daemon=True).start()


@contextmanager
def _children_ignoring_interrupts() -> Iterator[None]:
    """Child processes that start here ignore Ctrl-C, except on Windows; the program itself receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started inside, it would unblock the signals
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@cache
def end_with(program: int) -> None:
    """In a process of the pool: end this process when `program` (a process id) ends, for whatever reason."""

    def watch() -> None:
        while os.getppid() == program:
            time.sleep(0.2)
        os._exit(1)

    if os.getppid() == program:  # not in a worker that somebody else started
        threading.Thread(target=watch, daemon=True).start()
        atexit.register(gc.freeze)  # at the end nothing is collected: a quarter of a second


def _attempt(program: int, index: int, job: Job[T], classes: int, seed: int) -> T:
    end_with(program)
    return attempt(index, job, classes, seed)


def attempt(index: int, job: Job[T], classes: int, seed: int) -> T:
    """Run a job on one core; an error of any kind becomes a `FitError` that names the job.

    Parameters
    ----------
    index : int
        Position of the job among those of the call.
    job : Job
        The job.
    classes : int
        Number of classes.
    seed : int
        Seed of the job.

    Returns
    -------
    T
        Its result.
    """
    try:
        with one_core():
            return job.run(classes, seed)
    except (Exception, SystemExit) as error:  # an estimator may raise anything; all of it is reported in one line
        raise failed(job, index, error) from None


def one_core() -> AbstractContextManager[Any]:
    """Context manager in which linear algebra uses one thread: with more its last digits depend on their number."""
    return cast(AbstractContextManager[Any], _thread_pools(len(sys.modules)).limit(limits=1))


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """Thread pools of this process, searched again only if more modules were imported since."""
    return ThreadpoolController()


def _import(module: str, program: int) -> None:
    end_with(program)
    with without_collection():
        import_module(module)
