"""A barrier for jobs: those of all parties meet here, so that one trainer sees them at once."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import FitError, Job, Trainer

T = TypeVar("T")


class AbandonedError(LimbeckError):
    """Another party's fit failed, or the run was stopped, while this one waited."""


@dataclass(slots=True)
class _Order:
    jobs: Sequence[Job[Any]]
    classes: int
    seeds: Sequence[int]
    done: threading.Event = field(default_factory=threading.Event)
    results: list[Any] | None = None
    error: Exception | None = None


class JobBarrier:
    """A trainer for many threads: it runs what they hand in when every one of them waits here or has ended.

    The jobs run in the thread that called `together`. Which thread came first changes nothing: each job depends
    on its own seed alone.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._news = threading.Condition()
        self._orders: list[_Order] = []
        self._busy = 0
        self._failed = False

    @property
    def said(self) -> Mapping[str, Any]:
        return self._trainer.said

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Hand in jobs from a party's thread and wait for their results."""
        order = _Order(jobs, classes, seeds)
        with self._news:
            self._orders.append(order)
            self._news.notify()
        order.done.wait()
        if order.error is not None:
            raise order.error
        assert order.results is not None
        return order.results

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run each task in a thread of its own, and their fits here; what a task raised stands in its place.

        When a task fails, fits that have not begun are abandoned: nobody trains for nothing.
        """
        results: list[T | Exception] = [AbandonedError("not run")] * len(tasks)

        def work(place: int) -> None:
            try:
                results[place] = tasks[place]()
            except Exception as error:  # handed to the caller in place of the result
                results[place] = error
                self._failed = True
            finally:
                with self._news:
                    self._busy -= 1
                    self._news.notify()

        self._busy, self._failed = len(tasks), False
        threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(tasks))]
        for thread in threads:
            thread.start()
        try:
            self._serve()
        finally:
            self._abandon()
            for thread in threads:
                thread.join()
        return results

    def _serve(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: len(self._orders) == self._busy)
                if self._failed or not self._busy:
                    return
                orders, self._orders = self._orders, []
            self._fill(orders)

    def _fill(self, orders: list[_Order]) -> None:
        jobs = [job for order in orders for job in order.jobs]
        seeds = [seed for order in orders for seed in order.seeds]
        try:
            results = self._trainer.run(jobs, orders[0].classes, seeds)
            for order in orders:
                order.results, results = results[: len(order.jobs)], results[len(order.jobs) :]
        except FitError as error:
            self._blame(orders, error)
        finally:
            for order in orders:
                if order.results is None and order.error is None:
                    order.error = AbandonedError("the run was stopped")
                order.done.set()

    @staticmethod
    def _blame(orders: list[_Order], error: FitError) -> None:
        """The order whose job failed gets the error."""
        first = 0
        for order in orders:
            last = first + len(order.jobs)
            if first <= error.index < last:
                order.error = error
            first = last

    def _abandon(self) -> None:
        """Wake whoever still waits: from now on nothing is trained."""
        with self._news:
            while self._busy:
                for order in self._orders:
                    order.error = AbandonedError("the run was stopped")
                    order.done.set()
                self._orders = []
                self._news.wait(0.1)
