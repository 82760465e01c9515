"""Several labels a row and numbers between organisations: arrays and tables, with noise and without."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limbeck as lb
from direct_parties import IRIS, DirectConsortium
from limbeck.consortium.checking import check
from limbeck.consortium.coordinator import begin
from limbeck.consortium.experiment import RunConfiguration, prepare_run
from limbeck.consortium.joining import read_join
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.experiments.config import check_table
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Task

COLUMNS = ("sepal width", "petal length", "petal width")
SEVERAL = np.stack([IRIS.y == 0, IRIS.y > 0, IRIS.x[:, 0] > 5.8], axis=1).astype(np.int8)
L2 = 'name = "fedridge"\nprivacy = { level = "L2", epsilon = 8.0 }'
L0 = 'name = "fedridge"'
EXPERIMENT = """seed = 3
noise = "simulated"
deadline = 0.3
[data]
{data}
[model]
name = "decision-tree"
[algorithm]
{algorithm}
"""


def own_rows(name: str) -> Array:
    return np.arange(1 + "abc".index(name), 150, 5)


class Arrays(DirectConsortium):
    """Parties whose arrays have several labels a row; each does not know one class."""

    def write_rows(self, name: str) -> None:
        rows, y = own_rows(name), SEVERAL.copy()
        y[:, "abc".index(name)] = -1
        self.put_rows(name, IRIS.x[rows], y[rows])


class Tables(DirectConsortium):
    """Parties with CSV files that have a numeric target, and a missing value."""

    suffix = ".csv"

    def write_public(self, folder: Path) -> None:
        self.write(folder / "public.csv", np.arange(0, 150, 5), with_target=False)

    def write_rows(self, name: str) -> None:
        self.write(self.home / name / "private.csv", own_rows(name))

    def write(self, path: Path, rows: Array, with_target: bool = True, wrong: str = "") -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*COLUMNS, *(["length"] if with_target else [])])
            for place, row in enumerate(rows):
                values = [*(f"{value:.2f}" for value in IRIS.x[row, 1:]), *([f"{IRIS.x[row, 0]:.2f}"] * with_target)]
                writer.writerow([*values[:-1], wrong] if wrong and place == 3 else values)


def started(kind: type[DirectConsortium], tmp_path: Path, patched: Any, data: str, algorithm: str) -> Any:
    found = kind(tmp_path, patched)
    file = found.folder.path / "experiment.toml"
    file.write_text(EXPERIMENT.format(data=data, algorithm=algorithm))
    found.admit("a", "b", "c")
    return found


ARRAYS = 'public = "public.npz"\ntask = "multilabel"\nclasses = ["setosa", "other", "long"]'
TABLES = 'public = "public.csv"\nlabel = "length"\nrange = [4.0, 8.0]'


@pytest.mark.parametrize("algorithm", [L0, L2, 'name = "fedkd"\nmechanism = "none"', 'name = "fedvote"'])
def test_arrays_of_several_labels_a_row(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = started(Arrays, tmp_path, monkeypatch, ARRAYS, algorithm)
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)
    for path in (
        consortium.folder.path / "runs" / "experiment-1" / "model.onnx",
        next((consortium.home / "a" / "models").iterdir()),
    ):
        model = lb.load(path)
        assert model.task == Task("multilabel")
        assert model.classes_.tolist() == ["setosa", "other", "long"]
        labels, shares = model.predict(IRIS.x), model.predict_proba(IRIS.x)
        assert labels.shape == shares.shape == (150, 3)
        if "epsilon" not in algorithm:
            assert (labels[:, :2] == SEVERAL[:, :2]).mean() > 0.9
    if "epsilon" in algorithm:
        assert [what for _, _, what in consortium.released("a")] == ["noisy sums"]


def test_it_is_the_run_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = started(Arrays, tmp_path, monkeypatch, ARRAYS, L0)
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)
    held = [np.load(consortium.home / name / "private.npz") for name in "abc"]
    parties = [(each["x_train"], each["y_train"]) for each in held]
    known = lb.run(lb.FedRidge(), parties, IRIS.x[::5], "decision-tree", seed=3, classes=["setosa", "other", "long"])
    assert known.model is not None
    assert consortium.model("experiment-1") == known.model.onnx


@pytest.mark.parametrize("algorithm", [L0, L2, 'name = "fedkd"\nmechanism = "none"'])
def test_tables_with_a_numeric_target(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = started(Tables, tmp_path, monkeypatch, TABLES, algorithm)
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)
    model = lb.load(next((consortium.home / "b" / "models").iterdir()))
    assert model.task == Task("regression", 4.0, 8.0)
    found = model.predict(consortium.home / "a" / "public.csv")
    assert ((found >= 4) & (found <= 8)).all()
    if "epsilon" not in algorithm:
        assert np.abs(found - IRIS.x[::5, 0]).mean() < 0.5
    assert read_join(consortium.home / "b" / "join.json").task == Task("regression", 4.0, 8.0)
    if "epsilon" in algorithm:
        assert [what for _, _, what in consortium.released("a")] == ["noisy sums"]


@pytest.mark.parametrize("wrong", ["nan", "inf", "", "long"])
def test_a_target_that_is_no_number_is_refused_on_the_machine_of_its_owner(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = started(Tables, tmp_path, monkeypatch, TABLES, L2)
    consortium.write(consortium.home / "a" / "private.csv", own_rows("a"), wrong=wrong or " ")
    with pytest.raises(LimbeckError, match=r"private\.csv.*'length'|private\.csv: .*row 3"):
        check(PartyFolder(consortium.home / "a"))


def test_targets_outside_of_the_range_are_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = TABLES.replace("4.0, 8.0", "5.0, 6.0")
    consortium = started(Tables, tmp_path, monkeypatch, data, L2)
    y = PartyFolder(consortium.home / "a").private().y
    assert y.min() == 0.0
    assert y.max() == 1.0
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)


def test_a_server_with_another_range_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = started(Tables, tmp_path, monkeypatch, TABLES, L2)
    file = consortium.folder.path / "experiment.toml"
    file.write_text(file.read_text().replace("8.0]", "9.0]"))
    with pytest.raises(
        LimbeckError, match=r"the server has another (schema|kind or range of labels) than the join file"
    ):
        begin(consortium.folder, file, print)


def test_labels_of_another_kind_are_refused_by_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = started(Arrays, tmp_path, monkeypatch, ARRAYS, L2)
    for y, complaint in (
        (IRIS.y, r"y_train has the shape \(150,\), which is not for task = \"multilabel\""),
        (SEVERAL + 1, "with several labels a row, every label is 1"),
        (SEVERAL[:, :2], r"private\.npz holds the class '0'; the consortium's are setosa, other, long"),
    ):
        consortium.put_rows("a", IRIS.x, y)
        with pytest.raises(LimbeckError, match=complaint):
            check(PartyFolder(consortium.home / "a"))


@pytest.mark.parametrize(
    ("data", "algorithm", "complaint"),
    [
        ({"task": "regression"}, {}, r"range is missing: task = \"regression\" needs the public range"),
        ({"task": "multilabel"}, {}, "classes is missing: list all classes, in order"),
        ({"range": [1, 1], "label": "t"}, {}, r"range = \[1, 1\]"),
        ({"range": [0, 1], "task": "multiclass", "classes": ["a", "b"]}, {}, "range is for task"),
        ({"range": [0, 1], "label": ["a", "b"]}, {}, "label: several columns are several labels a row"),
        ({"label": ["a", "b"], "task": "regression", "range": [0, 1]}, {}, "label: several columns"),
        ({"range": [0, 1], "label": "t", "classes": ["a", "b"]}, {}, "classes: a numeric target has one name"),
        ({"label": ["a", "b"], "classes": ["a"]}, {}, "these are the classes: a, b"),
        ({"label": ["a", "b"]}, {"name": "fedkt"}, 'fedkt is for task = "multiclass", not "multilabel"'),
        ({"label": "t", "range": [0, 1]}, {"name": "fedvote"}, "fedvote is for task"),
        ({"label": ["a", "b"]}, {"name": "fedkd", "temperature": 2.0}, "temperature is for one class a row"),
    ],
)
def test_wrong_experiments_are_refused(data: Any, algorithm: Any, complaint: str) -> None:
    table = {"data": {"public": "p.csv", **data}, "algorithm": {"name": "fedridge", **algorithm}}
    with pytest.raises(LimbeckError, match=complaint):
        check_table(RunConfiguration, table, "experiment.toml")


def test_secure_noise_adds_noise_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    quiet = 'name = "fedridge"\nprivacy = { level = "L2", mechanism = "gaussian", sigma = 1e-7 }'
    consortium = Arrays(tmp_path, monkeypatch)
    file = consortium.folder.path / "experiment.toml"
    file.write_text(EXPERIMENT.format(data=ARRAYS, algorithm=quiet).replace("simulated", "secure"))
    consortium.admit("a", "b", "c", simulation=False)
    begin(consortium.folder, file, print)
    held = [np.load(consortium.home / name / "private.npz") for name in "abc"]
    algorithm = lb.FedRidge(privacy=Privacy("L2", "gaussian", sigma=1e-7))
    parties = [(each["x_train"], each["y_train"]) for each in held]
    given: dict[str, Any] = {"seed": 3, "noise": "simulated", "task": "multilabel"}
    known = lb.run(algorithm, parties, IRIS.x[::5], "decision-tree", **given).model
    assert known is not None
    model = lb.load(consortium.folder.path / "runs" / "experiment-1" / "model.onnx")
    assert np.abs(model.predict_proba(IRIS.x) - known.predict_proba(IRIS.x)).max() < 1e-3
    assert prepare_run(file).terms(3).task == Task("multilabel")
