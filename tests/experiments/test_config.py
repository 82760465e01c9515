"""The file's schema: what is right is understood, what is wrong is an error of one line that names the key."""

import re
from pathlib import Path
from typing import Any

import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.solo import Solo
from limbeck.data.draw import Draw
from limbeck.data.splits import ByGroup, Dirichlet, Iid
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.overrides import override

WHOLE = """
seed = 3
[data]
name = "digits"
parties = 4
split = { kind = "dirichlet", beta = 1, min_rows = 5 }
public = 0.125
test = 100
[model]
name = "random-forest"
n_estimators = 7
[[party]]
index = 3
model = { name = "xgboost", n_estimators = 5 }
[server]
model = { name = "svm" }
[algorithm]
name = "fedkt"
subsets = 3
"""
SMALL: dict[str, Any] = {"data": {"name": "iris"}, "model": {"name": "svm"}, "algorithm": {"name": "solo"}}


def changed(**tables: Any) -> dict[str, Any]:
    return {**SMALL, **tables}


def test_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(WHOLE)
    experiment = check_table(Experiment, read_toml(file), str(file))
    assert experiment.seed == 3
    assert experiment.data.split == Dirichlet(beta=1.0, min_rows=5)
    assert (experiment.data.public, experiment.data.test) == (Draw(0.125), Draw(100))
    assert experiment.algorithm == FedKT(subsets=3)
    assert [experiment.model_of(party).name for party in range(4)] == ["random-forest"] * 3 + ["xgboost"]
    assert experiment.server_model.name == "svm"


def test_defaults() -> None:
    experiment = check_table(Experiment, SMALL, "e.toml")
    assert (experiment.seed, experiment.data.parties, experiment.data.split) == (0, 10, Iid())
    assert experiment.algorithm == Solo()
    assert experiment.server_model is experiment.model


@pytest.mark.parametrize(
    ("form", "draw"),
    [
        ({"from": "test", "share": 0.5}, Draw(0.5, "test")),
        ({"from": "test", "rows": 5000}, Draw(5000, "test")),
        ({"name": "other", "rows": 7}, Draw(7, "train", "other")),
        ({"name": "other", "share": 0.1}, Draw(0.1, "train", "other")),
    ],
)
def test_where_rows_come_from(form: dict[str, Any], draw: Draw) -> None:
    experiment = check_table(Experiment, changed(data={"name": "iris", "public": form}), "e.toml")
    assert experiment.data.public == draw


