"""A barrier for training jobs: one trainer gets the jobs of all parties at once."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import FitError, Job, Trainer

T = TypeVar("T")
_thread = threading.local()  # `party`: the one that runs in this thread


class AbandonedError(LimbeckError):
    """Raised in a waiting thread when another party's fit failed or the run was stopped."""


@dataclass(slots=True)
class _Order:
    jobs: Sequence[Job[Any]]
    classes: int
    seeds: Sequence[int]


class _Party:
    """A task in a thread of its own, which runs only while the barrier waits for it.

    One thread at a time: threads that run side by side would wait for the interpreter at every message, release and
    hash.
    """

    def __init__(self, task: Callable[[], Any]) -> None:
        self.result: Any = AbandonedError("not run")
        self.order: _Order | None = None  # the jobs that it waits for
        self.answer: list[Any] | Exception = []
        self._task, self._goes, self._stopped = task, threading.Lock(), threading.Lock()
        self._stopped.acquire()
        self._goes.acquire()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def begin(self) -> None:
        """Run until the task ends, or waits for jobs."""
        self._thread.start()
        self.resume([])

    def resume(self, answer: list[Any] | Exception) -> None:
        """Hand over results, and run until the task ends, or waits for jobs."""
        self.answer, self.order = answer, None
        self._goes.release()
        self._stopped.acquire()

    def wait(self, order: _Order) -> list[Any]:
        """In its thread: wait for the results of jobs."""
        self.order = order
        self._stopped.release()
        self._goes.acquire()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def abandon(self) -> None:
        """End the task: from now on every job fails. After an interrupt it may still run."""
        while self._thread.is_alive():
            if self.order is not None:
                self.resume(AbandonedError("the run was stopped"))
            self._thread.join(0.001 if self.order is None else 0)

    def _work(self) -> None:
        _thread.party = self
        self._goes.acquire()
        try:
            self.result = self._task()
        except Exception as error:  # handed to the caller in place of the result
            self.result = error
        self._stopped.release()


class JobBarrier:
    """A trainer for the tasks of several parties: it runs their jobs when every party waits here or has ended.

    The jobs run in the thread that called `together`. The order of the parties does not matter, because each job
    depends only on its own seed.

    Parameters
    ----------
    trainer : Trainer
        Runs the jobs.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    @property
    def description(self) -> Mapping[str, Any]:
        """Description of the trainer."""
        return self._trainer.description

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Hand in jobs of a party and wait for their results."""
        party: _Party = _thread.party
        return party.wait(_Order(jobs, classes, seeds))

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run the tasks, and the training jobs of all of them together.

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
        parties = [_Party(task) for task in tasks]
        try:
            for party in parties:
                party.begin()
            while not any(isinstance(party.result, Exception) and party.order is None for party in parties):
                if not (waiting := [party for party in parties if party.order]):
                    break
                answers = self._answers([party.order for party in waiting if party.order])
                for party, answer in zip(waiting, answers, strict=True):
                    party.resume(answer)
        finally:
            for party in parties:
                party.abandon()
        return [party.result for party in parties]

    def _answers(self, orders: Sequence[_Order]) -> list[list[Any] | Exception]:
        """Results for each order; if a job fails, its error for its owner, and nothing for the others."""
        jobs = [job for order in orders for job in order.jobs]
        seeds = [seed for order in orders for seed in order.seeds]
        try:
            results = iter(self._trainer.run(jobs, orders[0].classes, seeds))
        except FitError as error:
            owners = [number for number, order in enumerate(orders) for _ in order.jobs]
            stopped = AbandonedError("the run was stopped")
            return [error if number == owners[error.index] else stopped for number in range(len(orders))]
        return [list(islice(results, len(order.jobs))) for order in orders]
