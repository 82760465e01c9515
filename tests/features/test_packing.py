"""A model of features, packed with the map, predicts raw rows as the model predicts the vectors."""

import numpy as np
import pytest

from limbeck.features.map import FeatureMap
from limbeck.features.packing import packed_behind
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel, with_metadata
from limbeck.protocol.rows import Array

RNG = np.random.default_rng(0)
ROWS = {"standard": RNG.normal(size=(80, 5)), "fourier": RNG.normal(size=(80, 5)), "patches": RNG.random((80, 12, 12))}


def fitted(name: str, features: FeatureMap, x: Array) -> tuple[bytes, Array]:
    """A packed model of the vectors, and the vectors."""
    vectors = features.vectors(x)
    labels = (vectors[:, 0] > 0).astype(np.int64)
    table = {"name": name} | ({"recipe": {"epochs": 1}} if name == "torch-mlp" else {})
    return model_from(table).fit(vectors, labels, 2, 0).pack(), vectors


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", ["decision-tree", "logistic-regression", "torch-mlp"])
def test_raw_rows_get_the_predictions_of_their_vectors(kind: str, name: str) -> None:
    if name == "torch-mlp":
        pytest.importorskip("torch", reason="limbeck[torch] is not installed")
    x = ROWS[kind].astype(np.float32)
    features = FeatureMap.fit(kind, x, seed=0, number=6)
    model, vectors = fitted(name, features, x)
    whole = PackedModel(packed_behind(features, model))
    labels, scores = PackedModel(model).run(vectors)
    assert (whole.vote(x) == labels).all()
    assert np.abs(whole.scores(x) - scores).max() < 1e-6
    assert whole.has_probabilities == PackedModel(model).has_probabilities


def test_metadata_stays_and_an_input_of_raw_rows_is_declared() -> None:
    x = ROWS["patches"].astype(np.float32)
    features = FeatureMap.fit("patches", x, seed=0, number=6)
    model, _ = fitted("decision-tree", features, x)
    whole = PackedModel(packed_behind(features, with_metadata(model, {"columns": "3"})))
    assert whole.metadata["columns"] == "3"
    assert whole.session.get_inputs()[0].shape[1:] == [12, 12]
