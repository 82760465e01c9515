"""Networks by name. Each is made for a row's shape (channels first for images) and a number of classes.

Images come in [0, 1]; `mean` and `std` are the normalisation that belongs to the network.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from limbeck.errors import LimbeckError

Shape = tuple[int, ...]


class Normalize(nn.Module):
    """(x - mean) / std, the same for every channel."""

    def __init__(self, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


def cnn(shape: Shape, classes: int, mean: float = 0.5, std: float = 0.5) -> nn.Module:
    """FedKT's CNN (section 5): two 5x5 convolutions with pooling, two hidden layers of 120 and 84."""
    channels, height, width = _image(shape, "cnn", least=16)
    features = 16 * _pooled(height) * _pooled(width)
    return nn.Sequential(
        Normalize(mean, std),
        *(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(features, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, classes),
    )


def torch_mlp(shape: Shape, classes: int, hidden: Sequence[int] = (64,), dropout: float = 0.0) -> nn.Module:
    """Fully connected layers over batch-normalised values."""
    widths = [math.prod(shape), *hidden]
    layers = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout))
    ]
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(widths[0]), *layers, nn.Linear(widths[-1], classes))


def vgg_9(shape: Shape, classes: int, mean: float = 0.5, std: float = 0.5) -> nn.Module:
    """FedKT's VGG-9 (Table 13): six 3x3 convolutions in three pooled pairs, two hidden layers of 512."""
    channels, height, width = _image(shape, "vgg-9", least=8)

    def pair(before: int, middle: int, after: int) -> list[nn.Module]:
        convolutions = (nn.Conv2d(before, middle, 3, padding=1), nn.ReLU(), nn.Conv2d(middle, after, 3, padding=1))
        return [*convolutions, nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        Normalize(mean, std),
        *pair(channels, 32, 64),
        *(*pair(64, 128, 128), nn.Dropout(0.1)),
        *(*pair(128, 256, 256), nn.Dropout(0.1)),
        nn.Flatten(),
        *(nn.Linear(256 * (height // 8) * (width // 8), 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1)),
        nn.Linear(512, classes),
    )


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = _convolution(before, after, 3, stride), nn.BatchNorm2d(after)
        self.second, self.second_norm = _convolution(after, after, 3, 1), nn.BatchNorm2d(after)
        same = stride == 1 and before == after
        projection = nn.Sequential(_convolution(before, after, 1, stride), nn.BatchNorm2d(after))
        self.shortcut = nn.Identity() if same else projection

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(h)) + self.shortcut(x))


def resnet_8(shape: Shape, classes: int, mean: float = 0.5, std: float = 0.25) -> nn.Module:
    """FedKD's ResNet-8: a 3x3 stem of 128 channels, stages of 128, 256, 512, pooled to 2 x 2; 4.9 M weights."""
    channels, height, width = _image(shape, "resnet-8", least=8)
    return nn.Sequential(
        Normalize(mean, std),
        *(_convolution(channels, 128, 3, 1), nn.BatchNorm2d(128), nn.ReLU()),
        ResidualBlock(128, 128, 1),
        ResidualBlock(128, 256, 2),
        ResidualBlock(256, 512, 2),
        *(_pool_to_two(height, width), nn.Flatten(), nn.Linear(2048, classes)),
    )


def conv_net(
    shape: Shape, classes: int, filters: Sequence[int] = (128, 256), dropout: float = 0.2, mean: float = 0.0
) -> nn.Module:
    """FedMD's networks (Tables 1 and 2): convolutions with batch norm and dropout, then one layer without bias.

    Two convolutions: 3x3, 3x3 with stride 2; three: 3x3, 2x2 with stride 2 and pooling, 3x3 with stride 2, as in the
    authors' code. A fourth, which the paper does not describe, is 3x3 before the last. One mean for all pixels is
    subtracted, where the authors subtract each pixel's own. Batch norm remembers by rows, where theirs forgets a
    hundredth at every batch: its averages lag behind while a consensus is digested, so that networks are louder when
    they are asked than when they are trained, and each round's consensus is louder than the last. With torch's haste it
    would know nothing but a few private rows after every revisit.
    """
    numbers = filters if isinstance(filters, Sequence) else []
    if not (2 <= len(numbers) <= 4 and all(isinstance(number, int) and number >= 1 for number in numbers)):
        raise LimbeckError(f"conv-net takes two to four numbers of filters, not {filters}")
    channels, height, width = _image(shape, "conv-net", least=8 if len(filters) == 2 else 12)
    kinds = [(3, 1, 1), *[(2, 2, 0), (3, 1, 1)][: len(filters) - 2], (3, 2, 0)]
    layers: list[nn.Module] = [Normalize(mean, 1.0)]
    pairs = pairwise([channels, *filters])
    for i, ((before, after), (size, stride, padding)) in enumerate(zip(pairs, kinds, strict=True)):
        layers += [
            nn.Conv2d(before, after, size, stride, padding),
            NormByRows(after, eps=1e-3, forgets=1e-3),
            nn.ReLU(),
            nn.Dropout(dropout),
        ]
        layers += [EdgeTwice(), nn.AvgPool2d(2, 1)] if i == 0 else []
        layers += [nn.AvgPool2d(2)] if size == 2 else []
        height, width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
        height, width = (height // 2, width // 2) if size == 2 else (height, width)
    return nn.Sequential(*layers, nn.Flatten(), Shrunk(filters[-1] * height * width, classes, strength=2e-3))


class NormByRows(nn.BatchNorm2d):
    """Batch norm whose averages go by rows, not by batches: each row takes the place of a share of what is known.

    A batch of a few private rows moves them little, one of many public rows much. With one share for every batch,
    either a few rows make it forget all others, or the averages lag behind weights that change quickly.
    """

    def __init__(self, channels: int, eps: float, forgets: float) -> None:
        super().__init__(channels, eps=eps)
        self.forgets = forgets

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.momentum = 1 - (1 - self.forgets) ** len(x)
        return super().forward(x)


class EdgeTwice(nn.Module):
    """The last row and column of pixels once more, so that a mean over 2x2 keeps an image's size.

    Torch's own padding has a gradient that differs from run to run on a GPU.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, x[..., -1:, :]], dim=-2)
        return torch.cat([x, x[..., -1:]], dim=-1)


class Shrunk(nn.Linear):
    """A layer without bias whose weights are drawn to zero: the gradient of an L2 penalty, on these weights alone."""

    def __init__(self, features: int, classes: int, strength: float) -> None:
        super().__init__(features, classes, bias=False)
        self.strength = strength

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, _Shrinking.apply(self.weight, self.strength) if self.training else self.weight)  # type: ignore[no-untyped-call]


class WithGradient(torch.autograd.Function):
    """The first of its inputs as it is: kinds of it say what gradient that gets."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, *others: Any) -> Tensor:
        return values.view_as(values)


class _Shrinking(WithGradient):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        weight, ctx.strength = inputs
        ctx.save_for_backward(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        [weight] = ctx.saved_tensors
        return gradient + ctx.strength * weight, None


def _convolution(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def _pool_to_two(height: int, width: int) -> nn.AvgPool2d:
    """Average what two strides of 2 leave of an image into 2 x 2 fields; ONNX has no adaptive pooling."""
    h, w = math.ceil(height / 4), math.ceil(width / 4)
    return nn.AvgPool2d((math.ceil(h / 2), math.ceil(w / 2)), (h // 2, w // 2))


def _pooled(side: int) -> int:
    """What two rounds of a 5x5 convolution and 2x2 pooling leave of a side."""
    return ((side - 4) // 2 - 4) // 2


def _image(shape: Shape, name: str, least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        size = "x".join(map(str, shape))
        raise LimbeckError(f"{name} takes images of at least {least}x{least} pixels, not rows of {size} values")
    channels, height, width = shape
    return channels, height, width
