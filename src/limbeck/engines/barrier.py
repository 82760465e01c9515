"""A barrier for training jobs: one trainer gets the jobs of all parties at once."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import FitError, Job, Trainer

T = TypeVar("T")
MAX_THREADS = 2**16
STOPPED = "the run was stopped"


class AbandonedError(LimbeckError):
    """Raised in a waiting thread when another party's fit failed or the run was stopped."""


@dataclass(slots=True)
class _Order:
    jobs: Sequence[Job[Any]]
    classes: int
    seeds: Sequence[int]
    results: Future[list[Any]] = field(default_factory=Future)


class JobBarrier:
    """A trainer for several threads: it runs their jobs when every thread waits here or has ended.

    The jobs run in the thread that called `together`. The order of the threads does not matter, because each job
    depends only on its own seed.

    Parameters
    ----------
    trainer : Trainer
        Runs the jobs.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._threads = ThreadPoolExecutor(
            MAX_THREADS
        )  # kept between requests: starting them takes longer than a message
        self._news = threading.Condition()
        self._orders: list[_Order] = []
        self._busy = 0
        self._failed = False

    @property
    def description(self) -> Mapping[str, Any]:
        """Description of the trainer."""
        return self._trainer.description

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Hand in jobs from a party's thread and wait for their results."""
        order = _Order(jobs, classes, seeds)
        with self._news:
            if self._failed:
                raise AbandonedError(STOPPED)
            self._orders.append(order)
            self._wake()
        return order.results.result()

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run each task in its own thread, and their training jobs in this one.

        If a task fails, jobs that have not started are abandoned.

        Parameters
        ----------
        tasks : sequence of callable
            One task for each party.

        Returns
        -------
        list
            Result of each task, or the exception that it raised.
        """
        results: list[T | Exception] = [AbandonedError("not run")] * len(tasks)

        def work(position: int) -> None:
            try:
                results[position] = tasks[position]()
            except Exception as error:  # handed to the caller in place of the result
                results[position] = error
                self._failed = True
            finally:
                with self._news:
                    self._busy -= 1
                    self._wake()

        self._busy, self._failed = len(tasks), False
        try:
            for position in range(len(tasks)):
                self._threads.submit(work, position)
            self._serve()
        finally:
            self._abandon()
        return results

    def _serve(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(self._all_wait)
                if self._failed or not self._busy:
                    return
                orders, self._orders = self._orders, []
            self._fill(orders)

    def _all_wait(self) -> bool:
        """Whether every party waits for jobs or has ended."""
        return len(self._orders) == self._busy

    def _wake(self) -> None:
        """Wake the caller of `together`, but not before it can go on."""
        if self._all_wait():
            self._news.notify()

    def _fill(self, orders: list[_Order]) -> None:
        jobs = [job for order in orders for job in order.jobs]
        seeds = [seed for order in orders for seed in order.seeds]
        try:
            results = iter(self._trainer.run(jobs, orders[0].classes, seeds))
            for order in orders:
                order.results.set_result(list(islice(results, len(order.jobs))))
        except FitError as error:
            owners = [order for order in orders for _ in order.jobs]
            owners[error.index].results.set_exception(error)
        finally:
            _stop(orders)

    def _abandon(self) -> None:
        """Wake the threads that still wait; nothing is trained from now on."""
        with self._news:
            self._failed = True
            while self._busy:
                _stop(self._orders)
                self._orders = []
                self._news.wait(0.1)


def _stop(orders: Sequence[_Order]) -> None:
    """Abandon orders without results."""
    for order in orders:
        if not order.results.done():
            order.results.set_exception(AbandonedError(STOPPED))
