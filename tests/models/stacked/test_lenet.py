"""The CUDA program for small convolutional networks: which networks it takes, and that it trains them as all others do."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load
from torch import nn

from limbeck.models.device import Device
from limbeck.models.jobs import Refit
from limbeck.models.named import model_from
from limbeck.models.networks import Normalize, cnn, resnet_8
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.lenet import BANKS, ROWS, LeNetStack, Shape, group_size, shape_of
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.torch import TorchModel
from limbeck.protocol.recipe import Recipe

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
SIZES, CLASSES = (100, 40, 33, 64, 90), 10


def changed(number: int, layer: nn.Module) -> nn.Sequential:
    """FedKT's CNN with one layer replaced."""
    network = cnn((1, 28, 28), 10)
    assert isinstance(network, nn.Sequential)
    network[number] = layer
    return network


def hooked(network: nn.Module) -> nn.Module:
    """A network whose user looks at what its layers compute."""
    next(network.children()).register_forward_hook(lambda *given: None)
    return network


def test_fedkts_network_is_taken() -> None:
    assert shape_of(cnn((1, 28, 28), 10), (1, 28, 28)) == Shape(1, 28, 28, 5, 6, 16, 120, 84, 10)
    assert shape_of(cnn((1, 24, 20), 3), (1, 24, 20)) is not None


@pytest.mark.parametrize(
    "network",
    [
        changed(1, nn.Conv2d(1, 6, 5, padding=2)),
        changed(1, nn.Conv2d(1, 6, 5, bias=False)),
        changed(1, nn.Conv2d(1, 6, 7)),
        changed(4, nn.Conv2d(6, 15, 5)),
        changed(4, nn.Conv2d(6, 16, 3)),
        changed(3, nn.MaxPool2d(3)),
        changed(3, nn.MaxPool2d(2, ceil_mode=True)),
        changed(2, nn.Tanh()),
        changed(8, nn.Linear(256, 1000)),
        changed(8, nn.Linear(256, 120).requires_grad_(False)),
        hooked(cnn((1, 28, 28), 10)),
        nn.Sequential(*cnn((1, 28, 28), 10).children(), nn.ReLU()),
        nn.Sequential(Normalize(0.5, 0.5), nn.Flatten(), nn.Linear(784, 10)),
        resnet_8((1, 28, 28), 10),
    ],
)
def test_other_networks_are_left_to_the_general_stack(network: nn.Module) -> None:
    assert shape_of(network, (1, 28, 28)) is None


def test_only_plain_recipes_on_a_gpu_are_taken() -> None:
    network, row, targets = cnn((1, 28, 28), 10), (1, 28, 28), torch.zeros(4, dtype=torch.int64)
    assert not LeNetStack.fits(network, row, Recipe(), Device("cpu"), targets, corrected=False)
    for recipe in (Recipe(loss="kl"), Recipe(proximal=0.1), Recipe(augmentation="crop")):
        assert not LeNetStack.fits(network, row, recipe, Device("cuda"), targets, corrected=False)
    assert not LeNetStack.fits(network, row, Recipe(), Device("cuda", "bfloat16"), targets, corrected=False)
    assert not LeNetStack.fits(network, row, Recipe(), Device("cuda"), torch.zeros(4, 10), corrected=False)
    assert not LeNetStack.fits(network, row, Recipe(), Device("cuda"), targets, corrected=True)


@given(st.integers(2, 5), st.integers(16, 64))
def test_taps_of_a_kernel_lie_in_different_banks(kernel: int, width: int) -> None:
    shape = Shape(1, width, width, kernel, 6, 16, 120, 84, 10)
    for stride, (_, line) in zip(shape.strides, shape.sides[:2], strict=True):
        assert stride >= line
        assert len({(y * stride + x) % BANKS for y in range(kernel) for x in range(kernel)}) == kernel**2


