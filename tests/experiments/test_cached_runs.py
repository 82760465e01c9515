"""The key of a cached run: all that decides the result, and nothing else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cached_experiments import cached_result_of_one_run
from limbeck.errors import LimbeckError
from limbeck.experiments.cached_runs import CachedResult, CachedRun
from limbeck.experiments.config import Experiment, check_table

TABLE: dict[str, Any] = {
    "data": {"name": "iris", "parties": 3, "public": 0.3, "test": 0.2},
    "model": {"name": "naive-bayes"},
    "algorithm": {"name": "fedkt"},
}


def cached(base: Path = Path(), **tables: Any) -> CachedRun:
    table = {**TABLE, **tables}
    return CachedRun(check_table(Experiment, table, "e.toml"), table, base)


def test_defaults_may_be_written_or_not() -> None:
    written = cached(
        algorithm={"name": "fedkt", "partitions": 2, "consistent": True}, server={"model": {"name": "naive-bayes"}}
    )
    assert written.key == cached().key
    assert written.rows_key == cached().rows_key


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"algorithm": {"name": "fedkt", "partitions": 1}},
        {"algorithm": {"name": "solo"}},
        {"model": {"name": "knn"}},
        {"server": {"model": {"name": "knn"}}},
        {"party": [{"index": 1, "model": {"name": "knn"}}]},
        {"data": {**TABLE["data"], "parties": 4}},
        {"data": {**TABLE["data"], "public": 0.2}},
        {"data": {**TABLE["data"], "split": {"kind": "dirichlet", "beta": 0.5}}},
    ],
)
def test_whatever_decides_the_result_changes_the_key(change: dict[str, Any]) -> None:
    assert cached(**change).key != cached().key


def test_rows_are_shared_across_methods_and_models_only() -> None:
    assert cached(algorithm={"name": "solo"}, model={"name": "knn"}).rows_key == cached().rows_key
    assert cached(seed=1).rows_key != cached().rows_key


def test_a_file_counts_by_what_it_holds_not_where_it_lies(tmp_path: Path) -> None:
    keys = []
    for folder, first in (("a", 0.0), ("b", 0.0), ("c", 9.0)):
        x = np.random.default_rng(0).random((30, 2))
        x[0, 0] = first
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "own.npz", x_train=x, y_train=np.arange(30) % 2)
        keys.append(cached(tmp_path / folder, data={"path": "own.npz", "public": 0.3, "test": 0.2}).key)
    assert keys[0] == keys[1] != keys[2]


def test_own_code_counts_by_what_stands_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_model.py").write_text("from sklearn.naive_bayes import GaussianNB as make\n")
    before = cached(model={"name": "python:own_model:make"}).key
    (tmp_path / "own_model.py").write_text("from sklearn.tree import DecisionTreeClassifier as make\n")
    assert cached(model={"name": "python:own_model:make"}).key != before


def test_what_is_stored_comes_back_and_a_changed_file_is_refused() -> None:
    text = cached_result_of_one_run().to_json()
    assert CachedResult.from_json(text, cached_result_of_one_run().key, "f") == cached_result_of_one_run()
    table = json.loads(text)
    table["configuration"]["seed"] = 7
    with pytest.raises(LimbeckError, match="f holds a different configuration"):
        CachedResult.from_json(json.dumps(table), cached_result_of_one_run().key, "f")
    with pytest.raises(LimbeckError, match="f holds a different configuration"):
        CachedResult.from_json(text, "another", "f")
    wrong: list[dict[str, Any]] = [{"more": 1}, {"up": None}, {"epsilon": None}, {"metrics": {"accuracy": "abc"}}]
    for broken in ("", "[]", "{}", "nonsense", *(json.dumps({**json.loads(text), **change}) for change in wrong)):
        with pytest.raises(LimbeckError, match="f is not a cached result"):
            CachedResult.from_json(broken, cached_result_of_one_run().key, "f")
