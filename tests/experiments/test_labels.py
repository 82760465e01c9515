"""Several labels a row and numbers in runs: from arrays, tables and named sets, with model files and refusals."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import limbeck as lb
from limbeck.data.schema import Schema, read_schema
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.run import run_experiment
from limbeck.protocol.task import Task
from limbeck.report.predictions import predictions
from program import limbeck

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3)).astype(np.float32)
SEVERAL = np.stack([X[:, 0] > 0, X[:, 1] + X[:, 2] > 0.5], axis=1).astype(int)
NUMBERS = 10 + 5 * X[:, 0] + 0.1 * RNG.normal(size=240)
REAL: dict[str, Any] = {"algorithm": lb.FedRidge(privacy=lb.Privacy("L2", epsilon=4.0))}


def parties(y: Any) -> list[tuple[Any, Any]]:
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(160), 3)]


def run(y: Any, **more: Any) -> Any:
    given = {"algorithm": lb.FedRidge(), "parties": parties(y), "public": X[160:200], "models": "decision-tree", **more}
    return lb.run(**{"test": (X[200:], y[200:]), **given})


def test_a_simulation_finds_the_task_and_the_range() -> None:
    several, numbers = run(SEVERAL), run(NUMBERS)
    assert several.model.task == Task("multilabel")
    assert several.model.classes_.tolist() == ["0", "1"]
    assert several.metrics.class_auc[0] > 0.95
    assert several.metrics.rmse is None
    target = np.r_[NUMBERS[:160], NUMBERS[200:]]
    assert numbers.model.task == Task("regression", target.min(), target.max())
    assert numbers.metrics.r2 > 0.8
    assert numbers.accuracy is None
    for result, task in ((several, "multilabel"), (numbers, "regression")):
        record = json.loads(result.record.to_json())
        assert record["data"]["task"] == task


def test_labels_of_all_parties_count() -> None:
    """The first one's look like classes, and each has fewer rows than would be asked about."""
    mixed = [(X[:80], (X[:80, 0] > 0).astype(int)), (X[80:160], NUMBERS[80:160])]
    assert run(NUMBERS, parties=mixed).model.task.kind == "regression"
    many = [(X[i : i + 40], np.arange(i, i + 40)) for i in range(0, 160, 40)]
    with pytest.raises(LimbeckError, match=r'y holds 160 different whole numbers: give task = "regression" \(or'):
        run(NUMBERS, parties=many, test=None)


def test_parties_may_know_different_classes_and_the_model_knows_all() -> None:
    held = [(x, y.copy()) for x, y in parties(SEVERAL)]
    held[0][1][:, 0], held[1][1][:, 1] = -1, -1
    for algorithm in (lb.FedRidge(), lb.FedKD(mechanism="none"), lb.FedVote()):
        assert (
            min(run(SEVERAL, algorithm=algorithm, parties=held, server_model="random-forest").metrics.class_auc) > 0.8
        )
    missing = [(x, np.where(y == -1, np.nan, y)) for x, y in held]
    assert run(SEVERAL, parties=held).model.onnx == run(SEVERAL, parties=missing).model.onnx


@pytest.mark.parametrize("limits", [(0.0, 20.0), (8.0, 12.0)])
def test_targets_are_clipped_to_the_range(limits: tuple[float, float]) -> None:
    result = run(NUMBERS, limits=limits)
    clipped = run(np.clip(NUMBERS, *limits), limits=limits)
    assert result.model.onnx == clipped.model.onnx
    found = result.model.predict(X)
    assert ((found >= limits[0]) & (found <= limits[1])).all()