@given(st.integers(1, 132), st.integers(1, 256))
def test_a_group_has_all_rows_and_all_groups_run_at_once(networks: int, batch: int) -> None:
    processors, least = 132, -(-batch // ROWS)
    if networks > processors // least:
        return  # LeNetStack.most does not allow so many
    group = group_size(networks, processors, batch)
    assert networks * group <= processors
    assert -(-batch // group) <= ROWS
    assert group <= batch


def jobs(recipe: Recipe, side: int = 28) -> list[Refit]:
    rng, model = np.random.default_rng(0), TorchModel(partial(cnn, mean=0.3, std=0.2), recipe)
    rows = [rng.random((size, side, side), dtype=np.float32) for size in SIZES]
    return [Refit(model, x, np.arange(len(x)) % CLASSES, None) for x in rows]


def on_gpu(fits: list[Refit], **given: object) -> list[bytes]:
    """Weights after training in a stack of the program."""
    device = Device("cuda")
    trainer = StackedTrainer(device, SequentialTrainer(device), **given)  # type: ignore[arg-type]
    found = trainer.run(fits, CLASSES, range(len(fits)))
    assert [stack["program"] for stack in trainer.stacks] == ["lenet"]
    return found


def distance(one: bytes, other: bytes) -> float:
    """Distance of two networks, relative to their size.

    The largest difference of a single weight would not do: Adam's first steps have length 1e-3 however small the gradient
    is, so rounding can turn one round.
    """
    ours, theirs = (torch.cat([values.flatten() for _, values in sorted(load(each).items())]) for each in (one, other))
    return float((ours - theirs).norm() / theirs.norm())


RECIPES = {
    "adam": Recipe(epochs=2, weight_decay=1e-3),
    "sgd": Recipe(epochs=2, optimizer="sgd", learning_rate=0.05, weight_decay=1e-3),
    "sgd without momentum": Recipe(epochs=2, optimizer="sgd", learning_rate=0.05, momentum=0.0),
    "odd batches": Recipe(epochs=2, batch=50),
    "one row": Recipe(epochs=1, batch=1),
    "a large batch": Recipe(epochs=3, batch=256, optimizer="sgd", learning_rate=0.05),
    "a cosine, stopped early": Recipe(epochs=6, batch=16, schedule="cosine", patience=1, held_out=0.3),
}


@needs_gpu
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(("most", "side"), [(None, 28), (2, 28), (1, 20)])
def test_weights_are_those_of_networks_trained_alone_on_a_cpu(name: str, most: int | None, side: int) -> None:
    fits = jobs(RECIPES[name], side)
    alone = PoolTrainer(1).run(fits, CLASSES, range(len(fits)))
    assert max(map(distance, on_gpu(fits, most=most), alone)) < 1e-3
    assert distance(alone[0], alone[1]) > 0.1


@needs_gpu
def test_the_same_seed_gives_the_same_bits() -> None:
    assert on_gpu(jobs(RECIPES["adam"])) == on_gpu(jobs(RECIPES["adam"]))


class StoppedError(Exception):
    """Raised in place of a progress bar, to interrupt a training."""


def stopping(ticks: object, total: int) -> object:
    for number, tick in enumerate(ticks):  # type: ignore[arg-type, var-annotated]
        if number == total // 2:
            raise StoppedError
        yield tick


@needs_gpu
def test_an_interrupted_training_continues_to_the_same_bits(tmp_path: Path) -> None:
    recipe = Recipe(epochs=300, batch=16)
    fits = [Refit(model_from({"name": "cnn"}), job.rows, job.targets, None, recipe) for job in jobs(recipe)]  # type: ignore[arg-type]
    undisturbed = on_gpu(fits)
    with pytest.raises(StoppedError):
        on_gpu(fits, checkpoints=Checkpoints(tmp_path, every=0), watch=stopping)
    assert list(tmp_path.iterdir())
    assert on_gpu(fits, checkpoints=Checkpoints(tmp_path, every=0)) == undisturbed
