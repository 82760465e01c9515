"""Forests in threads: the same as in processes to the bit, in a backend that the caller chose, with errors that name the job."""

from typing import Any

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from limbeck.data.sets import load
from limbeck.models.jobs import Fit, FitAndScore
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.regression import SklearnRegressor
from limbeck.models.tasks import for_task
from limbeck.models.threads import ThreadTrainer
from limbeck.models.trainers import Training, trainer_for
from limbeck.protocol.learning import FitError

FOREST, EXTRA, SVM = (model_from({"name": name}) for name in ("random-forest", "extra-trees", "svm"))


def jobs() -> list[Any]:
    data = load("digits")
    parts = [slice(start, start + 60) for start in range(0, 600, 60)]
    made = [Fit(FOREST, data.x[part], data.y[part]) for part in parts]
    return [*made, *(FitAndScore(EXTRA, data.x[part], data.y[part], data.x[600:]) for part in parts)]


def test_threads_give_the_same_as_processes_and_as_one_after_the_other() -> None:
    threads, pool, one = (
        trainer.run(jobs(), 10, range(20))
        for trainer in (ThreadTrainer(PoolTrainer(2)), PoolTrainer(2), ThreadTrainer(PoolTrainer(1)))
    )
    for other in (pool, one):
        assert all(np.array_equal(a, b) for a, b in zip(threads, other, strict=True))


@pytest.mark.parametrize(
    ("models", "processes", "kind"),
    [([FOREST, EXTRA], 2, ThreadTrainer), ([FOREST], 3, PoolTrainer), ([FOREST, SVM], 2, PoolTrainer)],
)
def test_forests_on_two_cores_are_fitted_in_threads(models: list[Any], processes: int, kind: type) -> None:
    trainer = trainer_for(Training(), models, processes)
    assert isinstance(trainer, kind)
    assert trainer.description["trainer"] == ("threads" if kind is ThreadTrainer else "pool")


def test_a_backend_that_the_caller_chose_runs_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("limbeck.models.threads.parallel_config", lambda *_, **__: seen.append("threads"))
    with joblib.parallel_config("sequential"):
        assert len(ThreadTrainer(PoolTrainer()).run(jobs()[:3], 10, range(3))) == 3
    assert not seen


def test_an_error_names_the_job_and_leaves_linear_algebra_its_threads() -> None:
    before = threadpool_info()
    data = load("digits")
    bad = Fit(model_from({"name": "random-forest", "max_features": 999}), data.x[:50], np.full(50, np.nan))
    with pytest.raises(FitError, match="cannot fit random-forest to 50 rows") as raised:
        ThreadTrainer(PoolTrainer(2)).run([*jobs()[:5], bad], 10, range(6))
    assert raised.value.index == 5
    assert threadpool_info() == before


def test_regressors_are_forests_too() -> None:
    regressor = for_task(FOREST, "regression")
    assert isinstance(regressor, SklearnRegressor)
    assert isinstance(trainer_for(Training(), [regressor], 2), ThreadTrainer)
