"""The barrier: fits of many threads run together, failures find their owner, and nothing hangs."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from limbeck.engines.barrier import AbandonedError, JobBarrier
from limbeck.protocol.learning import FitError, J, Job


class Counting:
    """Hands back each job doubled, and remembers how many came at once."""

    description: ClassVar[dict[str, Any]] = {}

    def __init__(self, fails_at: Any = None) -> None:
        self.batches: list[int] = []
        self.threads: set[int] = set()
        self.fails_at = fails_at

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
        self.batches.append(len(jobs))
        self.threads.add(threading.get_ident())
        if self.fails_at in jobs:
            raise FitError("cannot learn", list(jobs).index(self.fails_at))
        return [2 * job for job in jobs]  # type: ignore[operator,misc]


def party(barrier: JobBarrier, *orders: Sequence[int], wait: float = 0) -> Callable[[], list[int]]:
    def task() -> list[int]:
        got: list[int] = []
        for order in orders:
            time.sleep(wait)
            got += barrier.run(order, 2, [0] * len(order))  # type: ignore[arg-type]
        return got

    return task


def test_fits_of_all_parties_meet() -> None:
    trainer = Counting()
    barrier = JobBarrier(trainer)
    results = barrier.together([party(barrier, [1, 2], [3], wait=0.01 * n) for n in range(5)])
    assert results == [[2, 4, 6]] * 5
    assert trainer.batches == [10, 5]


def test_parties_that_ask_more_or_less_often_do_not_wait_for_ever() -> None:
    trainer = Counting()
    barrier = JobBarrier(trainer)
    results = barrier.together([party(barrier, [1]), party(barrier), party(barrier, [2], [3], [4])])
    assert results == [[2], [], [4, 6, 8]]
    assert trainer.batches == [2, 1, 1]


def test_jobs_run_in_the_callers_thread() -> None:
    """Settings of joblib belong to a thread: a backend that the user chose must be seen."""
    trainer = Counting()
    barrier = JobBarrier(trainer)
    barrier.together([party(barrier, [1]), party(barrier, [2])])
    assert trainer.threads == {threading.get_ident()}


def test_a_failed_fit_is_its_owners() -> None:
    barrier = JobBarrier(Counting(fails_at=7))
    results = barrier.together([party(barrier, [1, 2]), party(barrier, [5, 7, 9]), party(barrier, [4])])
    assert [type(result) for result in results] == [AbandonedError, FitError, AbandonedError]


def test_when_a_party_refuses_nobody_trains() -> None:
    trainer = Counting()
    barrier = JobBarrier(trainer)

    def refuse() -> list[int]:
        time.sleep(0.02)
        raise ValueError("no")

    results = barrier.together([party(barrier, [1]), refuse, party(barrier, [2])])
    assert trainer.batches == []
    assert [type(result) for result in results] == [AbandonedError, ValueError, AbandonedError]


def test_threads_serve_all_requests_and_end_with_the_barrier() -> None:
    barrier = JobBarrier(Counting())
    before = set(threading.enumerate())
    for _ in range(20):
        assert barrier.together([party(barrier, [1]) for _ in range(4)]) == [[2]] * 4
    threads = set(threading.enumerate()) - before
    assert 4 <= len(threads) <= 8  # one for each party, and as many again if those were not back yet
    del barrier
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_an_interrupt_ends_every_task() -> None:
    class Interrupted:
        description: ClassVar[dict[str, Any]] = {}

        def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
            raise KeyboardInterrupt

    barrier = JobBarrier(Interrupted())
    ended: list[int] = []

    def task() -> None:
        with pytest.raises(AbandonedError):
            barrier.run([1], 2, [0])  # type: ignore[arg-type]
        with pytest.raises(AbandonedError):  # not even a task that goes on waits
            barrier.run([1], 2, [0])  # type: ignore[arg-type]
        ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        barrier.together([task] * 4)
    assert len(ended) == 4