@pytest.mark.parametrize("source", ["arrays", "one table", "a table for each party"])
def test_errors_are_those_against_the_real_numbers(source: str, tables: Path) -> None:
    """Nothing is learned of numbers outside the range, but the test shows that they exist."""
    limits = [8, 12]
    if source == "arrays":
        result = run(NUMBERS, limits=limits)
        expected = NUMBERS[200:] - result.model.predict(X[200:])
    else:
        files = {"path": "numbers.csv"} if source == "one table" else {}
        write(tables / "open.csv", range(160, 200), {})
        write(tables / "test.csv", range(200, 240), {"t": NUMBERS})
        test = {"path": "test.csv"} if not files else 40
        data = {"label": "t", "range": limits, **files, "public": {"path": "open.csv"}, "test": test}
        table: dict[str, Any] = {"data": data, "algorithm": {"name": "fedridge"}}
        if not files:
            table["party"] = [{"index": 0, "data": "numbers.csv"}]
        result = run_experiment(check_table(Experiment, table, "x.toml"), table, processes=1, base=tables)
        assert result.metrics is not None
        assert (result.metrics.rmse or 0) > 2
        return
    assert result.metrics.rmse == pytest.approx(float(np.sqrt((expected**2).mean())), rel=1e-3)


def test_the_names_of_several_columns_decide_not_their_order(tables: Path) -> None:
    plain, swapped = (
        result_of({"path": "several.csv", "label": ["a", "b"], **more}, tables)
        for more in ({}, {"classes": ["b", "a"]})
    )
    assert swapped.model.classes_.tolist() == ["b", "a"]
    assert swapped.metrics.class_auc == plain.metrics.class_auc[::-1]


def test_a_numeric_target_with_a_wrong_value_is_not_a_hundred_classes(tables: Path) -> None:
    values = [f"{number:.3f}" for number in NUMBERS]
    values[7] = "many"
    write(tables / "wrong.csv", range(200), {"t": values})
    with pytest.raises(
        LimbeckError, match=r"wrong.csv: the label 't' holds 1\d\d different numbers, and 'many' in row 7"
    ):
        result_of({"path": "wrong.csv", "label": "t"}, tables)
    with pytest.raises(LimbeckError, match="different texts"):
        run(NUMBERS.astype(str))


@pytest.mark.parametrize(
    ("y", "complaint"),
    [(NUMBERS[:, None], r"give y.ravel\(\)"), (SEVERAL.astype(str), "not text"), (SEVERAL.astype(object), None)],
)
def test_other_forms_of_y_are_named(y: Any, complaint: str | None) -> None:
    if complaint is None:
        assert run(y).model.task.kind == "multilabel"
        return
    with pytest.raises(LimbeckError, match=complaint):
        run(y)


def test_a_share_of_positive_rows_lies_between_0_and_1() -> None:
    algorithm = lb.FedVote(prior=[1.5, 0.5], privacy=lb.Privacy("L1", epsilon=5.0))
    with pytest.raises(LimbeckError, match="share of positive rows"):
        run(SEVERAL, algorithm=algorithm, noise="simulated")
    assert run(SEVERAL, algorithm=lb.FedVote(prior=(1.0, 0.5))).model is not None


def test_a_saved_model_is_the_model(tmp_path: Path) -> None:
    for name, y, more in (("several", SEVERAL, {"classes": ["left", "right"]}), ("numbers", NUMBERS, {})):
        model = run(y, **more).model
        model.save(tmp_path / f"{name}.onnx")
        loaded = lb.load(tmp_path / f"{name}.onnx")
        assert (loaded.predict(X) == model.predict(X)).all()
        assert loaded.task == model.task
        assert loaded.classes_.tolist() == list(model.classes_)
    session = onnxruntime.InferenceSession((tmp_path / "numbers.onnx").read_bytes())
    [label] = session.run(["label"], {"rows": X})
    assert np.abs(label - NUMBERS).mean() < 2, "in the unit of the target"
    assert np.abs(label - model.predict(X)).max() < 1e-5
    with pytest.raises(LimbeckError, match="this model predicts numbers and has no probabilities; use predict"):
        model.predict_proba(X)


