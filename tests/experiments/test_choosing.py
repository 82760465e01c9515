"""The algorithm of an experiment that names none."""

from pathlib import Path
from typing import Any

import pytest

import limbeck as lb
from limbeck.errors import LimbeckError
from limbeck.experiments.choosing import with_algorithm
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.plan import plan

DATA: dict[str, Any] = {"data": {"name": "iris", "parties": 2, "public": 40, "test": 0.2}}
FOREST, CNN, OTHER = {"name": "random-forest"}, {"name": "cnn"}, {"name": "torch-mlp"}


@pytest.mark.parametrize(
    ("table", "chosen"),
    [
        ({"algorithm": {"privacy": {"level": "L2", "epsilon": 1.0}}, "model": FOREST}, "fedridge"),
        ({"algorithm": {"privacy": {"epsilon": 1.0}}, "model": FOREST}, "fedridge"),
        ({"algorithm": {"privacy": {"level": "L1", "epsilon": 1.0}}}, "fedvote"),
        ({}, "fedridge"),
        ({"algorithm": {"privacy": {"level": "L0"}}}, "fedridge"),
        ({"model": FOREST}, "fedvote"),
        ({"model": CNN}, "fedvote"),
        ({"model": CNN, "party": [{"index": 0, "model": OTHER}]}, "fedmd"),
        ({"model": CNN, "party": [{"index": 0, "model": FOREST}]}, "fedvote"),
        ({"model": FOREST, "data": {"task": "regression"}}, "fedkd"),
        ({"algorithm": {"privacy": {"level": "L1", "epsilon": 1.0}}, "data": {"range": [0, 1]}}, "fedridge"),
        ({"algorithm": {"name": "solo"}}, "solo"),
    ],
)
def test_it_depends_on_the_level_or_on_the_models(table: dict[str, Any], chosen: str) -> None:
    found, notes = with_algorithm(table)
    assert found["algorithm"]["name"] == chosen
    assert bool(notes) == ("name" not in table.get("algorithm", {}))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"party": 5}, "party"),
        ({"model": {"name": {"a": 1}}}, "model"),
        ({"model": 5}, "model"),
        ({"algorithm": 5}, "algorithm"),
        ({"algorithm": {"privacy": {"level": {"a": 1}}}}, "level"),
        ({"algorithm": {"privacy": 5}}, "privacy"),
        ({"party": [{"index": 0, "model": {"name": ["cnn"]}}]}, "party"),
    ],
)
def test_a_value_of_another_type_is_named(changes: dict[str, Any], key: str) -> None:
    table, _ = with_algorithm({**DATA, **changes})
    with pytest.raises(LimbeckError, match=rf"^x\.toml: [^\n]*{key}[^\n]*$"):
        check_table(Experiment, table, "x.toml")


@pytest.mark.slow
def test_a_file_without_an_algorithm_runs(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[data]\nname = "iris"\nparties = 2\npublic = 40\ntest = 0.2\n')
    assert lb.run_file(file, processes=1).record.algorithm == "fedridge"
    private = lb.run_file(file, ["algorithm.privacy.epsilon=5.0"], processes=1).record
    assert private.algorithm == "fedridge"
    assert private.epsilon["server"] == pytest.approx(5.0, abs=0.1)
    level = ["algorithm.privacy.epsilon=5.0", "algorithm.privacy.level=L1"]
    assert lb.run_file(file, level, processes=1).record.algorithm == "fedvote"
    assert [line.method for line in plan(file, ["solo"]).lines] == ["fedridge", "solo"]
    swept = plan(file, over=["algorithm.privacy.epsilon=1.0,3.0"])
    assert [run.experiment.algorithm.level for line in swept.lines for run in line.runs[:1]] == ["L2", "L2"]
