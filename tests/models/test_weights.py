"""A training that goes on with its optimizer's moments is the training that was never interrupted."""

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from limbeck.data.sets import load as load_set
from limbeck.models.device import Device
from limbeck.models.jobs import Refit
from limbeck.models.named import model_from
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.torch import TorchModel
from limbeck.models.weights import STEP_COUNT, continued, split_moments
from limbeck.protocol.recipe import Recipe

DIGITS = load_set("digits")
X, Y = DIGITS.x[:60], DIGITS.y[:60]
ADAM, SGD = Recipe(batch=64, epochs=2), Recipe(batch=64, epochs=2, optimizer="sgd", learning_rate=0.05)


def network() -> TorchModel:
    model = model_from({"name": "torch-mlp", "hidden": [8]})
    assert isinstance(model, TorchModel)
    return model


def farthest(one: bytes, other: bytes) -> float:
    ones, others = load(one), load(other)
    assert ones.keys() == others.keys()
    return max(float(np.abs(ones[name].astype(float) - others[name].astype(float)).max()) for name in ones)


@pytest.mark.parametrize("recipe", [ADAM, SGD], ids=["adam", "sgd"])
def test_two_halves_are_the_whole(recipe: Recipe) -> None:
    """One batch is all rows, so that their order does not matter."""
    model = network()
    first = model.first_weights(X.shape[1:], 10, 0)

    def trained(start: bytes, epochs: int) -> bytes:
        doubled = Recipe(**{**_fields(recipe), "epochs": epochs})
        return Refit(model, X, Y, start, doubled).run(10, 0)

    whole = trained(first, 4)
    weights, moments = split_moments(trained(continued(first, None), 2))
    halves, moved = split_moments(trained(continued(weights, moments), 2))
    assert farthest(whole, halves) < 1e-6
    assert load(moved)[STEP_COUNT].tolist() == [4]
    assert farthest(whole, trained(trained(first, 2), 2)) > 1e-4
    assert "#" not in "".join(load(whole))


@pytest.mark.parametrize("recipe", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize("patience", [None, 1])
def test_a_stack_goes_on_as_a_network_alone_does(recipe: Recipe, patience: int | None) -> None:
    model, device = network(), Device("cpu", "float64")
    short = Recipe(**{**_fields(recipe), "batch": 16, "patience": patience})
    starts = [continued(model.first_weights(X.shape[1:], 10, seed), None) for seed in range(3)]
    trainers: list[Any] = [SequentialTrainer(device), StackedTrainer(device, SequentialTrainer(device))]
    found = []
    for trainer in trainers:
        blobs = starts
        for turn in range(2):
            jobs = [Refit(model, X[: 60 - 9 * i], Y[: 60 - 9 * i], blob, short) for i, blob in enumerate(blobs)]
            blobs = trainer.run(jobs, 10, range(3 * turn, 3 * turn + 3))
        found.append(blobs)
    assert trainers[1].stacks[0]["networks"] == 3
    assert max(farthest(one, other) for one, other in zip(*found, strict=True)) < 1e-6


def test_weights_and_moments_are_separated_again() -> None:
    weights = network().first_weights(X.shape[1:], 10, 0)
    both = continued(weights, None)
    assert STEP_COUNT in load(both)
    found, moments = split_moments(both)
    assert farthest(found, weights) == 0
    assert continued(found, moments) == both


def _fields(recipe: Recipe) -> dict[str, Any]:
    return {name: getattr(recipe, name) for name in recipe.__slots__}
