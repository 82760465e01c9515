"""Class weights in experiment files: how they reach the rows, and what is wrong with them."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.data.weights import factors_of
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.run import federation_of, run_file
from limbeck.experiments.splitting import split_rows

FILE = """
[data]
name = "iris"
parties = 2
public = 30
test = 30
{data}
[model]
name = "decision-tree"
[algorithm]
name = "fedridge"
{algorithm}
"""


def made(data: str = "", algorithm: str = "") -> Any:
    table = tomllib.loads(FILE.format(data=data, algorithm=algorithm))
    experiment = check_table(Experiment, table, "experiment.toml")
    return federation_of(experiment, table, split_rows(experiment))


def test_rows_get_the_weight_of_their_class() -> None:
    found = made("class_weights = { setosa = 0.5, virginica = 2.0 }")
    for rows in found.private:
        assert (rows.weight == np.array([0.25, 0.5, 1.0])[rows.y]).all()
    assert all(rows.weight is None for rows in made().private)


def test_balanced_weights_are_those_of_all_parties_rows() -> None:
    found = made('class_weights = "balanced"')
    labels = [rows.y for rows in found.private]
    factors = factors_of("balanced", found.classes.tolist(), "multiclass", False, labels)
    assert factors is not None
    assert all((rows.weight == factors[rows.y]).all() for rows in found.private)


@pytest.mark.parametrize(
    ("data", "algorithm", "problem"),
    [
        (
            "class_weights = { virginic = 0.5 }",
            "",
            "class_weights: there is no class 'virginic'; did you mean 'virginica'",
        ),
        (
            "class_weights = { setosa = -0.5 }",
            "",
            "experiment.toml: data.class_weights: .*the weight of 'setosa' is -0.5",
        ),
        ("class_weights = { setosa = nan }", "", "the weight of 'setosa' is nan; give a finite number"),
        ("class_weights = [1, 2, 3]", "", "class_weights: write { no = 0.2, yes = 1.0 }"),
        (
            'class_weights = "balanced"',
            'privacy = { level = "L2", epsilon = 3.0 }',
            'class_weights = "balanced" is computed from private labels',
        ),
    ],
)
def test_wrong_weights_get_one_clear_line(data: str, algorithm: str, problem: str) -> None:
    with pytest.raises(LimbeckError, match=problem) as caught:
        made(data, algorithm)
    assert "\n" not in str(caught.value)


def test_a_file_with_class_weights_runs_at_a_private_level(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        FILE.format(data="class_weights = { versicolor = 0.01 }", algorithm='privacy = { level = "L2", epsilon = 1e3 }')
    )
    plain = FILE.format(data="", algorithm='privacy = { level = "L2", epsilon = 1e3 }')
    result = run_file(file)
    assert result.record.config["data"]["class_weights"] == {"versicolor": 0.01}
    file.write_text(plain)
    other = run_file(file)
    assert result.record.epsilon == other.record.epsilon
    assert (result.accuracy or 1) < (other.accuracy or 0)
