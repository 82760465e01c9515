"""Runs from Python and from files: the same seed, the same record; any labels; clear refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import limbeck as lb
from limbeck.data.sets import load
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.federation import Federation
from limbeck.experiments.run import federation_of, run_experiment
from limbeck.experiments.splitting import split_rows
from limbeck.models.pool import PoolTrainer

TABLE: dict[str, Any] = {
    "data": {"name": "iris", "parties": 3, "public": 0.3, "test": 0.2},
    "model": {"name": "random-forest", "n_estimators": 5},
    "party": [{"index": 1, "model": {"name": "logistic-regression"}}],
    "algorithm": {"name": "fedkt"},
}
RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 2)), np.array(["no", "yes"] * 30)
PARTIES = [(X[i::3], Y[i::3]) for i in range(3)]


def federation(**tables: Any) -> Federation:
    table = {**TABLE, **tables}
    experiment = check_table(Experiment, table, "e.toml")
    return federation_of(experiment, table, split_rows(experiment))


def timeless(record_json: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_json)
    del record["timing"]
    return record


@pytest.mark.parametrize("algorithm", ["fedkt", "solo", "centralized"])
def test_same_seed_same_record_and_files(algorithm: str) -> None:
    one, two = (federation(algorithm={"name": algorithm}).run(PoolTrainer(processes)) for processes in (1, 2))
    assert timeless(one.record.to_json()) == timeless(two.record.to_json())
    files, others = one.files(), two.files()
    assert {k: v for k, v in files.items() if k != "record.json"} == {
        k: v for k, v in others.items() if k != "record.json"
    }


def test_another_seed_another_record() -> None:
    one, two = (federation(seed=seed).run(PoolTrainer(1)).record.to_json() for seed in (0, 1))
    assert timeless(one)["parties"] != timeless(two)["parties"]


def test_the_record_can_be_run_again() -> None:
    first = federation(seed=4).run(PoolTrainer(1))
    config = json.loads(first.record.to_json())["config"]
    experiment = check_table(Experiment, config, "record")
    again = federation_of(experiment, config, split_rows(experiment)).run(PoolTrainer(1))
    assert timeless(again.record.to_json()) == timeless(first.record.to_json())


def test_what_a_record_states() -> None:
    record = json.loads(run_experiment(check_table(Experiment, TABLE, "e.toml"), TABLE, 1).record.to_json())
    assert record["format"] == 2
    assert record["config"] == TABLE
    assert record["rounds"] == 1
    assert [party["model"]["name"] for party in record["parties"]] == ["random-forest", "logistic-regression", "random-forest"]  # fmt: skip
    assert sum(party["rows"] for party in record["parties"]) == record["data"]["private"] == 75
    assert sum(sum(party["classes"]) for party in record["parties"]) == 75
    assert (record["data"]["public"], record["data"]["test"]) == (45, 30)
    assert record["bytes"]["up"] == sum(party["bytes"]["up"] for party in record["parties"])
    assert record["epsilon"] == {"server": None, "parties": None}
    assert [row["what"] for row in record["ledger"]] == ["students"] * 3 + ["model"]
    assert {"limbeck", "python", "scikit-learn", "onnxruntime"} <= set(record["versions"])
    assert [phase["name"] for phase in record["timing"]["phases"]] == ["data", "smoke test", "learn", "score"]
    assert record["metrics"]["accuracy"] > record["constant"]
    assert (record["rows_per_person"], record["real"]) == (1, False)


def test_files_of_a_run() -> None:
    assert set(federation().run(PoolTrainer(1)).files()) == {"model.onnx", "record.json"}
    assert set(federation(algorithm={"name": "solo"}).run(PoolTrainer(1)).files()) == {
        "record.json",
        *(f"models/party-{party}.onnx" for party in range(3)),
    }


def test_python_with_any_labels_and_estimators() -> None:
    result = lb.run(lb.FedKT(subsets=2), parties=PARTIES, public=X, models=RandomForestClassifier(5), seed=0)
    assert result.model is not None
    assert set(result.model.predict(X)) <= {"no", "yes"}
    assert result.model.predict_proba(X).shape == (60, 2)
    assert result.model.classes_.tolist() == ["no", "yes"]
    assert result.accuracy is None


def test_one_model_for_each_party_and_another_for_the_server() -> None:
    result = lb.run(
        lb.Solo(), PARTIES, models=[LogisticRegression(), "svm", {"name": "knn", "n_neighbors": 3}], test=(X, Y)
    )
    assert [party.model["name"] for party in result.record.parties] == ["LogisticRegression", "svm", "knn"]
    assert result.accuracy is not None
    with pytest.raises(lb.LimbeckError, match="has no probabilities"):
        result.models[1].predict_proba(X)


def test_images_are_predicted_as_they_were_learned() -> None:
    """Bytes are scaled to [0, 1] in run and in predict."""
    digits = load("digits")
    x = (digits.x * 255).astype(np.uint8)
    result = lb.run(
        lb.Centralized(), [(x[:900], digits.y[:900])], models="logistic-regression", test=(x[900:], digits.y[900:])
    )
    assert result.model is not None
    assert (result.model.predict(x[900:]) == digits.y[900:]).mean() == result.accuracy


def test_a_saved_model_is_the_model(tmp_path: Any) -> None:
    result = lb.run(lb.Centralized(), PARTIES, models="naive-bayes", test=(X, Y))
    assert result.model is not None
    result.model.save(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == result.model.onnx


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"parties": []}, "parties is empty"),
        ({"public": None}, "fedkt needs public rows"),
        ({"public": X[:, :1]}, r"public: rows of shape \(1,\), but party 0 has rows of shape \(2,\)"),
        ({"public": X[:, 0]}, "public: rows must have at least two dimensions"),
        ({"public": X * np.nan}, "public: 60 of 60 rows hold NaN or infinity"),
        ({"parties": [(X, Y), (X[:, :1], Y)]}, "party 1: rows of shape"),
        ({"parties": [(X, Y), (X, Y[:5])]}, "party 1: 60 rows need as many labels"),
        ({"parties": [(X, Y), (X[:0], Y[:0])]}, "party 1 has no rows"),
        ({"parties": [(X, Y), ([["a"]], ["no"])]}, "party 1: rows must be numbers"),
        ({"parties": [(np.where(X[3] == X, np.inf, X), Y)]}, "party 0: 1 of 60 rows hold NaN or infinity, the first is row 3"),
        ({"models": ["svm", "knn"]}, "2 models for 3 parties"),
        ({"models": {}}, "models: a table needs the key name"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": None}, "seed must be a whole number"),
        ({"processes": 0}, "processes must be a whole number, at least 1"),
        ({"parties": [(X, Y), (X, Y[:, None])]}, "party 1: y with several columns holds"),
        ({"parties": [(X, Y), (X, [None] * 60)]}, "party 1: y contains None or NaN"),
        ({"parties": [(X, Y, Y, Y)]}, "party 0: give a pair"),
        ({"parties": [(X, Y, Y)]}, "party 0: sample_weight must be numbers"),
        ({"parties": [(X * 1j, Y)]}, "party 0: rows must be numbers"),
        ({"parties": [(X * 1e300, Y)]}, "party 0: row 0, column 0 holds 6.36962e.299, which is too large for float32"),
        ({"test": (X[:, :1], Y)}, "test: rows of shape"),
        ({"parties": [(X, Y), (X, np.arange(60) % 2)]}, "party 0: y has text labels, but other labels are numbers"),
        ({"models": 3}, "must be a scikit-learn classifier"),
        ({"models": "svmm"}, "unknown model 'svmm'"),
    ],
)  # fmt: skip
def test_bad_input_is_reported(change: dict[str, Any], line: str) -> None:
    arguments: dict[str, Any] = {"parties": PARTIES, "public": X, "models": "naive-bayes", **change}
    with pytest.raises(lb.LimbeckError, match=line):
        lb.run(lb.FedKT(subsets=2), **arguments)


def test_a_model_that_cannot_travel_is_refused_before_training() -> None:
    fits: list[int] = []

    def watch(results: Any, total: int) -> Any:
        fits.append(total)
        return results

    with pytest.raises(lb.LimbeckError, match="cannot be packed as ONNX"):
        federation(server={"model": {"name": "python:factories:unconvertible"}}).run(PoolTrainer(1, watch))
    assert fits == []


def test_data_without_test_rows_is_reported() -> None:
    with pytest.raises(lb.LimbeckError, match=r"iris has no official test rows: .* data.test"):
        federation(data={"name": "iris", "public": 0.3})


NETWORKS: dict[str, Any] = {
    "seed": 0,
    "data": {"name": "digits", "parties": 3, "public": 0.3, "test": 0.2, "split": {"kind": "dirichlet", "beta": 0.5}},
    "model": {"name": "torch-mlp", "dropout": 0.1, "recipe": {"epochs": 4, "batch": 16}},
    "algorithm": {"name": "fedkt", "subsets": 2},
}


def trained(**training: Any) -> Any:
    table = {**NETWORKS, "training": training}
    return run_experiment(check_table(Experiment, table, "e.toml"), table, 1)


@pytest.mark.slow
def test_fits_of_all_parties_share_a_stack_and_the_result_is_that_of_any_trainer() -> None:
    stacked, pool, sequential = (trained(trainer=name, device="cpu") for name in ("stacked", "pool", "sequential"))
    training = stacked.record.timing["training"]
    assert (training["trainer"], training["device"], training["why"]) == (
        "stacked",
        "cpu",
        "device = cpu: trainer = stacked",
    )
    assert [stack["networks"] for stack in training["stacks"]] == [12, 6, 1]
    assert pool.record.timing["training"]["trainer"] == "pool"
    assert sequential.record.timing["training"]["trainer"] == "sequential"
    assert sequential.model.onnx == pool.model.onnx
    x = load("digits").x
    assert (stacked.model.predict(x) == pool.model.predict(x)).mean() > 0.97
    again = trained(trainer="stacked", device="cpu")
    assert again.model.onnx == stacked.model.onnx


def test_a_run_that_ends_well_leaves_no_checkpoints(tmp_path: Path) -> None:
    table = {**NETWORKS, "training": {"trainer": "stacked", "device": "cpu", "checkpoint": "kept"}}
    run_experiment(check_table(Experiment, table, "e.toml"), table, 1, base=tmp_path)
    assert not list(tmp_path.iterdir())


def test_wrong_keys_of_training_are_reported() -> None:
    for wrong, message in (
        ({"trainer": "stack"}, "training: trainer"),
        ({"devise": "cpu"}, "unknown key 'devise'"),
        ({"trainer": "pool", "device": "cuda"}, 'training: trainer = "pool" trains on the CPU'),
    ):
        with pytest.raises(lb.LimbeckError, match=message):
            check_table(Experiment, {**NETWORKS, "training": wrong}, "e.toml")
