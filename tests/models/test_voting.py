"""Models of every kind in one file: what it votes is what they vote."""

import numpy as np
import pytest

from limbeck.data.sets import load
from limbeck.knowledge.votes import tally, winners
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.voting import voting

KINDS = (
    {"name": "random-forest", "n_estimators": 5},
    {"name": "svm"},
    {"name": "knn"},
    {"name": "torch-mlp", "recipe": {"epochs": 2}},
    {"name": "resnet-8", "recipe": {"epochs": 1, "batch": 64}},
)


@pytest.mark.parametrize("count", [1, 2, len(KINDS)])
def test_the_vote_of_forests_networks_and_neighbours(count: int) -> None:
    digits = load("digits")
    learned = digits.rows(np.arange(300))
    asked = digits.rows(np.arange(300, 600))
    members = [
        model_from(kind).fit(learned.x[i::count], learned.y[i::count], 10, i).pack()
        for i, kind in enumerate(KINDS[:count])
    ]
    votes = tally(np.stack([PackedModel(member).vote(asked.x) for member in members]), 10)
    together = PackedModel(voting(members))
    assert np.array_equal(together.vote(asked.x), winners(votes))
    assert np.allclose(together.scores(asked.x), votes / count)


def test_a_party_of_one_class_and_a_tie() -> None:
    x = np.random.default_rng(0).random((20, 4)).astype(np.float32)
    members = [model_from({"name": "naive-bayes"}).fit(x, np.full(20, label), 3, 0).pack() for label in (2, 1)]
    assert PackedModel(voting(members)).vote(x).tolist() == [1] * 20