def test_a_group_split() -> None:
    table = changed(data={"name": "iris", "split": {"kind": "by-group", "group": "writer"}})
    assert check_table(Experiment, table, "e.toml").data.split == ByGroup("writer")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (changed(sed=1), "e.toml: unknown key 'sed'; did you mean 'seed'?"),
        (changed(seed=-1), "e.toml: seed: Input should be greater than or equal to 0"),
        (changed(seed="a"), "e.toml: seed: Input should be a valid integer"),
        ({"model": {"name": "svm"}, "algorithm": {"name": "solo"}}, "e.toml: data: is missing"),
        (changed(data={"name": "iris", "partis": 3}), "e.toml: data: unknown key 'partis'; did you mean 'parties'?"),
        (changed(data={"name": "iris", "parties": 0}), "e.toml: data.parties: Input should be greater than or equal to 1"),
        (changed(data={"name": "iris", "parties": 2.0}), "e.toml: data.parties: Input should be a valid integer"),
        (changed(data={"name": "iris", "public": "all"}), "e.toml: data.public: 'all' is not a number of rows"),
        (changed(data={"name": "iris", "public": True}), "e.toml: data.public: True is not a number of rows"),
        (changed(data={"name": "iris", "public": {"from": "test"}}), "e.toml: data.public: give either share or rows"),
        (changed(data={"name": "iris", "test": {"from": "tst", "rows": 3}}), "e.toml: data.test.from: Input should be 'test'"),
        (changed(data={"name": "iris", "test": {"nam": "x", "rows": 3}}), "e.toml: data.test: unknown key 'nam'"),
        (changed(data={"name": "iris", "split": {"kind": "dirichlt"}}), "e.toml: data.split: unknown kind 'dirichlt'; did you mean 'dirichlet'?"),
        (changed(data={"name": "iris", "split": {"kind": "dirichlet", "bta": 1}}), "e.toml: data.split: unknown key 'bta'; did you mean 'beta'?"),
        (changed(data={"name": "iris", "split": {"kind": "dirichlet", "beta": "x"}}), "e.toml: data.split: beta = 'x': Input should be a valid number"),
        (changed(data={"name": "iris", "split": {"kind": "dirichlet", "beta": 0}}), "e.toml: data.split: beta = 0: Input should be greater than 0"),
        (changed(data={"name": "iris", "split": {"kind": "by-group"}}), "e.toml: data.split: group is missing"),
        (changed(data={"name": "iris", "split": "iid"}), "e.toml: data.split: needs a table with a kind"),
        (changed(model={"name": "svmm"}), "e.toml: model: unknown model 'svmm'; did you mean 'svm'?"),
        (changed(model={"name": "svm", "c": 1}), "e.toml: model: model 'svm' has no parameter 'c'"),
        (changed(model={"C": 1}), "e.toml: model: needs a table with a name"),
        (changed(party=[{"index": 10, "model": {"name": "svm"}}]), "e.toml: [[party]] index = 10, but there are 10 parties"),
        (changed(party=[{"index": 1, "model": {"name": "svm"}}] * 2), "e.toml: [[party]] index = 1 occurs twice"),
        (changed(party=[{"index": 1, "model": {"name": "svmm"}}]), "e.toml: [[party]] index = 1: model: unknown model 'svmm'"),
        (changed(server={"modell": {"name": "svm"}}), "e.toml: server: unknown key 'modell'; did you mean 'model'?"),
        (changed(algorithm={"name": "fedk"}), "e.toml: algorithm: unknown algorithm 'fedk'; did you mean 'fedkt'?"),
        (changed(algorithm={"name": "fedkt", "subset": 3}), "e.toml: algorithm: unknown key 'subset'; did you mean 'subsets'?"),
        (changed(algorithm={"name": "fedkt", "subsets": "3"}), "e.toml: algorithm: subsets = '3': Input should be a valid integer"),
        (changed(algorithm={"name": "fedkt", "subsets": 0}), "e.toml: algorithm: subsets = 0: Input should be greater than or equal to 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_in_one_line(table: dict[str, Any], line: str) -> None:
    with pytest.raises(LimbeckError) as refusal:
        check_table(Experiment, table, "e.toml")
    assert str(refusal.value).startswith(line)
    assert "\n" not in str(refusal.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("a = ")
    (tmp_path / "noise.toml").write_bytes(b"\xff\xfe\x00")
    for name, line in [("none.toml", "No such file"), ("bad.toml", "is not TOML"), ("noise.toml", "not UTF-8 text")]:
        with pytest.raises(LimbeckError, match=line) as refusal:
            read_toml(tmp_path / name)
        assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("algorithm.privacy={level='L1', gamma=0.1, delta=1.0}", "privacy: delta = 1"),
        ("algorithm.privacy={level='L3', gamma=0.1}", "algorithm: privacy: level"),
        ("algorithm.privacy={levl='L1'}", "did you mean 'level'"),
        ("budget={epsilon=0.0}", "budget"),
        ("budget={epsilon=1.0, observer='nobody'}", "budget: observer"),
        ("noise='quiet'", "noise"),
        ("data.classes=['a', 'b']", "a named data set has its classes"),
    ],
)
def test_wrong_privacy_is_reported(setting: str, message: str) -> None:
    table: dict[str, Any] = {
        "data": {"name": "iris", "public": 0.3, "test": 0.2},
        "model": {"name": "naive-bayes"},
        "algorithm": {"name": "fedkt"},
    }
    with pytest.raises(LimbeckError, match=message):
        check_table(Experiment, override(table, [setting])[0], "e.toml")


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "examples").glob("*.toml")), ids=lambda file: file.stem
)
def test_every_example_is_right(file: Path) -> None:
    assert check_table(Experiment, read_toml(file), str(file)).parties >= 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": ["digits"]}, "data.name: write the name of a data set, or a list of two or more"),
        ({"name": ["digits", 3]}, "data.name: write the name of a data set, or a list of two or more"),
        ({"name": ["digits", "digits"], "labels": "shared"}, "data.name: a data set is named twice"),
        ({"name": ["digits", "iris"]}, 'several names need labels = "shared"'),
        ({"name": "digits", "labels": "own"}, 'several names need labels = "shared"'),
        ({"name": "digits", "split": {"kind": "iid", "within": 3}}, "data.split: within must name a group"),
    ],
)
def test_several_names_need_their_labels(data: dict[str, Any], message: str) -> None:
    table = {"data": data, "model": {"name": "random-forest"}, "algorithm": {"name": "solo"}}
    with pytest.raises(LimbeckError, match=re.escape(message)):
        check_table(Experiment, table, "mine.toml")