def test_each_party_may_end_with_its_own_model() -> None:
    for y in (SEVERAL, NUMBERS):
        result = run(y, algorithm=lb.Solo(), models=["decision-tree", "knn", "random-forest"])
        assert result.model is None
        assert len(result.models) == 3
        headline = [party.headline(result.record.task) for party in result.record.parties]
        assert result.metrics.headline(result.record.task) == pytest.approx(np.mean(headline))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"y": SEVERAL, **REAL}, r'party 0: y has several columns: for several labels a row give task = "multilabel"'),
        ({"y": SEVERAL, **REAL, "classes": ["a", "b"]}, 'y has several columns: .* task = "multilabel"'),
        ({"y": NUMBERS, **REAL}, r"the class names would be read from private labels .*Python: limits=\(low, high\)"),
        ({"y": NUMBERS, **REAL, "task": "regression"}, r"the range of the target would be read from private labels"),
        ({"y": SEVERAL, "limits": (0, 1), "task": "multilabel"}, 'range is for task = "regression", not "multilabel"'),
        ({"y": SEVERAL[:, 0], "limits": (0, 1), "task": "multiclass"}, 'range is for task = "regression", not "multic'),
        ({"y": NUMBERS, "limits": (20, 0)}, "limits must be the lowest and a higher number of the target"),
        ({"y": NUMBERS, "limits": (0, np.inf)}, "limits must be the lowest and a higher number of the target"),
        ({"y": NUMBERS, "limits": (0, 1, 2)}, "limits must be the lowest and a higher number of the target"),
        ({"y": NUMBERS, "limits": ("low", 2)}, "limits must be the lowest and a higher number of the target"),
        ({"y": SEVERAL + 1}, r"y: with several labels a row, every label is 1 \(positive\), 0 \(negative\) or -1"),
        ({"y": SEVERAL * 0.5}, r"y: with several labels a row, every label is 1"),
        (
            {"y": SEVERAL[:, 0], "task": "multilabel"},
            "with several labels a row, every y has one column for each class",
        ),
        ({"y": SEVERAL[:, :0]}, "with several labels a row, every y has one column for each class"),
        ({"y": SEVERAL, "classes": ["a"]}, "with several labels a row, every y has one column for each class"),
        ({"y": SEVERAL, "classes": ["a", "a"]}, "classes contains 'a' twice"),
        ({"y": NUMBERS, "classes": ["a", "b"]}, "classes: a numeric target has one name, not 2"),
        ({"y": np.where(np.arange(240) == 3, np.nan, NUMBERS)}, "party 0: y contains None or NaN"),
        ({"y": np.where(np.arange(240) == 3, np.inf, NUMBERS)}, "party 0: y: row 3 has no finite number as target"),
        (
            {"y": NUMBERS[:, None], "task": "regression"},
            r"y has the shape \(54, 1\); for one target a row give y.ravel\(\)",
        ),
        ({"y": np.array(["a", "b"] * 120), "task": "regression"}, "a numeric target has one finite number for each"),
        ({"y": NUMBERS, "task": "several"}, "task must be 'multiclass' or"),
        ({"y": NUMBERS, "algorithm": lb.Solo(), "models": "logistic-regression"}, "is a classifier and cannot learn"),
        ({"y": NUMBERS, "algorithm": lb.Solo(), "models": LogisticRegression()}, "is a classifier and cannot learn"),
        ({"y": NUMBERS, "algorithm": lb.Solo(), "models": "tfidf-linear"}, "cannot learn numbers; use for example"),
        ({"y": SEVERAL, "algorithm": lb.Solo(), "models": Ridge()}, "is a regressor: it is for numbers"),
        ({"y": SEVERAL, "algorithm": lb.FedKT()}, 'fedkt is for task = "multiclass", not "multilabel"'),
        (
            {"y": NUMBERS, "algorithm": lb.FedVote()},
            'fedvote is for task = "multiclass", "multilabel", not "regression"',
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint) as found:
        run(**given)
    assert "\n" not in str(found.value)


def test_at_private_levels_the_configuration_is_enough() -> None:
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    several = run(SEVERAL, **REAL, task="multilabel")
    numbers = run(NUMBERS, **REAL, limits=(-10.0, 30.0))
    assert several.record.epsilon["public"] <= 4.0
    assert numbers.record.epsilon["public"] <= 4.0
    assert numbers.model.task == Task("regression", -10.0, 30.0)
    assert not {"r2", "constant"} & {key for key, value in json.loads(numbers.record.to_json()).items() if value}


# Tables


