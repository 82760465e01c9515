"""The pool: same results with any number of processes, one core a fit, failures reported."""

import os
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from joblib._parallel_backends import ThreadingBackend
from joblib.parallel import register_parallel_backend
from sklearn.tree import DecisionTreeClassifier

from factories import WhoAmI
from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit, FitAndVote
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.models.sklearn import SklearnModel
from limbeck.protocol.learning import FitError

IRIS = load("iris")


def fits(count: int) -> list[Fit]:
    return [Fit(model_from({"name": "random-forest", "n_estimators": 5}), IRIS.x, IRIS.y)] * count


def test_results_are_the_same_with_any_number_of_processes() -> None:
    seeds = list(range(6))
    alone, two = (PoolTrainer(processes).run(fits(6), 3, seeds) for processes in (1, 2))
    assert alone == two
    assert len(set(alone)) == 6


def test_votes_come_back_instead_of_models() -> None:
    model = model_from({"name": "random-forest", "n_estimators": 5})
    [votes] = PoolTrainer(1).run([FitAndVote(model, IRIS.x, IRIS.y, IRIS.x[:7])], 3, [0])
    [packed] = PoolTrainer(1).run([Fit(model, IRIS.x, IRIS.y)], 3, [0])
    assert np.array_equal(votes, PackedModel(packed).vote(IRIS.x[:7]))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_fit_has_one_core(processes: int) -> None:
    where = PoolTrainer(processes).run([WhoAmI()] * 4, 3, [0] * 4)
    assert {threads for _, threads in where} == {1}
    assert (os.getpid() in {pid for pid, _ in where}) == (processes == 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failed_fit_states_which_and_why(processes: int) -> None:
    bad = Fit(model_from({"name": "python:factories:small_tree", "depth": -1}), IRIS.x, IRIS.y)
    with pytest.raises(FitError, match=r"cannot fit .*small_tree to 150 rows: The 'max_depth' parameter") as failure:
        PoolTrainer(processes).run([*fits(2), bad, *fits(1)], 3, [0] * 4)
    assert failure.value.index == 2


@pytest.mark.slow
def test_a_killed_process_is_reported(tests_on_path: None) -> None:
    deadly = Fit(model_from({"name": "python:factories:deadly"}), IRIS.x, IRIS.y)
    with pytest.raises(LimbeckError, match="a training process was killed"):
        PoolTrainer(2).run([deadly, deadly], 3, [0, 0])
    assert len(PoolTrainer(2).run(fits(2), 3, [0, 1])) == 2


def test_a_model_that_other_processes_cannot_load_is_reported() -> None:
    import sys
    import types

    module = types.ModuleType("only_here")
    sys.modules["only_here"] = module
    module.Tree = type("Tree", (DecisionTreeClassifier,), {"__module__": "only_here"})  # type: ignore[attr-defined]
    job = Fit(SklearnModel(module.Tree()), IRIS.x, IRIS.y)
    with pytest.raises(LimbeckError, match="other processes cannot load a model"):
        PoolTrainer(2).run([job, job], 3, [0, 0])


def test_results_can_be_watched_as_they_come() -> None:
    seen: list[int] = []

    def watch(results: Any, total: int) -> Any:
        seen.append(total)
        for result in results:
            seen.append(len(result))
            yield result

    results = PoolTrainer(2, watch).run(fits(3), 3, [0, 1, 2])
    assert seen == [3, *map(len, results)]


def test_the_users_joblib_backend_is_used() -> None:
    """Users of joblib write `with parallel_config(...)`; here with a backend that counts."""
    submitted: list[object] = []

    class Counting(ThreadingBackend):  # type: ignore[misc]
        def submit(self, func: Any, callback: Any = None) -> Any:
            submitted.append(func)
            return super().submit(func, callback)

    register_parallel_backend("counting", Counting)
    with parallel_config("counting", n_jobs=2):
        results = PoolTrainer().run(fits(3), 3, [0, 1, 2])
    assert submitted
    assert results == PoolTrainer(1).run(fits(3), 3, [0, 1, 2])
