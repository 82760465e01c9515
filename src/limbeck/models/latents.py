"""Latents for FedGEN: the inputs of a network's last layer, and a generator of them.

FedGEN is from Zhu, Hong & Zhou 2021.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from limbeck.errors import LimbeckError
from limbeck.models.networks import Shape, WithGradient
from limbeck.models.packing import channels_first
from limbeck.models.torch import TorchModel, alone

NOISE_SIZE, HIDDEN = 32, 256  # random numbers for one row, and the width of the generator


@dataclass(frozen=True, slots=True)
class Head:
    """Last layer of a network.

    Parameters
    ----------
    weight : str
        Name of its weight matrix.
    bias : str or None
        Name of its bias.
    latents : int
        Number of its inputs.
    """

    weight: str
    bias: str | None
    latents: int


def head_of(model: TorchModel, row: Shape, classes: int) -> Head:
    """Last layer of a network, or LimbeckError if the network does not end in a linear layer."""
    with alone(0):
        network = model.started(row, classes)
    last = network[-1] if isinstance(network, nn.Sequential) and len(network) else None
    if not isinstance(last, nn.Linear):
        raise LimbeckError(
            f"{model.name} cannot be trained on values of its last hidden layer: it must be an nn.Sequential that ends "
            "in a linear layer"
        )
    position = len(cast(nn.Sequential, network)) - 1
    return Head(f"{position}.weight", None if last.bias is None else f"{position}.bias", last.in_features)


def with_latents(model: TorchModel, row: Shape) -> TorchModel:
    """Network that takes rows of the form of `WithLatents`; its weights have the same names."""
    description = {**model.description, "name": f"{model.name} with latents"}
    return TorchModel(_WithLatents(model.architecture, row, model), model.recipe, description)


def generator(latents: int) -> TorchModel:
    """Generator of latents from a one-hot class and `NOISE_SIZE` random numbers."""
    return TorchModel(partial(_generator, latents=latents), description={"name": "generator", "latents": latents})


def taught_generator(latents: int, parties: int, diversity: float) -> TorchModel:
    """Generator that is trained through the last layers of some parties.

    Parameters
    ----------
    latents : int
        Number of values that the generator gives.
    parties : int
        Number of parties.
    diversity : float
        Weight of the diversity loss.
    """
    given: dict[str, Any] = {"latents": latents, "parties": parties, "diversity": diversity}
    return TorchModel(partial(Taught, **given), description={"name": "generator", **given})


class WithLatents(nn.Sequential):
    """Network whose rows are x, latents and a weight, one after the other.

    A row with a negative weight is predicted from its latents; batch norm alone uses its x. The absolute value of
    the weight multiplies the loss of the row.

    Parameters
    ----------
    network : nn.Sequential
        Network that ends in a linear layer.
    row : tuple of int
        Shape of x.
    """

    def __init__(self, network: nn.Sequential, row: Shape) -> None:
        super().__init__(*network)
        self.row = row

    def forward(self, rows: Tensor) -> Tensor:
        *body, head = self
        size = math.prod(self.row)
        x, latents, weight = rows[:, :size], rows[:, size:-1], rows[:, -1:]
        hidden = channels_first(x.reshape(-1, *self.row))
        for layer in body:
            hidden = layer(hidden)
        logits = cast(Tensor, head(torch.where(weight < 0, latents.to(hidden.dtype), hidden)))
        return cast(Tensor, _Weighed.apply(logits, weight.abs())) if self.training else logits  # type: ignore[no-untyped-call]


class Taught(nn.Module):
    """Generator followed by the parties' last layers, whose logits are averaged.

    A party's logits are weighted by its share of the rows of the class.

    Parameters
    ----------
    row : tuple of int
        Not used; the generator takes a one-hot class and noise.
    classes : int
        Number of classes.
    latents : int
        Number of values that the generator gives.
    parties : int
        Number of parties.
    diversity : float
        Weight of the diversity loss.
    """

    heads: Tensor
    biases: Tensor
    shares: Tensor

    def __init__(self, row: Shape, classes: int, latents: int, parties: int, diversity: float) -> None:
        super().__init__()
        self.classes, self.diversity = classes, diversity
        self.generator = _generator(row, classes, latents)
        self.register_buffer("heads", torch.zeros(parties, classes, latents))
        self.register_buffer("biases", torch.zeros(parties, classes))
        self.register_buffer("shares", torch.zeros(parties, classes))

    def forward(self, rows: Tensor) -> Tensor:
        latents = self.generator(rows)
        if self.training and self.diversity:
            latents = _Diverse.apply(latents, rows[:, self.classes :], self.diversity)  # type: ignore[no-untyped-call]
        predictions = torch.einsum("nl,pcl->npc", latents, self.heads) + self.biases
        return torch.einsum("npc,np->nc", predictions, rows[:, : self.classes] @ self.shares.T)


def _generator(row: Shape, classes: int, latents: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(classes + NOISE_SIZE, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, latents)
    )


@dataclass(frozen=True, slots=True)
class _WithLatents:
    architecture: Hashable
    row: Shape
    model: TorchModel = field(compare=False, repr=False)

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return WithLatents(cast(nn.Sequential, self.model.started(self.row, classes)), self.row)


class _Weighed(WithGradient):
    """Identity for logits that multiplies the gradient of each row by its weight, which weights the row's loss."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        [weight] = ctx.saved_tensors
        return gradient * weight.to(gradient.dtype), None


class _Diverse(WithGradient):
    """Identity for latents that adds the gradient of FedGEN's diversity loss.

    The loss is exp(-mean of |difference of latents| (difference of noise)^2), a mean over pairs of rows. It is low if
    different noise gives different latents.
    """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        latents, noise, ctx.strength = inputs
        ctx.save_for_backward(latents, noise)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        latents, noise = ctx.saved_tensors
        between = latents[:, None] - latents[None]
        distance = ((noise[:, None] - noise[None]) ** 2).mean(2)
        loss = torch.exp(-(between.abs().mean(2) * distance).mean())
        pairs, values = distance.numel(), latents.shape[1]
        slope = -2 * loss * (distance[:, :, None] * between.sign()).sum(1) / (pairs * values)
        return gradient + ctx.strength * slope, None, None