def write(path: Path, rows: Any, labels: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x0", "x1", "x2", *labels])
        writer.writerows([*np.round(X[row], 4), *(values[row] for values in labels.values())] for row in rows)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables with missing labels: every seventh of a, and every fifth of b."""
    a, b = (
        ["" if row % every == 0 else str(value) for row, value in enumerate(column)]
        for every, column in ((7, SEVERAL[:, 0]), (5, SEVERAL[:, 1]))
    )
    write(tmp_path / "several.csv", range(200), {"a": a, "b": b})
    write(tmp_path / "numbers.csv", range(200), {"t": [f"{number:.3f}" for number in NUMBERS]})
    write(tmp_path / "new.csv", range(200, 206), {})
    return tmp_path


def experiment(data: dict[str, Any], **more: Any) -> tuple[Experiment, dict[str, Any]]:
    table = {"model": {"name": "decision-tree"}, "algorithm": {"name": "fedridge"}, **more}
    table["data"] = {"parties": 3, "public": 40, "test": 40, **data}
    return check_table(Experiment, table, "x.toml"), table


def result_of(data: dict[str, Any], base: Path, **more: Any) -> Any:
    return run_experiment(*experiment(data, **more), processes=1, base=base)


def test_columns_of_a_table_are_several_labels_and_missing_values_are_unknown(tables: Path) -> None:
    result = result_of({"path": "several.csv", "label": ["a", "b"]}, tables)
    assert result.model.classes_.tolist() == ["a", "b"]
    assert min(result.metrics.class_auc) > 0.9
    text = predictions(result.model, tables / "new.csv").splitlines()
    assert text[0] == "a,b,p(a),p(b)"
    rows = np.array([line.split(",") for line in text[1:]], float)
    assert rows.shape == (6, 4)
    assert (rows[:, :2] == (rows[:, 2:] > 0.5)).all()
    assert (rows[:, :2] == result.model.predict(tables / "new.csv")).all()


@pytest.mark.parametrize("data", [{"range": [-10, 30]}, {"task": "regression"}, {}])
def test_a_column_of_a_table_is_a_numeric_target(tables: Path, data: dict[str, Any]) -> None:
    result = result_of({"path": "numbers.csv", "label": "t", **data}, tables)
    assert result.metrics.r2 > 0.8
    if "range" in data:
        assert result.model.task == Task("regression", -10.0, 30.0)
    text = predictions(result.model, tables / "new.csv").splitlines()
    assert text[0] == "prediction"
    assert np.allclose(np.array(text[1:], float), result.model.predict(tables / "new.csv"), atol=1e-5)
    assert np.abs(np.array(text[1:], float) - NUMBERS[200:206]).mean() < 3


def test_one_file_for_each_party(tables: Path) -> None:
    for name, labels in (
        ("p0", {"a": SEVERAL[:, 0], "b": [""] * 240}),
        ("p1", {"a": SEVERAL[:, 0], "b": SEVERAL[:, 1]}),
    ):
        write(tables / f"{name}.csv", range(80) if name == "p0" else range(80, 160), labels)
    write(tables / "test.csv", range(200, 240), {"a": SEVERAL[:, 0], "b": SEVERAL[:, 1]})
    table = {
        "data": {"label": ["a", "b"], "public": {"path": "new.csv"}, "test": {"path": "test.csv"}},
        "party": [{"index": 0, "data": "p0.csv"}, {"index": 1, "data": "p1.csv"}],
        "model": {"name": "random-forest", "n_estimators": 20},
        "algorithm": {"name": "centralized"},
    }
    result = run_experiment(check_table(Experiment, table, "x.toml"), table, processes=1, base=tables)
    assert result.metrics is not None
    assert min(each or 0 for each in result.metrics.class_auc or [0]) > 0.9
    assert result.record.parties[0].classes == [int(SEVERAL[:80, 0].sum()), 0]


@pytest.mark.parametrize(
    ("file", "label", "value", "complaint"),
    [
        (
            "several.csv",
            ["a", "b"],
            "2",
            r"several\.csv: the label 'b' holds '2'; several labels a row are 1 \(positive\)",
        ),
        ("several.csv", ["a", "b"], "yes", r"the label 'b' holds 'yes'"),
        ("several.csv", ["a", "c"], "1", "c"),
        ("numbers.csv", "t", "", r"numbers\.csv: row 2 has no label in 't'"),
        ("numbers.csv", "t", "nan", r"numbers\.csv: row 2 has no label in 't'"),
        ("numbers.csv", "t", "inf", r"numbers\.csv: 't': row 2 has no finite number as target"),
        ("numbers.csv", "t", "much", r"numbers\.csv: the target 't' holds text \('much'\), not numbers"),
    ],
)
def test_values_that_are_no_labels_are_refused(tables: Path, file: str, label: Any, value: str, complaint: str) -> None:
    lines = (tables / file).read_text().splitlines()
    lines[3] = ",".join([*lines[3].split(",")[:-1], value])
    (tables / file).write_text("\n".join(lines))
    more = {"range": [-10, 30]} if label == "t" else {}
    with pytest.raises(LimbeckError, match=complaint):
        result_of({"path": file, "label": label, **more}, tables)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"label": ["a", "b"], "task": "regression"}, 'label: several columns .* task = "multilabel"'),
        ({"label": ["a", "b"], "range": [0, 1]}, "label: several columns are several labels a row"),
        ({"label": ["a", "a"]}, "a list names two or more different columns"),
        ({"label": "a", "task": "multiclass", "range": [0, 1]}, 'range is for task = "regression", not "multiclass"'),
        (
            {"label": "a", "range": [1, 0]},
            r"range = \[1, 0\]: give the lowest and a higher finite number",
        ),
        ({"label": "a", "range": [1]}, "range"),
        ({"label": "a", "task": "multi"}, "data.task: Input should be 'multiclass', 'multilabel' or 'regression'"),
        ({"label": "a", "range": [0, 1], "classes": ["a", "b"]}, "classes: a numeric target has one name, not 2"),
        ({"label": ["a", "b"], "classes": ["a", "b", "c"]}, "these are the classes: a, b"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        experiment({"path": "a.csv", **data})


def test_real_runs_of_tables_take_nothing_from_private_labels(tables: Path) -> None:
    private = {"algorithm": {"name": "fedridge", "privacy": {"level": "L2", "epsilon": 4.0}}}
    with pytest.raises(LimbeckError, match=r"would be read from private labels.*data\.classes"):
        result_of({"path": "numbers.csv", "label": "t", "test": 0.2, "public": {"path": "new.csv"}}, tables, **private)
    given: dict[str, Any] = {"path": "numbers.csv", "label": "t", "task": "regression", "public": {"path": "new.csv"}}
    with pytest.raises(LimbeckError, match=r"the range of the target would be read from private labels"):
        result_of(given, tables, **private)
    assert result_of({**given, "range": [0, 20]}, tables, **private).model.task == Task("regression", 0.0, 20.0)
    several = {"path": "several.csv", "label": ["a", "b"], "public": {"path": "new.csv"}}
    assert result_of(several, tables, **private).model.classes_.tolist() == ["a", "b"], "the columns are named"


def test_a_schema_survives_json_and_gives_task_and_range(tables: Path) -> None:
    for label, more, task in (
        ("a,b", [], Task("multilabel")),
        ("t", ["--range", "-10,30"], Task("regression", -10.0, 30.0)),
    ):
        done = limbeck(tables, "data", "schema", "new.csv", "--label", label, *more)
        assert done.returncode == 0, done.stderr
        (tables / "schema.json").write_text(done.stdout)
        schema = read_schema(tables / "schema.json")
        assert Schema.from_json(schema.to_json(), "again") == schema
        assert Task(schema.task, *(schema.limits or ())) == task
        file = "several.csv" if task.kind == "multilabel" else "numbers.csv"
        assert result_of({"path": file, "schema": "schema.json"}, tables).model.task == task
        with pytest.raises(
            LimbeckError, match=r"data\.task and data\.range must be those of .*schema\.json; remove them"
        ):
            result_of(
                {"path": file, "label": schema.labels[0], "range": [0, 1], "schema": "schema.json"}
                if more
                else {"path": file, "task": "regression", "schema": "schema.json"},
                tables,
            )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--label", "t"], "--classes is missing: list all classes"),
        (["--label", "t", "--range", "0"], "range"),
        (["--label", "t", "--range", "low,1"], "--range: 'low' is not a number; write --range 0,50"),
        (["--label", "t", "--range", "5,1"], "give the lowest and a higher finite number"),
        (["--label", "a,b", "--range", "0,1"], "label: several columns"),
    ],
)
def test_wrong_options_of_a_schema(tables: Path, arguments: list[str], complaint: str) -> None:
    done = limbeck(tables, "data", "schema", "new.csv", *arguments)
    assert done.returncode != 0
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_program_shows_such_sets_and_splits(tables: Path, save: Callable[..., Path]) -> None:
    save("tags", x_train=X, y_train=SEVERAL, classes=np.array(["left", "right"]))
    shown = limbeck(tables, "data", "show", "diabetes").stdout
    assert "task regression" in " ".join(shown.split())
    assert "progression" in shown
    assert "right" in limbeck(tables, "data", "show", "tags").stdout
    assert "442 private" in limbeck(tables, "data", "split", "diabetes").stdout
    split = limbeck(tables, "data", "split", "tags").stdout
    assert "240 private" in split
    fit = limbeck(tables, "data", "fit", "new.csv", "several.csv", "--label", "a,b")
    assert "Traceback" not in fit.stderr
    (tables / "x.toml").write_text(
        'data = { path = "several.csv", label = ["a", "b"], parties = 3, public = 40 }\n'
        'model = { name = "decision-tree" }\nalgorithm = { name = "fedridge" }\n'
    )
    assert limbeck(tables, "run", "x.toml", "--out", "out").returncode == 0
    assert limbeck(tables, "predict", "out/model.onnx", "new.csv").stdout.startswith("a,b,p(a),p(b)\n")


def test_named_sets_and_files_of_arrays(save: Callable[..., Path]) -> None:
    path = save("tags", x_train=X, y_train=SEVERAL, classes=np.array(["left", "right"]))
    assert result_of({"name": "tags"}, path.parent).model.classes_.tolist() == ["left", "right"]
    plain = save("plain", x_train=X, y_train=SEVERAL)
    found = result_of({"path": str(plain), "classes": ["up", "down"]}, path.parent)
    assert found.model.classes_.tolist() == ["up", "down"], "columns without names take those of the experiment"
    assert result_of({"name": "diabetes", "range": [0, 400]}, path.parent).metrics.r2 > 0.3
    with pytest.raises(LimbeckError, match=r'data\.task = "multiclass": diabetes is for "regression"'):
        result_of({"name": "diabetes", "task": "multiclass"}, path.parent)
    save("bad", x_train=X, y_train=SEVERAL, classes=np.array(["left"]))
    with pytest.raises(LimbeckError, match="classes must hold 2 different names, one for each column of y_train"):
        result_of({"name": "bad"}, path.parent)


@pytest.mark.parametrize("algorithm", [lb.Solo, lb.Centralized, lb.FedKD])
def test_labelled_public_rows_are_learned_too(algorithm: Any) -> None:
    """Parties that hold one class alone know the other from the public rows."""
    y = (X[:, 0] > 0).astype(int)
    held = [(X[:80][y[:80] == label], y[:80][y[:80] == label]) for label in (0, 0)]
    given = {"algorithm": algorithm(with_public=True), "parties": held, "test": (X[200:], y[200:])}
    with_public = lb.run(**given, public=(X[100:200], y[100:200]), models="decision-tree", noise="simulated")
    assert (with_public.accuracy or 0) > 0.9
    alone = lb.run(**{**given, "algorithm": algorithm()}, public=X[100:200], models="decision-tree", noise="simulated")
    assert (alone.accuracy or 1) == pytest.approx(float((y[200:] == 0).mean()))
    with pytest.raises(LimbeckError, match="needs labelled public rows"):
        lb.run(**given, public=X[100:200], models="decision-tree", noise="simulated")


def test_a_test_of_one_target_has_no_r2() -> None:
    same = (X[200:], np.full(40, 10.0))
    result = run(NUMBERS, algorithm=lb.FedMD(rounds=1, start="none"), test=same, limits=(0.0, 20.0))
    assert result.metrics.r2 is None
    assert result.metrics.rmse > 0
    assert {each for point in result.record.curve for each in point["accuracy"]} == {None}
