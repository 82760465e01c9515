"""Evaluations of saved models, on tables and arrays, and predictions with a threshold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import confusion_matrix, roc_auc_score

import limbeck as lb
from limbeck.checks import small_federation
from limbeck.experiments.evaluation import evaluate
from limbeck.experiments.result import Predictor
from limbeck.models.pool import PoolTrainer
from limbeck.sklearn import FederatedClassifier

X, Y = load_breast_cancer(return_X_y=True)
NAMES = np.array(["bad", "good"])[Y]


def fitted(models: Any = "naive-bayes", y: Any = NAMES) -> Predictor:
    model = lb.run(lb.Centralized(), [(X[:150], y[:150]), (X[150:300], y[150:300])], models=models, processes=1).model
    assert model is not None
    return model


@pytest.fixture(scope="module")
def model() -> Predictor:
    return fitted()


def trained(algorithm: Any, kind: Any = "multiclass") -> tuple[Predictor, Any]:
    federation = small_federation(algorithm, task=kind)
    model = federation.run(PoolTrainer(1)).model
    assert model is not None
    return model, federation


def test_metrics_intervals_and_the_constant_predictor(model: Predictor) -> None:
    found = evaluate(model, (X[300:], NAMES[300:]))
    assert found.rows == 269
    assert found.shares == {"bad": pytest.approx(np.mean(Y[300:] == 0)), "good": pytest.approx(np.mean(Y[300:]))}
    assert found.metrics.roc_auc == pytest.approx(roc_auc_score(Y[300:], model.predict_proba(X[300:])[:, 1]))
    for name in ("accuracy", "balanced_accuracy", "sensitivity", "specificity", "roc_auc", "pr_auc", "brier"):
        low, high = found.intervals[name]
        assert low <= getattr(found.metrics, name) <= high
    assert found.constant.confusion == [[0, 66], [0, 203]]
    assert found.constant.roc_auc == 0.5
    assert found.constant.pr_auc == pytest.approx(203 / 269)
    assert sum(each.rows for each in found.calibration) == 269
    assert found.remark is None
    assert json.loads(found.to_json())["metrics"]["confusion"] == found.metrics.confusion


def test_a_threshold_changes_predictions_and_not_probabilities(model: Predictor) -> None:
    labels, scores = model.predict_both(X[300:], threshold=0.99)
    assert (labels == np.where(model.predict_proba(X[300:])[:, 1] >= 0.99, "good", "bad")).all()
    assert scores is not None
    assert (scores == model.predict_proba(X[300:])).all()
    assert (model.predict(X[300:], threshold=0.0) == "good").all()
    assert (model.predict(X[300:]) != labels).any()
    by_cost = evaluate(model, (X[300:], NAMES[300:]), cost=(1, 99))
    assert by_cost.threshold == pytest.approx(0.99)
    assert by_cost.metrics.confusion == confusion_matrix(NAMES[300:], labels).tolist()
    plain = evaluate(model, (X[300:], NAMES[300:])).metrics
    assert (by_cost.metrics.roc_auc, by_cost.metrics.brier) == (plain.roc_auc, plain.brier)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"threshold": 1.5}, "threshold = 1.5: give a probability from 0 to 1"),
        ({"threshold": "0.5"}, "threshold = '0.5': give a probability"),
        ({"threshold": [0.5]}, r"threshold = \[0.5\]: give a probability"),
        ({"threshold": 0.5, "cost": (1, 1)}, "give one of them"),
        ({"cost": 5}, "not 5"),
        ({"cost": "ab"}, "not 'ab'"),
        ({"cost": (0, 0)}, "not both 0"),
        ({"cost": (-1, 2)}, "at least 0"),
        ({"cost": (float("nan"), 2)}, "at least 0"),
    ],
)
def test_impossible_thresholds_are_refused(model: Predictor, given: dict[str, Any], line: str) -> None:
    with pytest.raises(lb.LimbeckError, match=line):
        evaluate(model, (X, NAMES), **given)


def test_a_model_is_a_predictor_the_result_of_a_run_or_a_file(model: Predictor) -> None:
    result = lb.run(lb.Centralized(), [(X[:150], NAMES[:150]), (X[150:300], NAMES[150:300])], models="naive-bayes")
    assert evaluate(result, (X[300:], NAMES[300:])) == evaluate(model, (X[300:], NAMES[300:]))
    own = lb.run("solo", [(X[:150], NAMES[:150]), (X[150:300], NAMES[150:300])], models="naive-bayes")
    with pytest.raises(lb.LimbeckError, match=r"^model: each party of this run has a model of its own"):
        evaluate(own, (X, NAMES))
    with pytest.raises(
        lb.LimbeckError, match=r"^model must be a model, the Result of a run .* not FederatedClassifier"
    ):
        evaluate(FederatedClassifier(), (X, NAMES))
    for call, name in ((model.save, "path"), (lb.load, "path"), (result.save, "folder")):
        with pytest.raises(lb.LimbeckError, match=f"^{name} must be a path, not 5"):
            call(5)  # type: ignore[arg-type]


def test_models_that_have_no_threshold_refuse_one(model: Predictor) -> None:
    iris, answers = load_iris(return_X_y=True)
    three, _ = trained(lb.FedVote())
    numbers, federation = trained(lb.FedRidge(), "regression")
    with pytest.raises(lb.LimbeckError, match="this model has 3 classes; a threshold is for two classes"):
        three.predict(iris, threshold=0.2)
    with pytest.raises(lb.LimbeckError, match="this model has 3 classes"):
        evaluate(three, (iris, answers), threshold=0.2)
    with pytest.raises(lb.LimbeckError, match="predicts numbers; a threshold is for classes"):
        numbers.predict(federation.test.x, threshold=0.2)
    with pytest.raises(lb.LimbeckError, match="by a vote and has no probabilities"):
        fitted("svm").predict(X, threshold=0.2)
    with pytest.raises(lb.LimbeckError, match="from 0 to 1"):
        model.predict(X, threshold=-0.1)


def test_several_labels_have_one_threshold() -> None:
    model, federation = trained(lb.FedRidge(), "multilabel")
    x, y = federation.test.x, federation.test.y
    labels = model.predict(x, threshold=0.3)
    assert (labels == (model.predict_proba(x) >= 0.3)).all()
    found = evaluate(model, (x, y), threshold=0.3)
    assert found.metrics.accuracy == pytest.approx((labels == y)[y >= 0].mean())
    low, high = found.intervals["accuracy"]
    assert low <= (found.metrics.accuracy or 0) <= high
    assert (found.constant.roc_auc, found.metrics.confusion) == (0.5, None)
    assert found.shares["setosa"] == pytest.approx((y[:, 0] == 1).sum() / (y[:, 0] >= 0).sum())


def test_numbers_are_in_the_unit_of_the_target() -> None:
    model, federation = trained(lb.FedRidge(), "regression")
    targets = federation.task.unscaled(federation.test.y)
    found = evaluate(model, (federation.test.x, targets))
    assert found.metrics.mae == pytest.approx(np.abs(model.predict(federation.test.x) - targets).mean(), rel=1e-5)
    assert found.constant.r2 == pytest.approx(0)
    assert set(found.intervals) == {"rmse", "mae", "r2"}
    assert found.shares == {}


def test_files_of_arrays_give_their_test_rows_first(model: Predictor, tmp_path: Path) -> None:
    both, train = tmp_path / "both.npz", tmp_path / "train.npz"
    np.savez(both, x_train=X[:300], y_train=NAMES[:300], x_test=X[300:], y_test=NAMES[300:])
    np.savez(train, x_train=X[300:], y_train=NAMES[300:])
    expected = evaluate(model, (X[300:], NAMES[300:]))
    assert evaluate(model, both) == expected == evaluate(model, train)
    model.save(tmp_path / "m.onnx")
    assert evaluate(str(tmp_path / "m.onnx"), str(both)) == expected


def test_labels_may_be_numbers_of_any_type() -> None:
    model = fitted(y=Y)
    expected = evaluate(model, (X[300:], Y[300:])).metrics
    for kind in (np.float64, np.int8, bool, str):
        assert evaluate(model, (X[300:], Y[300:].astype(kind))).metrics == expected


def test_tables_are_read_by_the_schema_of_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, rows in (("a", 80), ("b", 80), ("public", 80), ("test", 60)):
        size = rng.normal(size=rows)
        kinds = np.where(size + 0.5 * rng.normal(size=rows) > 0, "yes", "no")
        lines = [f"{value:.3f},{kind}" for value, kind in zip(size, kinds, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["size,sick", *lines]) + "\n")
    (tmp_path / "e.toml").write_text(
        'data = { label = "sick", classes = ["no", "yes"], public = { path = "public.csv" } }\n'
        'model = { name = "decision-tree", max_depth = 2 }\nalgorithm = { name = "fedvote" }\n'
        'party = [{ index = 0, data = "a.csv" }, { index = 1, data = "b.csv" }]\n'
    )
    tested = lb.run_file(tmp_path / "e.toml", ['data.test={ path = "test.csv" }'], processes=1)
    assert tested.model is not None
    found = evaluate(tested.model, tmp_path / "test.csv")
    assert found.metrics == tested.metrics
    (tmp_path / "other.csv").write_text((tmp_path / "test.csv").read_text().replace("sick", "ill", 1))
    assert evaluate(tested.model, tmp_path / "other.csv", label="ill") == found
    lines = (tmp_path / "other.csv").read_text().splitlines()
    (tmp_path / "both.csv").write_text("\n".join([f"{lines[0]},sick", *(f"{line},yes" for line in lines[1:])]) + "\n")
    assert evaluate(tested.model, tmp_path / "both.csv", label="ill") == found
    for file, label, line in (
        ("other.csv", None, "'ill' that the schema does not have"),
        ("test.csv", "ill", "no column 'ill'"),
        ("test.csv", "size", "label: models learn from the column 'size'; the labels are in 'sick' by the schema"),
    ):
        with pytest.raises(lb.LimbeckError, match=line):
            evaluate(tested.model, tmp_path / file, label)


def test_a_model_of_arrays_takes_a_table_with_a_named_label(model: Predictor, tmp_path: Path) -> None:
    lines = [",".join([*map(str, row), name]) for row, name in zip(X[300:], NAMES[300:], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*(f"c{i}" for i in range(30)), "kind"]), *lines]) + "\n")
    assert evaluate(model, tmp_path / "t.csv", "kind") == evaluate(model, (X[300:], NAMES[300:]))
    with pytest.raises(lb.LimbeckError, match="name the label column"):
        evaluate(model, tmp_path / "t.csv")


def test_rows_that_do_not_fit_are_reported(model: Predictor, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=X)
    np.save(tmp_path / "x.npy", X)
    for rows, line in (
        ((X, np.array(["odd"] * len(X))), "'odd' is none of the model's classes bad, good"),
        ((X[:5], NAMES[:4]), "5 rows need as many labels"),
        ((X[:0], NAMES[:0]), "at least one"),
        ((X[:5, :4], NAMES[:5]), r"the model needs \(30,\)"),
        ((X, Y[:, None]), r"the labels have the shape \(569, 1\)"),
        (X, "a pair"),
        (tmp_path / "other.npz", "no x_test and y_test, or x_train and y_train"),
        (tmp_path / "x.npy", "give an NPZ file"),
        (tmp_path / "no.npz", "no.npz"),
        (tmp_path / "no.csv", "no.csv"),
    ):
        with pytest.raises(lb.LimbeckError, match=line):
            evaluate(model, rows, label="kind" if str(rows).endswith("csv") else None)
