"""The process pool that runs training jobs."""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed
from joblib._parallel_backends import LokyBackend
from joblib.externals.loky.backend import resource_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from limbeck.errors import LimbeckError
from limbeck.imports import without_collection
from limbeck.protocol.learning import FitError, Job, Trainer

T = TypeVar("T")
Watch = Callable[[Iterable[Any], int], Iterable[Any]]


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


def unwatched(results: Iterable[Any], total: int) -> Iterable[Any]:
    """Return the results as they are, without a progress bar."""
    return results


@dataclass(frozen=True, slots=True)
class PoolTrainer:
    """Trainer that runs jobs in joblib's processes, one core each.

    If the caller has chosen a joblib backend, the jobs run there.

    Parameters
    ----------
    processes : int or None
        Number of processes; None means one per core.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    why : str
        Why this trainer was chosen, for the run record.
    """

    processes: int | None = None
    watch: Watch = unwatched
    why: str = ""

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        return {"trainer": "pool", "device": "cpu", "why": self.why}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        if not jobs:
            return []
        backend, _ = get_active_backend()
        processes = self.processes or (None if has_chosen_backend() else min(cpu_count(), len(jobs)))
        lazily = "generator" if backend.supports_return_generator else "list"
        tasks = (
            delayed(_attempt)(os.getpid(), i, job, classes, seed)
            for i, (job, seed) in enumerate(zip(jobs, seeds, strict=True))
        )
        try:
            return list(self.watch(Parallel(processes, return_as=lazily)(tasks), len(jobs)))
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


def warm_up(processes: int | None = None) -> None:
    """Start the pool in the background: its processes import libraries while the caller reads its data."""
    width = processes or cpu_count()
    if width > 1:
        imports = [delayed(_import)("limbeck.models.sklearn", os.getpid())] * width
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

    if os.getpid() != program:
        threading.Thread(target=watch, daemon=True).start()
        atexit.register(gc.freeze)  # at the end nothing is collected: a quarter of a second


def _attempt(program: int, index: int, job: Job[T], classes: int, seed: int) -> T:
    end_with(program)
    try:
        with _thread_pools(len(sys.modules)).limit(limits=1):
            return job.run(classes, seed)
    except (Exception, SystemExit) as error:  # an estimator may raise anything; all of it is reported in one line
        raise failed(job, index, error) from None


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """Thread pools of this process, searched again only if more modules were imported since."""
    return ThreadpoolController()


def _import(module: str, program: int) -> None:
    end_with(program)
    with without_collection():
        import_module(module)
