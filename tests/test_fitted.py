"""`limbeck predict` with a threshold, and `limbeck evaluate`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import limbeck as lb
from program import limbeck

X, Y = load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("fitted")
    names = np.array(["ill", "well"])[Y]
    model = lb.run(lb.Centralized(), [(X[:200], names[:200]), (X[200:300], names[200:300])]).model
    assert model is not None
    model.save(here / "m.onnx")
    np.savez(here / "t.npz", x_train=X[300:], y_train=names[300:])
    return here


def test_a_threshold_changes_the_prediction_column_only(folder: Path) -> None:
    plain, strict, costly = (
        list(csv.reader(limbeck(folder, "predict", "m.onnx", "t.npz", *more).stdout.splitlines()))
        for more in ([], ["--threshold", "0.9"], ["--cost", "1,9"])
    )
    assert [line[1:] for line in plain] == [line[1:] for line in strict]
    assert [line[0] for line in strict[1:]] == [("well" if float(line[2]) >= 0.9 else "ill") for line in plain[1:]]
    assert [line[0] for line in plain] != [line[0] for line in strict]
    assert strict == costly


def test_an_existing_file_is_replaced_only_with_force(folder: Path) -> None:
    (folder / "out.csv").write_text("notes")
    refused = limbeck(folder, "predict", "m.onnx", "t.npz", "-o", "out.csv")
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == ["limbeck: out.csv exists; name another file, or replace it with --force"]
    assert (folder / "out.csv").read_text() == "notes"
    assert limbeck(folder, "predict", "m.onnx", "t.npz", "-o", "out.csv", "--force").returncode == 0
    assert (folder / "out.csv").read_text().startswith("prediction,")


def test_an_evaluation_for_people_and_for_programs(folder: Path) -> None:
    done = limbeck(folder, "evaluate", "m.onnx", "t.npz")
    assert done.returncode == 0, done.stderr
    for text in (
        *("269 rows: ill 24.5 %, well 75.5 %", "positive: well", "95 % interval", "constant predictor"),
        *("sensitivity", "Brier score", "confusion matrix", "calibration: probability of well", "0.9 to 1.0"),
    ):
        assert text in done.stdout
    found = json.loads(limbeck(folder, "evaluate", "m.onnx", "t.npz", "--json", "--cost", "1,9").stdout)
    assert found["threshold"] == 0.9
    assert found["rows"] == 269
    low, high = found["intervals"]["sensitivity"]
    assert low < found["metrics"]["sensitivity"] < high


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "m.onnx", "t.npz", "--threshold", "2"], "threshold = 2: give a probability from 0 to 1"),
        (["predict", "m.onnx", "t.npz", "-o", "t.npz", "--force"], "--out t.npz is a file that is read; name another"),
        (["predict", "m.onnx", "t.npz", "-o", "./m.onnx"], "--out m.onnx is a file that is read; name another one"),
        (["predict", "m.onnx", "t.npz", "--cost", "2"], "--cost: '2' is not two numbers"),
        (["evaluate", "m.onnx", "t.npz", "--threshold", "0.2", "--cost", "1,2"], "give one of them"),
        (["evaluate", "m.onnx", "t.npz", "--label", "y"], "a label column is only for tables"),
        (["evaluate", "t.npz", "t.npz"], "t.npz: not a usable ONNX model"),
        (["evaluate", "m.onnx", "none.npz"], "none.npz"),
    ],
)
def test_bad_input_gets_one_line(folder: Path, arguments: list[str], words: str) -> None:
    done = limbeck(folder, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_how_a_table_is_read_can_be_stated(folder: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra tables is not installed")
    rows = X[300:310]
    text = "\n".join(",".join(f"{value:.6f}" for value in row) + ",well" for row in rows)
    header = ",".join([*(f"c{i}" for i in range(30)), "y"])
    (folder / "plain.csv").write_text(f"{header}\n{text}\n")
    (folder / "new.csv").write_text(f"{header}\n{text}\n".replace(",", ";").replace(".", ","))
    how = ["--reading", "decimal=,", "--reading", "separator=;"]
    plain, comma = (
        json.loads(limbeck(folder, "evaluate", "m.onnx", name, "--label", "y", "--json", *more).stdout)
        for name, more in (("plain.csv", []), ("new.csv", how))
    )
    assert plain["metrics"] == comma["metrics"]
    features = [line.rpartition(";")[0] for line in (folder / "new.csv").read_text().splitlines()]
    (folder / "unlabelled.csv").write_text("\n".join(features) + "\n")
    assert limbeck(folder, "predict", "m.onnx", "unlabelled.csv", *how).stdout.count("\n") == 11
    wrong = limbeck(folder, "predict", "m.onnx", "t.npz", *how).stderr
    assert wrong == "limbeck: t.npz holds arrays: --reading is for tables\n"
