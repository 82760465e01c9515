"""The first line of a run: right where the table is right, and no traceback where it is not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.experiments.headline import NETWORKS, has_networks, has_only_forests, headline, models_in
from limbeck.experiments.overrides import changed_by, override
from limbeck.models import named

TABLES: list[tuple[dict[str, Any], str, list[str]]] = [
    ({}, "e.toml: a method that suits it on files of the parties, random-forest", ["random-forest"]),
    (
        {"party": [{"data": "a.csv"}, {"data": "b.csv", "model": {"name": "svm"}}], "algorithm": {"name": "fedmd"}},
        "e.toml: fedmd on files of the parties, 2 parties, random-forest and svm",
        ["random-forest", "svm"],
    ),
    (
        {"data": {"path": "rows.csv", "parties": 4}, "model": {"name": "knn"}, "server": {"model": {"name": "mlp"}}},
        "e.toml: a method that suits it on rows.csv, 4 parties, knn and mlp",
        ["knn", "mlp"],
    ),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "model", "data", "x"]), inner),
)


@pytest.mark.parametrize(("table", "line", "models"), TABLES)
def test_the_line_names_method_rows_parties_and_models(table: dict[str, Any], line: str, models: list[str]) -> None:
    assert headline(Path("e.toml"), table) == line
    assert models_in(table) == models


@given(st.dictionaries(st.sampled_from(["data", "party", "model", "server", "algorithm", "seed"]), VALUES))
def test_any_table_has_a_line(table: dict[str, Any]) -> None:
    assert headline(Path("e.toml"), table).startswith("e.toml: ")
    assert has_only_forests(table) in (True, False)


def test_only_forests_need_no_processes() -> None:
    assert has_only_forests({"model": {"name": "extra-trees", "n_estimators": 3}})
    assert not has_only_forests({"party": [{"index": 1, "model": {"name": "svm"}}]})
    assert not has_only_forests({"model": {"name": "python:mine:forest"}})


def test_settings_change_the_line_as_they_change_the_run() -> None:
    table = {"data": {"name": "iris"}, "algorithm": {"name": "fedvote"}}
    settings = ["data.parties=3", "model.name=svm"]
    assert changed_by(table, settings) == override(table, settings)[0]
    assert headline(Path("e.toml"), changed_by(table, settings)) == "e.toml: fedvote on iris, 3 parties, svm"


def test_the_line_needs_no_library() -> None:
    heavy = "numpy", "scipy", "sklearn", "onnx", "pydantic", "joblib", "pandas"
    program = (
        f"import limbeck.experiments.headline, limbeck.experiments.overrides, sys; print({heavy} & sys.modules.keys())"
    )
    program = program.replace(str(heavy), f"set({heavy})")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"


def test_networks_are_known_by_their_names() -> None:
    assert named.NETWORKS.keys() | named.TEXT_NETWORKS.keys() == NETWORKS
    assert has_networks({"party": [{"index": 1, "model": {"name": "cnn"}}]})
    assert not has_networks({"model": {"name": "svm"}})


def test_the_line_is_one_line_for_any_file() -> None:
    line = headline(Path("e.toml"), {"data": {"name": "\u001b[31mred\nnewline\u202e"}, "model": []})
    assert line == "e.toml: a method that suits it on ?[31mred?newline?"
