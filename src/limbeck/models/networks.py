"""Networks by name, each made for the shape of a row (channels first for images) and a number of classes.

Images have values in [0, 1]; `mean` and `std` are the normalization that belongs to the network.
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
    """Layer that computes (x - mean) / std, the same for every channel.

    Parameters
    ----------
    mean : float
        Mean of the values.
    std : float
        Standard deviation of the values.
    """

    def __init__(self, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


def cnn(shape: Shape, classes: int, mean: float = 0.5, std: float = 0.5) -> nn.Module:
    """FedKT's CNN (section 5): two 5x5 convolutions with pooling, and hidden layers of 120 and 84.

    Parameters
    ----------
    shape : tuple of int
        Shape of an image: channels, height, width.
    classes : int
        Number of classes.
    mean, std : float
        Normalization of the values.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not images of at least 16x16 pixels.

    Examples
    --------
    >>> cnn((1, 28, 28), 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
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
    """Fully connected network with batch norm of its input.

    Parameters
    ----------
    shape : tuple of int
        Shape of a row.
    classes : int
        Number of classes.
    hidden : sequence of int
        Widths of the hidden layers.
    dropout : float
        Share of the hidden values that are dropped.

    Returns
    -------
    nn.Module
        The network.

    Examples
    --------
    >>> torch_mlp((4,), 3, hidden=(8,))(torch.rand(2, 4)).shape
    torch.Size([2, 3])
    """
    widths = [math.prod(shape), *hidden]
    layers = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout))
    ]
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(widths[0]), *layers, nn.Linear(widths[-1], classes))


def vgg_9(shape: Shape, classes: int, mean: float = 0.5, std: float = 0.5) -> nn.Module:
    """FedKT's VGG-9 (Table 13): three pairs of 3x3 convolutions, each with pooling, and two hidden layers of 512.

    Parameters
    ----------
    shape : tuple of int
        Shape of an image: channels, height, width.
    classes : int
        Number of classes.
    mean, std : float
        Normalization of the values.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not images of at least 8x8 pixels.
    """
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
    """Two 3x3 convolutions with batch norm, and a shortcut.

    Parameters
    ----------
    before, after : int
        Number of input and output channels.
    stride : int
        Stride of the first convolution.
    """

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
    """FedKD's ResNet-8: a 3x3 stem of 128 channels, blocks of 128, 256 and 512, pooling to 2 x 2; 4.9 M weights.

    Parameters
    ----------
    shape : tuple of int
        Shape of an image: channels, height, width.
    classes : int
        Number of classes.
    mean, std : float
        Normalization of the values.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not images of at least 8x8 pixels.
    """
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

    Parameters
    ----------
    shape : tuple of int
        Shape of an image: channels, height, width.
    classes : int
        Number of classes.
    filters : sequence of int
        Number of filters of the two to four convolutions.
    dropout : float
        Share of the values that are dropped.
    mean : float
        Mean that is subtracted from the values.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not images, or are too small, or if `filters` has another length.

    Notes
    -----
    Two convolutions are 3x3, and 3x3 with stride 2. Three are 3x3, 2x2 with stride 2 and pooling, and 3x3 with stride
    2, as in the authors' code. A fourth, which the paper does not describe, is a 3x3 before the last.

    Differences from the authors' code: one mean is subtracted from all pixels, not each pixel's own mean. The running
    averages of batch norm depend on rows (`NormByRows`). The authors' code replaces a hundredth of them at every batch.
    While a consensus is digested, those averages lag behind: networks then give larger logits in prediction than in
    training, and the consensus grows from round to round. With torch's default, the averages would depend on only a
    few private rows after every revisit.
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
    """Batch norm whose running averages depend on rows, not on batches.

    Parameters
    ----------
    channels : int
        Number of channels.
    eps : float
        Added to the variance.
    forgets : float
        Share of the running averages that each row replaces.

    Notes
    -----
    A batch of n rows replaces the share 1 - (1 - forgets)^n. A batch of a few private rows changes the averages little,
    a batch of many public rows changes them much. With one share for every batch, either a few rows replace all earlier
    ones, or the averages lag behind weights that change quickly.
    """

    def __init__(self, channels: int, eps: float, forgets: float) -> None:
        super().__init__(channels, eps=eps)
        self.forgets = forgets

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.momentum = 1 - (1 - self.forgets) ** len(x)
        return super().forward(x)


class EdgeTwice(nn.Module):
    """Layer that repeats the last row and column of pixels, so that a 2x2 mean keeps the size of an image.

    The gradient of torch's own padding differs from run to run on a GPU.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, x[..., -1:, :]], dim=-2)
        return torch.cat([x, x[..., -1:]], dim=-1)


class Shrunk(nn.Linear):
    """Linear layer without bias, with the gradient of an L2 penalty on its weights.

    Parameters
    ----------
    features : int
        Number of inputs.
    classes : int
        Number of outputs.
    strength : float
        Factor of the weights in the gradient.
    """

    def __init__(self, features: int, classes: int, strength: float) -> None:
        super().__init__(features, classes, bias=False)
        self.strength = strength

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, _Shrinking.apply(self.weight, self.strength) if self.training else self.weight)  # type: ignore[no-untyped-call]


class WithGradient(torch.autograd.Function):
    """Identity on its first input; subclasses define the gradient of this input."""

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
    """Average an image after two strides of 2 into 2 x 2 fields; ONNX has no adaptive pooling."""
    h, w = math.ceil(height / 4), math.ceil(width / 4)
    return nn.AvgPool2d((math.ceil(h / 2), math.ceil(w / 2)), (h // 2, w // 2))


def _pooled(side: int) -> int:
    """Length of a side after two rounds of a 5x5 convolution and 2x2 pooling."""
    return ((side - 4) // 2 - 4) // 2


def _image(shape: Shape, name: str, least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        size = "x".join(map(str, shape))
        raise LimbeckError(f"{name} takes images of at least {least}x{least} pixels, not rows of {size} values")
    channels, height, width = shape
    return channels, height, width
