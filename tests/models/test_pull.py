"""What pulls at weights beside the loss: the start that a training is held near, and a correction that corrects gradients."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from limbeck.data.sets import load as load_set
from limbeck.models.device import Device
from limbeck.models.jobs import Refit
from limbeck.models.named import model_from
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.torch import TorchModel
from limbeck.protocol.recipe import Recipe

DIGITS = load_set("digits")
X, Y = DIGITS.x[:60], DIGITS.y[:60]
SGD = Recipe(epochs=1, batch=64, optimizer="sgd", momentum=0.0, learning_rate=0.1)
ADAM = Recipe(epochs=6, batch=16)


def network() -> TorchModel:
    model = model_from({"name": "torch-mlp", "hidden": [8]})
    assert isinstance(model, TorchModel)
    return model


def first() -> bytes:
    return network().first_weights(X.shape[1:], 10, 0)


def correction() -> bytes:
    rng = np.random.default_rng(0)
    return save({n: rng.normal(size=v.shape).astype(np.float32) for n, v in sorted(load(first()).items())})


def trained(recipe: Recipe, correction: bytes | None = None) -> dict[str, np.ndarray]:
    return load(Refit(network(), X, Y, first(), recipe, correction).run(10, 0))


def test_a_correction_is_added_to_the_gradient() -> None:
    """One step of SGD: w - rate (g + d) lies rate times d away from w - rate g."""
    plain, corrected, by = trained(SGD), trained(SGD, correction()), load(correction())
    for name in network().trained_names(X.shape[1:], 10):
        assert np.allclose(plain[name] - corrected[name], 0.1 * by[name], atol=1e-6)


def test_one_step_feels_no_pull_to_where_it_starts_and_the_second_one_does() -> None:
    """After w1 = w0 - rate g0, mu pulls by rate mu (w1 - w0) = -rate^2 mu g0 more than without it."""
    once, twice = replace(SGD, proximal=3.0), replace(SGD, epochs=2, proximal=3.0)
    assert all((trained(once)[name] == values).all() for name, values in trained(SGD).items())
    start, one, two, pulled = load(first()), trained(SGD), trained(replace(SGD, epochs=2)), trained(twice)
    for name in network().trained_names(X.shape[1:], 10):
        assert np.allclose(pulled[name] - two[name], -0.1 * 3.0 * (one[name] - start[name]), atol=1e-6)


def jobs(recipe: Recipe, pushed: bytes | None) -> list[Refit]:
    return [Refit(network(), X[: 60 - 7 * i], Y[: 60 - 7 * i], first(), recipe, pushed) for i in range(3)]


@pytest.mark.parametrize("pushed", [None, correction()], ids=["", "correction"])
@pytest.mark.parametrize("proximal", [0.0, 0.5])
@pytest.mark.parametrize("recipe", [ADAM, replace(SGD, epochs=6, batch=16)], ids=["adam", "sgd"])
def test_a_stack_is_pulled_as_a_network_alone(recipe: Recipe, proximal: float, pushed: bytes | None) -> None:
    device = Device(precision="float64")
    fits = jobs(replace(recipe, proximal=proximal), pushed)
    alone = SequentialTrainer(device).run(fits, 10, range(3))
    stacked = StackedTrainer(device, SequentialTrainer(device)).run(fits, 10, range(3))
    for one, other in zip(map(load, alone), map(load, stacked), strict=True):
        assert max(float(np.abs(one[name] - other[name]).max()) for name in one) < 1e-6


@pytest.mark.slow
def test_a_pulled_training_that_was_interrupted_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    """Checkpoints after every window; another trainer restores the last one that was written midway."""
    fits = jobs(replace(ADAM, proximal=0.5, epochs=200), correction())
    device = Device()
    whole = StackedTrainer(device, SequentialTrainer(device)).run(fits, 10, range(3))

    class Stopped(Exception):  # noqa: N818
        pass

    def stop_midway(ticks, count):  # type: ignore[no-untyped-def]
        for tick in ticks:
            if tick == 1:
                raise Stopped
            yield tick

    interrupted = StackedTrainer(device, SequentialTrainer(device), checkpoints=Checkpoints(tmp_path, every=0.0))
    interrupted.watch = stop_midway
    with pytest.raises(Stopped):
        interrupted.run(fits, 10, range(3))
    assert list(tmp_path.iterdir())
    resumed = StackedTrainer(device, SequentialTrainer(device), checkpoints=Checkpoints(tmp_path))
    assert resumed.run(fits, 10, range(3)) == whole
