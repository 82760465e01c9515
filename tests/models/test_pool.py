"""Quick jobs run in the program's own process; the others, and those of users' own models, in the pool."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from limbeck.models import pool
from limbeck.models.jobs import Fit, FitAndVote
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sklearn import SklearnModel
from limbeck.protocol.learning import FitError

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 5), dtype=np.float32), np.arange(60) % 3


class Own(GaussianNB):  # type: ignore[misc]
    """A user's model."""


def fits(model: Any, count: int = 6) -> list[FitAndVote]:
    return [FitAndVote(model, X[i : i + 40], Y[i : i + 40], X) for i in range(count)]


def votes(trainer: PoolTrainer, jobs: Sequence[Any]) -> list[list[int]]:
    return [found.tolist() for found in trainer.run(jobs, 3, range(len(jobs)))]


@pytest.mark.parametrize("name", ["naive-bayes", "decision-tree", "logistic-regression"])
@pytest.mark.parametrize("quick", [0.0, 1e-4, 1e9])
def test_results_do_not_depend_on_where_jobs_run(name: str, quick: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, some or all of the jobs run here."""
    monkeypatch.setattr(pool, "QUICK", quick)
    model = model_from({"name": name})
    assert votes(PoolTrainer(2), fits(model)) == votes(PoolTrainer(1), fits(model))


def test_quick_jobs_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over: list[int] = []

    class Counting(pool.Parallel):  # type: ignore[misc, name-defined]
        def __call__(self, tasks: Any) -> Any:
            tasks = list(tasks)
            handed_over.append(len(tasks))
            return super().__call__(tasks)

    monkeypatch.setattr(pool, "Parallel", Counting)
    monkeypatch.setattr(pool, "QUICK", 1e9)
    PoolTrainer(2).run(fits(model_from({"name": "naive-bayes"})), 3, range(6))
    assert sum(handed_over) == 0
    monkeypatch.setattr(pool, "MAX_QUICK_VALUES", 100)
    PoolTrainer(2).run(fits(model_from({"name": "naive-bayes"})), 3, range(6))
    assert sum(handed_over) == 6


def test_only_models_of_scikit_learn_run_here() -> None:
    """Others might take long, or end their process."""
    assert pool._is_of_sklearn(Fit(model_from({"name": "logistic-regression"}), X, Y))
    assert not pool._is_of_sklearn(Fit(SklearnModel(Own()), X, Y))
    assert not pool._is_of_sklearn(Fit(SklearnModel(make_pipeline(Own())), X, Y))
    assert not pool._is_of_sklearn(Fit(model_from({"name": "lightgbm"}), X, Y))


@pytest.mark.parametrize("broken", [0, 4])
def test_a_job_that_fails_here_is_named(broken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "QUICK", 1e9)
    jobs: list[Any] = fits(model_from({"name": "naive-bayes"}))
    jobs[broken] = Fit(jobs[broken].model, X[:0], Y[:0])
    with pytest.raises(FitError, match="no row has a label") as error:
        PoolTrainer(2).run(jobs, 3, range(6))
    assert error.value.index == broken
