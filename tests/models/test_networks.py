"""The named networks: their shapes are the papers', they train, pack and vote."""

from typing import Any

import numpy as np
import pytest
import torch

from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.models.named import NETWORKS, PRESETS, model_from
from limbeck.models.networks import Shrunk, cnn, conv_net, resnet_8, torch_mlp, vgg_9
from limbeck.models.onnx import PackedModel
from limbeck.models.smoke_test import smoke_test
from limbeck.models.torch import TorchModel


def weights(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_papers_sizes() -> None:
    """FedKT's CNN on 28x28: 156 + 2416 + 30840 + 10164 + 850. FedKD's ResNet-8 on CIFAR: 4.9 million."""
    assert weights(cnn((1, 28, 28), 10)) == 44_426
    assert round(weights(resnet_8((3, 32, 32), 10)) / 1e6, 1) == 4.9
    first = next(layer for layer in vgg_9((3, 32, 32), 2) if isinstance(layer, torch.nn.Linear))  # type: ignore[attr-defined]
    assert (first.in_features, first.out_features) == (4096, 512)


@pytest.mark.parametrize("row", [(28, 28), (32, 32, 3), (30, 19)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_trains_packs_and_votes(name: str, row: tuple[int, ...]) -> None:
    smoke_test(model_from({"name": name}), row, 3)


def test_a_table_is_fit_for_a_perceptron() -> None:
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    fitted = model_from({"name": "torch-mlp", "hidden": [16, 8], "recipe": {"epochs": 20}}).fit(x, y, 2, seed=0)
    assert (PackedModel(fitted.pack()).vote(x) == y).mean() > 0.95


@pytest.mark.parametrize(("build", "least"), [(cnn, 16), (vgg_9, 8), (resnet_8, 8)])
def test_images_only_and_not_too_small(build: Any, least: int) -> None:
    build((1, least, least), 2)(torch.zeros(2, 1, least, least))
    for shape in ((64,), (1, least - 1, 28)):
        with pytest.raises(LimbeckError, match=f"images of at least {least}x{least}"):
            build(shape, 2)


def test_dropout_and_width_of_the_perceptron() -> None:
    network = torch_mlp((4,), 2, hidden=(7, 5), dropout=0.3)
    assert [m.out_features for m in network.modules() if isinstance(m, torch.nn.Linear)] == [7, 5, 2]


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"name": "cnnn"}, "unknown model 'cnnn'; did you mean 'cnn'?"),
        ({"name": "cnn", "recip": {}}, "no parameter 'recip'; did you mean 'recipe'?"),
        ({"name": "cnn", "recipe": {"epoch": 3}}, "recipe: unknown key 'epoch'; did you mean 'epochs'?"),
        ({"name": "cnn", "recipe": {"epochs": 0}}, "recipe: epochs = 0: Input should be"),
        ({"name": "cnn", "recipe": {"loss": "hinge"}}, "recipe: loss = 'hinge': Input should be 'cross-entropy'"),
        ({"name": "cnn", "recipe": 3}, "recipe = 3: write a table"),
    ],
)
def test_wrong_tables_are_reported(table: dict[str, Any], line: str) -> None:
    with pytest.raises(LimbeckError) as refusal:
        model_from(table)
    assert line in str(refusal.value)


def test_parameters_and_recipe_arrive() -> None:
    model = model_from({"name": "cnn", "mean": 0.13, "std": 0.31, "recipe": {"epochs": 7, "optimizer": "sgd"}})
    assert isinstance(model, TorchModel)
    assert (model.recipe.epochs, model.recipe.optimizer) == (7, "sgd")
    assert model.started((1, 28, 28), 10)[0].mean == 0.13  # type: ignore[index]


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("name", NETWORKS)
def test_packed_and_native_votes_agree(name: str, classes: int) -> None:
    """As for every other named model, on all digits and on two of them; `cnn` wants them three times as large."""
    digits = load("digits")
    held = np.flatnonzero(digits.y < classes)[:100]
    x, y = digits.x[held], digits.y[held]
    x = np.kron(x, np.ones((1, 3, 3), np.float32)) if name == "cnn" else x
    fitted = model_from({"name": name, "recipe": {"epochs": 1}}).fit(x, y, classes, seed=0)
    packed = PackedModel(fitted.pack())
    top = np.sort(fitted.scores(x), axis=1)
    clear = top[:, -1] - top[:, -2] >= 1e-5
    assert clear.mean() > 0.95
    assert np.array_equal(fitted.vote(x)[clear], packed.vote(x)[clear])
    assert np.array_equal(PackedModel(fitted.pack()).scores(x), packed.scores(x))


@pytest.mark.parametrize("name", PRESETS)
def test_fedmds_twenty_networks(name: str) -> None:
    """Filters by Tables 1 and 2; the last layer has no bias."""
    row = (28, 28) if "mnist" in name else (32, 32, 3)
    model = model_from({"name": name})
    assert isinstance(model, TorchModel)
    network = model.tried(row, 16)
    found = [layer.out_channels for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert found == list(PRESETS[name]["filters"])
    [head] = [layer for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    assert not list(head.named_parameters())[1:]
    assert head.out_features == 16
    assert {part.p for part in network.modules() if isinstance(part, torch.nn.Dropout)} == {PRESETS[name]["dropout"]}
    assert model.description == {"name": name}


def test_ones_own_network_in_a_table() -> None:
    model = model_from({"name": "conv-net", "filters": [4, 6, 8], "dropout": 0.1, "recipe": {"epochs": 1}})
    smoke_test(model, (28, 28), 16)
    with pytest.raises(LimbeckError, match="two to four numbers of filters, not"):
        conv_net((1, 28, 28), 10, filters=[4])
    for wrong in (4, ["a", "b"], [4, 0]):
        with pytest.raises(LimbeckError, match="two to four numbers of filters"):
            conv_net((1, 28, 28), 10, filters=wrong)  # type: ignore[arg-type]


def test_a_shrunk_layer_has_the_gradient_of_an_l2_penalty() -> None:
    torch.manual_seed(0)
    layer, x = Shrunk(5, 3, strength=2e-3), torch.rand(7, 5)
    layer(x).square().mean().backward()
    found = layer.weight.grad
    weight = layer.weight.detach().clone().requires_grad_()
    (torch.nn.functional.linear(x, weight).square().mean() + 1e-3 * weight.square().sum()).backward()
    assert found is not None
    assert weight.grad is not None
    assert torch.allclose(found, weight.grad, atol=1e-7)
