"""A stack equals its networks trained one by one: rows of different number, batch norm, dropout, every recipe."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from limbeck.models.descent import LOSSES, train
from limbeck.models.device import Device
from limbeck.models.jobs import Fit
from limbeck.models.networks import NormByRows, cnn, resnet_8, torch_mlp
from limbeck.models.schedule import BatchSchedule
from limbeck.models.stacked.deduplication import deduplicated
from limbeck.models.stacked.stack import Stack, State
from limbeck.models.stacked.training_run import TrainingRun, take
from limbeck.models.text_networks import bag_of_embeddings, text_cnn
from limbeck.models.torch import TorchModel, alone, on
from limbeck.models.trainers import Precision
from limbeck.protocol.recipe import Recipe

gpu = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))
devices = pytest.mark.parametrize("device", ["cpu", gpu])
SIZES, SMALL_SIZES = (9, 40, 17, 33), (3, 8, 5)
CLASSES = 4


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def norms(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Batch norm and dropout over images and over values, and a weight that nothing uses.

    No bias before batch norm: its gradient is zero but for rounding, which Adam would blow up.
    """
    sides = (shape[1] // 2) * (shape[2] // 2)
    network = nn.Sequential(
        *(
            nn.Conv2d(shape[0], 6, 3, padding=1, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.MaxPool2d(2),
        ),
        *(
            nn.Flatten(),
            nn.Linear(6 * sides, 16, bias=False),
            nn.BatchNorm1d(16, momentum=None),
            nn.ReLU(),
            nn.Dropout(0.5),
        ),
        nn.Linear(16, classes),
    )
    network.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return network


def jobs(build: Any, row: tuple[int, ...], recipe: Recipe, soft: bool = False) -> list[Fit]:
    rng = np.random.default_rng(0)
    model, sizes = TorchModel(build, recipe), SMALL_SIZES if build is resnet_8 else SIZES
    targets = [rng.random((n, CLASSES)) if soft else np.arange(n) % CLASSES for n in sizes]
    return [Fit(model, rng.random((len(y), *row), dtype=np.float32), y) for y in targets]


def alone_at(device: Device, fits: list[Fit]) -> list[State]:
    states = []
    for seed, fit in enumerate(fits):
        model = fit.model
        assert isinstance(model, TorchModel)
        with alone(seed):
            network = model.started(fit.rows.shape[1:], CLASSES).to(device.type, device.dtype)
        with device.numerics():
            train(network, *on(device, fit.rows, fit.targets), model.recipe, seed, device)
        states.append(dict(network.state_dict()))
    return states


def stacked_at(device: Device, fits: list[Fit], depth: int) -> list[State]:
    model, data, row = fits[0].model, deduplicated(fits, device), fits[0].rows.shape[1:]
    assert isinstance(model, TorchModel)
    trainings = [
        TrainingRun(seed, seed, BatchSchedule(len(fit.rows), model.recipe, seed), at)
        for seed, (fit, at) in enumerate(zip(fits, data.offsets, strict=True))
    ]
    stack = Stack(model.started(row, CLASSES), depth, model.recipe, device, data.rows, data.targets, compiled=False)
    shares = list(take(stack, trainings, lambda training: training.begin(model, row, CLASSES)))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return [training.state for training in trainings]


def farthest(ones: list[State], others: list[State]) -> float:
    pairs = [(one[name], other[name]) for one, other in zip(ones, others, strict=True) for name in one]
    return max((one.cpu().double() - other.cpu().double()).abs().max().item() for one, other in pairs)


def logits(device: Device, fits: list[Fit], states: list[State]) -> torch.Tensor:
    model = fits[0].model
    assert isinstance(model, TorchModel)
    network = model.started(fits[0].rows.shape[1:], CLASSES).to(device.type, device.dtype).eval()
    found = []
    for state in states:
        copy.copy(network).load_state_dict(state)
        with torch.no_grad(), device.numerics():
            found.append(network(on(device, fits[1].rows)[0]))
    return torch.stack(found)


def by_rows(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One whose averages go by rows, so that a short batch counts less."""
    sides = (shape[1] // 2) * (shape[2] // 2)
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 6, 3, padding=1, bias=False), NormByRows(6, 1e-3, 0.01), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(6 * sides, classes)),
    )


NETWORKS = {
    "by-rows": (by_rows, (12, 12), Recipe(epochs=5, batch=8, optimizer="sgd", learning_rate=0.05)),
    "cnn": (cnn, (20, 20), Recipe(epochs=5, batch=8, weight_decay=1e-3)),
    "norms": (norms, (12, 12), Recipe(epochs=5, batch=8, optimizer="sgd", learning_rate=0.05, weight_decay=1e-3)),
    "resnet-8": (resnet_8, (8, 8, 3), Recipe(epochs=5, batch=2, optimizer="sgd", weight_decay=3e-4)),
}


@devices
@pytest.mark.parametrize("name", ["by-rows", "cnn", "norms", pytest.param("resnet-8", marks=pytest.mark.slow)])
def test_weights_are_those_of_networks_trained_alone(name: str, device: str) -> None:
    """At least 20 steps of the longest in float64: to 1e-9; four trainings in two slots."""
    build, row, recipe = NETWORKS[name]
    fits = jobs(build, row, recipe)
    assert max(BatchSchedule(len(fit.rows), recipe, 0).total for fit in fits) >= 20
    at = Device(device, "float64")
    assert farthest(alone_at(at, fits), stacked_at(at, fits, depth=2)) < 1e-9


@devices
@pytest.mark.parametrize("name", ["cnn", "norms", pytest.param("resnet-8", marks=pytest.mark.slow)])
def test_logits_are_those_of_networks_trained_alone(name: str, device: str) -> None:
    build, row, recipe = NETWORKS[name]
    fits, at = jobs(build, row, recipe), Device(device, "float32")
    one, other = (logits(at, fits, states) for states in (alone_at(at, fits), stacked_at(at, fits, 3)))
    assert (one - other).abs().max().item() < 1e-3


RECIPES = {
    "adam with a cosine": {"schedule": "cosine", "final_learning_rate": 1e-5},
    "sgd without momentum": {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 0.1},
    "augmented": {"augmentation": "crop-flip"},
    "stopped early": {"patience": 1, "held_out": 0.4, "epochs": 12, "learning_rate": 1e-2},
    **{f"loss {loss}": {"loss": loss, "temperature": 2.0} for loss in LOSSES},
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_works_for_each_network(name: str) -> None:
    recipe = replace(Recipe(epochs=3, batch=8), **RECIPES[name])  # type: ignore[arg-type]
    fits = jobs(norms, (12, 12), recipe, soft=recipe.loss != "cross-entropy")
    device = Device(precision="float64")
    ones, others = alone_at(device, fits), stacked_at(device, fits, 3)
    assert farthest(ones, others) < 1e-9
    assert farthest(ones[:1], others[1:2]) > 1e-3


def test_tables_are_stacked_too() -> None:
    """Columns far from zero: batch norm's one pass over the rows must not lose their spread."""
    fits = jobs(torch_mlp, (6,), Recipe(epochs=4, batch=8))
    fits = [replace(fit, rows=fit.rows + np.float32(1000)) for fit in fits]
    device = Device()
    one, other = (logits(device, fits, states) for states in (alone_at(device, fits), stacked_at(device, fits, 3)))
    assert (one - other).abs().max().item() < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_half_precision_moves_little(precision: Precision) -> None:
    """Ten steps of ResNet-8 in bfloat16 end near those in float64; float32 ends much nearer."""
    fits = jobs(resnet_8, (8, 8, 3), Recipe(epochs=2, batch=4, optimizer="sgd"))
    exact = logits(Device(precision="float64"), fits, stacked_at(Device(precision="float64"), fits, 4))
    device = Device(precision=precision)
    near = logits(device, fits, stacked_at(device, fits, 4))
    error = ((near - exact).norm() / exact.norm()).item()
    assert error < (1e-4 if precision == "float32" else 0.2)
    assert error > (0 if precision == "float32" else 1e-4)


def test_a_stack_takes_other_rows_into_its_place() -> None:
    device = Device()
    rows, targets = torch.rand(20, 6), torch.arange(20) % CLASSES
    stack = Stack(torch_mlp((6,), CLASSES), 2, Recipe(batch=4), device, rows, targets, compiled=False)
    assert stack.takes(torch.ones(12, 6), torch.zeros(12, dtype=torch.int64))
    assert (stack.rows[:12] == 1).all()
    assert not stack.takes(torch.ones(21, 6), torch.zeros(21, dtype=torch.int64))
    assert not stack.takes(torch.ones(12, 6), torch.zeros(12, CLASSES))


@pytest.mark.parametrize("build", [partial(text_cnn, filters=8), bag_of_embeddings], ids=["text-cnn", "bag"])
def test_texts_are_stacked_too(build: Any) -> None:
    """Token numbers from 0, which is no token, to some that share buckets."""
    fits = jobs(partial(build, buckets=64, size=6), (12,), Recipe(epochs=4, batch=8, learning_rate=1e-2))
    fits = [replace(fit, rows=np.floor(np.maximum(fit.rows - 0.3, 0) * 300)) for fit in fits]
    device = Device(precision="float64")
    assert farthest(alone_at(device, fits), stacked_at(device, fits, depth=2)) < 1e-9
