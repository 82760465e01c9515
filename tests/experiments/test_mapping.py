"""Rows mapped to features before an algorithm runs: every algorithm and every model takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limbeck as lb
from limbeck.errors import LimbeckError
from limbeck.experiments.cached_runs import CachedRun
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.run import run_experiment
from limbeck.protocol.rows import content_hash
from limbeck.sklearn import FederatedClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(int)  # no linear model of the raw rows
PARTIES = [(X[i : i + 60], Y[i : i + 60]) for i in (0, 60, 120)]
PUBLIC, TEST = X[180:240], (X[240:], Y[240:])
FEATURES = lb.Features("standard", number=4)
TABLE = {
    "data": {"name": "iris", "parties": 2, "public": 40, "test": 0.2},
    "model": {"name": "decision-tree"},
    "algorithm": {"name": "fedvote"},
}


@pytest.mark.parametrize("algorithm", [lb.FedVote(), lb.FedKT(partitions=1, subsets=2), lb.Centralized()])
def test_the_final_model_takes_raw_rows(algorithm: lb.Algorithm) -> None:
    result = lb.run(algorithm, PARTIES, PUBLIC, "decision-tree", test=TEST, features=FEATURES)
    assert result.model is not None
    assert result.model.row == (6,)
    assert (result.model.predict(TEST[0]) == TEST[1]).mean() == result.accuracy


def test_a_run_on_features_is_the_run_on_mapped_rows() -> None:
    features = FEATURES.fit(PUBLIC, 5)
    mapped = [(features.vectors(x), y) for x, y in PARTIES]
    known = lb.run(lb.FedVote(), mapped, features.vectors(PUBLIC), "decision-tree", seed=5).model
    result = lb.run(lb.FedVote(), PARTIES, PUBLIC, "decision-tree", seed=5, features=FEATURES)
    assert known is not None
    assert result.model is not None
    assert (result.model.predict(X) == known.predict(features.vectors(X))).all()
    assert result.record.data["public_hash"] == content_hash(PUBLIC)
    assert result.record.data["features_hash"] == features.hash


def test_every_party_can_end_with_its_own_model_of_raw_rows() -> None:
    result = lb.run(lb.Solo(), PARTIES, PUBLIC, "decision-tree", test=TEST, features=FEATURES)
    assert [model.predict(X[:5]).shape for model in result.models.values()] == [(5,)] * 3


def test_fedridge_gets_the_features_as_its_own() -> None:
    own = lb.run(lb.FedRidge(features=FEATURES), PARTIES, PUBLIC, "decision-tree").model
    given = lb.run(lb.FedRidge(), PARTIES, PUBLIC, "decision-tree", features=FEATURES).model
    assert own is not None
    assert given is not None
    assert own.onnx == given.onnx
    with pytest.raises(LimbeckError, match=r"features and algorithm\.features differ"):
        lb.run(lb.FedRidge(features=lb.Features("fourier")), PARTIES, PUBLIC, "decision-tree", features=FEATURES)


def test_features_are_an_object_of_features() -> None:
    with pytest.raises(
        LimbeckError, match=r'features must be Features, such as lb.Features\("fourier"\), not \'fourier\''
    ):
        lb.run(lb.FedVote(), PARTIES, PUBLIC, "decision-tree", features="fourier")  # type: ignore[arg-type]


def test_the_record_has_the_hash_of_fedridges_map() -> None:
    record = lb.run(lb.FedRidge(features=FEATURES), PARTIES, PUBLIC, "decision-tree", seed=5).record
    assert record.data["features_hash"] == FEATURES.fit(PUBLIC, 5).hash


def test_features_need_public_rows() -> None:
    with pytest.raises(LimbeckError, match="features: the map is fitted on public rows"):
        lb.run(lb.Centralized(), PARTIES, models="decision-tree", features=FEATURES)
    table = {**TABLE, "data": {"name": "iris", "parties": 2}, "algorithm": {"name": "centralized"}, "features": {}}
    with pytest.raises(LimbeckError, match=r"x\.toml: features: the map is fitted on public rows"):
        check_table(Experiment, table, "x.toml")


def test_an_experiment_with_the_table_features(tmp_path: Path) -> None:
    table = {**TABLE, "features": {"kind": "standard", "number": 3}}
    result = run_experiment(check_table(Experiment, table, "x.toml"), table, processes=1)
    assert result.accuracy is not None
    assert result.accuracy > 0.5
    assert result.model is not None
    assert result.model.row == (4,)


def test_cached_runs_differ_by_their_features() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"features": {}},
        {"features": {"kind": "standard"}},
        {"features": {"number": 9}},
    ]
    plain, *others = (
        CachedRun(check_table(Experiment, {**TABLE, **more}, "x.toml"), TABLE, Path()) for more in changes
    )
    assert len({each.key for each in (plain, *others)}) == 4
    assert len({each.rows_key for each in (plain, *others)}) == 4


def test_the_estimator_sets_public_rows_aside_for_features() -> None:
    classifier = FederatedClassifier(lb.Centralized(), "decision-tree", features=FEATURES, random_state=0)
    assert classifier.fit(X, Y).predict(X).shape == (300,)
    assert classifier.result_.record.data["public"] == 60
