"""Every algorithm with sample weights: weights of 1 are no weights, others count, and none are ignored silently."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limbeck as lb
from limbeck.checks import small_federation
from limbeck.data.sets import load
from limbeck.engines.fresh_process import FreshProcess
from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

CANCER = load("breast-cancer")
X, Y = CANCER.x.astype(np.float32), CANCER.y
X = (X - X.mean(0)) / X.std(0)
PARTS = [np.arange(0, 60), np.arange(60, 120)]
PUBLIC, TEST = np.arange(120, 180), np.arange(180, 300)
ONE, TWO = Recipe(epochs=1, batch=16), Recipe(epochs=2, batch=16)
MD: dict[str, Any] = {"rounds": 1, "pretrain": ONE, "fine_tune": TWO, "digest": ONE, "revisit": ONE}
TREE, NET = "decision-tree", {"name": "torch-mlp", "hidden": [4], "recipe": {"epochs": 2}}
WEIGHTS = np.random.default_rng(0).random(120) ** 8
CASES: dict[str, tuple[lb.Algorithm, Any]] = {
    "fedvote": (lb.FedVote(), TREE),
    "fedvote-L1": (lb.FedVote(partitions=1, subsets=3, privacy=lb.Privacy("L1", epsilon=20.0)), TREE),
    "fedkt": (lb.FedKT(partitions=1, subsets=3), TREE),
    "fedridge": (lb.FedRidge(), TREE),
    "fedridge-L2": (lb.FedRidge(privacy=lb.Privacy("L2", epsilon=20.0)), TREE),
    "fedkd": (lb.FedKD(local=TWO, distil=ONE, scale=None, norm="l2"), NET),
    "fedmd-tree": (lb.FedMD(**MD), TREE),
    "fedmd-accuracy": (lb.FedMD(**MD, weights="accuracy"), NET),
    "fedmd-nfdp": (lb.FedMDNFDP(**MD, sampled=30, population=60), NET),
    "solo-public": (lb.Solo(with_public=True), TREE),
    "centralized": (lb.Centralized(), TREE),
    "centralized-public": (lb.Centralized(with_public=True), TREE),
    "ensemble": (lb.Ensemble(), TREE),
    "pate": (lb.Pate(teachers=3), TREE),
    "pooled": (lb.Pooled(fine_tune=ONE), NET),
    "fedavg": (lb.FedAvg(rounds=1, local=TWO), NET),
    "scaffold": (lb.Scaffold(rounds=2, local=replace(lb.Scaffold().local, epochs=2)), NET),
    "fedgen": (lb.FedGEN(rounds=2, local=ONE), NET),
    "fedkt-avg": (lb.FedKTAvg(start=lb.FedKT(subsets=2), then=lb.FedAvg(rounds=1, local=TWO)), NET),
}


def predictions(algorithm: lb.Algorithm, model: Any, parties: Any, **more: Any) -> Array:
    """Scores of the test rows, by the final model or all of them."""
    settings: dict[str, Any] = {"noise": "simulated", "seed": 1, "processes": 1, "classes": [0, 1]}
    run = lb.run(algorithm, parties, public=(X[PUBLIC], Y[PUBLIC]), models=model, **{**settings, **more})
    models = [run.model] if run.model else list(run.models.values())
    return np.stack([each.predict_proba(X[TEST]) for each in models])


def with_weights(weight: Array) -> list[Any]:
    return [(X[part], Y[part], weight[part]) for part in PARTS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(CASES))
def test_weights_count_and_weights_of_one_are_none(case: str) -> None:
    algorithm, model = CASES[case]
    plain = predictions(algorithm, model, [(X[part], Y[part]) for part in PARTS])
    assert (predictions(algorithm, model, with_weights(np.ones(120))) == plain).all()
    assert not np.allclose(predictions(algorithm, model, with_weights(WEIGHTS)), plain, atol=1e-5)


@pytest.mark.parametrize("algorithm", [lb.FedRidge(), lb.FedVote(), lb.Centralized(), lb.Ensemble()], ids=str)
def test_a_weight_of_two_is_a_row_that_is_there_twice(algorithm: lb.Algorithm) -> None:
    times = np.random.default_rng(1).integers(0, 3, 120)
    repeated = [(X[rows], Y[rows]) for part in PARTS for rows in [np.repeat(part, times[part])]]
    weighted = predictions(algorithm, "naive-bayes", with_weights(times.astype(float)))
    assert np.allclose(weighted, predictions(algorithm, "naive-bayes", repeated), atol=1e-4)


def test_class_weights_are_sample_weights_by_class() -> None:
    for algorithm in (lb.FedRidge(), lb.FedVote()):
        by_class = predictions(algorithm, TREE, [(X[p], Y[p]) for p in PARTS], class_weights={0: 0.2, 1: 2.0})
        assert (by_class == predictions(algorithm, TREE, with_weights(np.where(Y[:120] == 0, 0.1, 1.0)))).all()


NOISY = lb.FedVote(partitions=1, subsets=3, privacy=lb.Privacy("L1", epsilon=1e4))


@pytest.mark.parametrize("algorithm", [lb.FedVote(), NOISY], ids=["L0", "L1"])
def test_a_class_with_a_higher_weight_gets_more_labels(algorithm: lb.Algorithm) -> None:
    """Matched labels have the shares of the weighted rows; otherwise they would undo the weights."""
    parts = [(X[part], Y[part]) for part in PARTS]
    shares = [
        predictions(algorithm, "naive-bayes", parts, class_weights=weights)[0, :, 0].mean()
        for weights in (None, {0: 1.0, 1: 0.05}, {0: 0.05, 1: 1.0})
    ]
    assert shares[2] < shares[0] < shares[1]


def test_all_engines_use_the_weights(tmp_path: Path) -> None:
    made = small_federation(lb.FedVote())
    rng = np.random.default_rng(0)
    own = replace(made, private=[replace(rows, weight=rng.random(len(rows))) for rows in made.private])

    def final(engine: Any, federation: Any = own, *more: Any) -> bytes | None:
        server, silos = federation.sites(PoolTrainer(1))
        model: bytes | None = engine(federation.algorithm, server, silos, *more).run().model
        return model

    found = [final(InProcess, own, PoolTrainer(1)), final(ThroughBytes, own, PoolTrainer(1))]
    assert final(FreshProcess, own, tmp_path) == found[0] == found[1]
    assert found[0] != final(InProcess, made, PoolTrainer(1))


@dataclass(frozen=True, slots=True)
class Forgetful(lb.Algorithm):
    """An algorithm that does not know of weights."""

    name = "forgetful"

    def lead(self, parties: Any, site: Any) -> lb.Outcome:
        raise AssertionError("it must not start")


@pytest.mark.parametrize(
    ("algorithm", "models", "weight", "problem"),
    [
        (Forgetful(), TREE, 0.5, "forgetful does not use sample weights or class weights; use for example fedvote"),
        (lb.FedKT(), ["decision-tree", "knn"], 0.5, "model 'knn' does not use sample weights"),
        (
            lb.FedKT(privacy=lb.Privacy("L2", epsilon=1.0)),
            TREE,
            1.5,
            "at private levels every weight is a number from 0",
        ),
        (lb.FedRidge(privacy=lb.Privacy("L2", epsilon=1.0)), TREE, -0.1, "at private levels every weight is a number"),
        (lb.FedKT(), TREE, np.inf, "party 0: sample_weight must be finite numbers, at least 0"),
    ],
)
def test_wrong_weights_are_refused_before_anything_is_spent(
    algorithm: lb.Algorithm, models: Any, weight: float, problem: str, tmp_path: Path
) -> None:
    own, ledger = WEIGHTS.copy(), tmp_path / "ledger.sqlite"
    own[5] = weight
    with pytest.raises(lb.LimbeckError, match=problem):
        predictions(algorithm, models, with_weights(own), ledger=ledger, server_model=TREE)
    assert not ledger.exists() or not list(read_ledger(ledger))


def test_models_that_learn_no_private_row_need_no_weights() -> None:
    predictions(lb.FedRidge(), "knn", with_weights(WEIGHTS))
    predictions(lb.Centralized(), "knn", with_weights(WEIGHTS), server_model=TREE)
    with pytest.raises(lb.LimbeckError, match="model 'knn' does not use sample weights"):
        predictions(lb.Centralized(), TREE, with_weights(WEIGHTS), server_model="knn")


@pytest.mark.slow
def test_the_record_names_the_weights() -> None:
    parts = with_weights(WEIGHTS)
    run = lb.run(lb.FedRidge(), parts, public=X[PUBLIC], seed=1, class_weights={1: 0.5})
    assert run.record.config["class_weights"] == {"1": 0.5}
    assert run.record.config["sample_weight"] is True
