"""Fits that runs have in common are done once, and change nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from limbeck.features.sums import SumFeatures
from limbeck.models.caching import CachingTrainer, key_of_job
from limbeck.models.jobs import Fit, FitAndVote, Refit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.rows import Rows

RNG = np.random.default_rng(0)
X, Y = RNG.random((40, 3)).astype(np.float32), np.arange(40) % 2


class Counting:
    """A trainer that counts what it is asked for."""

    description: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.jobs = 0

    def run(self, jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> list[Any]:
        self.jobs += len(jobs)
        return PoolTrainer(1).run(jobs, classes, seeds)


def forest() -> Any:
    return model_from({"name": "random-forest", "n_estimators": 3})


def test_the_same_job_is_done_once_for_all_who_share() -> None:
    counting, cache = Counting(), {}  # type: ignore[var-annotated]
    one, two = CachingTrainer(counting, cache), CachingTrainer(counting, cache)
    first = one.run([Fit(forest(), X, Y), Fit(forest(), X, Y)], 2, [1, 2])
    again = two.run([Fit(forest(), X.copy(), Y.copy())], 2, [2])
    assert counting.jobs == 2
    assert again == first[1:]
    assert first == PoolTrainer(1).run([Fit(forest(), X, Y)] * 2, 2, [1, 2])
    assert 0 < two.seconds < one.seconds


def test_what_differs_in_anything_is_another_job() -> None:
    counting = Counting()
    shared = CachingTrainer(counting)
    changed = X.copy()
    changed[7, 1] += 1e-6
    jobs: list[Any] = [
        Fit(forest(), X, Y),
        Fit(forest(), changed, Y),
        Fit(forest(), X[:39], Y[:39]),
        Fit(forest(), X, 1 - Y),
        Fit(model_from({"name": "random-forest", "n_estimators": 4}), X, Y),
        FitAndVote(forest(), X, Y, X),
        FitAndVote(forest(), X, Y, X[:5]),
    ]
    shared.run(jobs, 2, [0] * len(jobs))
    shared.run(jobs[:1], 2, [1])
    shared.run(jobs[:1], 3, [0])
    assert counting.jobs == len(jobs) + 2


def test_weights_to_start_from_are_part_of_a_job() -> None:
    starts = [b"", b"one", b"other", b"one"]
    keys = [key_of_job(Refit(forest(), X, Y, start), 2, 0, {}) for start in starts]
    assert len(set(keys)) == 3
    assert keys[1] == keys[3]


@dataclass(frozen=True)
class Odd:
    """Its rows are hidden in a tuple, whose text NumPy would shorten."""

    rows: tuple[Any, ...]

    def run(self, classes: int, seed: int) -> float:
        return float(self.rows[0].sum())


def test_what_cannot_be_distinguished_is_not_shared() -> None:
    shared = CachingTrainer(Counting())
    one, two = np.zeros(3000), np.zeros(3000)
    two[1500] = 1
    assert shared.run([Odd((one,)), Odd((two,))], 2, [0, 0]) == [0, 1]
    assert shared.cache == {}


def test_what_is_shared_is_nobodys_to_change() -> None:
    [votes] = CachingTrainer(Counting()).run([FitAndVote(forest(), X, Y, X)], 2, [0])
    with pytest.raises(ValueError, match="read-only"):
        votes[0] = 1


def test_what_took_longest_is_cached_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of weights must not fill the memory, nor push out the start that all of them share."""
    job = Fit(model_from({"name": "decision-tree", "max_depth": 1}), X, Y)
    size = len(job.run(2, 0))
    monkeypatch.setattr("limbeck.models.caching.MAX_CACHE_BYTES", 3 * size)
    long_ago = {"start": (bytes(size), 1e6), "round 1": (bytes(size), 1e-9), "round 2": (bytes(size), 1e-8)}
    shared = CachingTrainer(Counting(), dict(long_ago))
    shared.run([job], 2, [0])
    assert len(shared.cache) == 3
    assert "start" in shared.cache
    assert "round 1" not in shared.cache


def test_jobs_with_rows_are_shared_if_the_rows_are_the_same() -> None:
    rows = Rows(X, Y)
    same, known = Rows(X.copy(), Y.copy()), dict[tuple[object, ...], str]()
    other = Rows(X, (Y + 1) % 2)
    keys = [key_of_job(SumFeatures("fourier", b"map", each), 2, 0, known) for each in (rows, same, other)]
    assert keys[0] is not None
    assert keys[0] == keys[1] != keys[2]
