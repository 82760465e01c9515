"""Stacks of small convolutional networks, such as FedKT's, trained by a CUDA program of our own (`lenet.cu`)."""

from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from itertools import count
from math import ceil
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from limbeck.models.device import Device
from limbeck.models.networks import Normalize
from limbeck.models.schedule import ABSENT, ADAM_BETAS, ADAM_EPSILON
from limbeck.models.stacked.cuda import CudaProgram
from limbeck.models.stacked.stack import Stack, State, Window
from limbeck.protocol.recipe import Recipe

THREADS, ROWS = 512, 8  # of a block; the same as in lenet.cu
BANKS = 32  # of shared memory
PATTERN = (
    *(Normalize, nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.Conv2d, nn.ReLU, nn.MaxPool2d),
    *(nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a network with two convolutions, each with ReLU and pooling, and three dense layers.

    Parameters
    ----------
    channels, height, width : int
        Size of an image.
    kernel : int
        Height and width of both kernels.
    filters_1, filters_2 : int
        Filters of the convolutions.
    hidden_1, hidden_2 : int
        Outputs of the first two dense layers.
    classes : int
        Outputs of the last one.
    """

    channels: int
    height: int
    width: int
    kernel: int
    filters_1: int
    filters_2: int
    hidden_1: int
    hidden_2: int
    classes: int

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Height and width of an image and after both poolings."""
        sides = [(self.height, self.width)]
        for _ in range(2):
            sides.append(tuple((side - self.kernel + 1) // 2 for side in sides[-1]))  # type: ignore[arg-type]
        return sides

    @property
    def strides(self) -> list[int]:
        """Length of a line of an image and of a first pooled one, for which no two taps share a memory bank."""
        return [_stride(self.kernel, width) for _, width in self.sides[:2]]

    @property
    def features(self) -> int:
        """Inputs of the first dense layer."""
        height, width = self.sides[2]
        return self.filters_2 * height * width

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, as `Shared` in lenet.cu, and a little for alignment."""
        (height, _), (height_1, width_1), _ = self.sides
        stride, stride_1 = self.strides
        taps = self.kernel**2
        per_row = (
            self.channels * height * stride
            + 2 * self.filters_1 * height_1 * (stride_1 + width_1)
            + 3 * self.features
            + 2 * (self.hidden_1 + self.hidden_2)
            + self.classes
            + 1
        )
        weights = self.channels * taps * (ceil(self.filters_1 / 4) * 4) + 2 * self.filters_1 * taps * self.filters_2
        whole = ROWS * per_row + weights + self.filters_1 + self.filters_2
        return 4 * whole + 256

    @property
    def is_possible(self) -> bool:
        """Whether the program has enough threads and scratch memory for it."""
        scratch = ROWS * self.filters_1 * self.sides[1][0] * self.strides[1]
        return (
            min(self.sides[2]) > 0
            and self.kernel**2 < BANKS
            and self.filters_1 <= 8
            and self.filters_2 % 4 == 0
            and max(self.features, self.hidden_1, self.hidden_2) <= THREADS
            and scratch >= max(THREADS * ROWS, THREADS * self.filters_1 * self.channels)
        )


def shape_of(network: nn.Module, row: tuple[int, ...]) -> Shape | None:
    """Sizes of a network that the program can train, or None.

    Parameters
    ----------
    network : nn.Module
        The network.
    row : tuple of int
        Shape of a row: channels, height, width.

    Returns
    -------
    Shape or None
        The sizes.

    Examples
    --------
    >>> from limbeck.models.networks import cnn, resnet_8
    >>> shape_of(cnn((1, 28, 28), 10), (1, 28, 28)).hidden_1
    120
    >>> shape_of(resnet_8((3, 32, 32), 10), (3, 32, 32)) is None
    True
    """
    if not isinstance(network, nn.Sequential) or tuple(map(type, network)) != PATTERN or len(row) != 3:
        return None
    layers: list[Any] = list(network)
    convolutions, pools, dense = (layers[1], layers[4]), (layers[3], layers[6]), (layers[8], layers[10], layers[12])
    plain = all(map(_is_plain, convolutions)) and all(map(_halves, pools)) and layers[7].start_dim == 1
    trained = all(weight.requires_grad for weight in network.parameters())
    plain = plain and not any(layer._forward_hooks or layer._forward_pre_hooks for layer in network.modules())
    plain = plain and len(list(network.parameters())) == 2 * (len(convolutions) + len(dense))  # none is shared
    if not plain or not trained or any(layer.bias is None for layer in (*convolutions, *dense)):
        return None
    sizes = (convolutions[0].out_channels, convolutions[1].out_channels, *(layer.out_features for layer in dense))
    shape = Shape(*row, convolutions[0].kernel_size[0], *sizes)
    same = convolutions[0].kernel_size == convolutions[1].kernel_size and shape.features == dense[0].in_features
    return shape if same and shape.is_possible else None


class LeNetStack(Stack):
    """Stack whose steps are a CUDA program: a group of blocks for each network, and a whole window in one launch."""

    @staticmethod
    def fits(
        network: nn.Module, row: tuple[int, ...], recipe: Recipe, device: Device, targets: Tensor, corrected: bool
    ) -> bool:
        """Whether the program can train a network by this recipe on this device."""
        plain = recipe.loss == "cross-entropy" and targets.ndim == 1 and recipe.augmentation == "none"
        if device.type != "cuda" or device.precision != "float32" or not plain or recipe.proximal or corrected:
            return False
        if torch.version.cuda is None or recipe.batch > THREADS or (shape := shape_of(network, row)) is None:
            return False
        gpu = torch.cuda.get_device_properties()
        allowed = getattr(gpu, "shared_memory_per_block_optin", 0)  # from torch 2.7 on
        return shape.shared_bytes <= allowed and LeNetStack.most(recipe.batch) > 0

    @staticmethod
    def most(batch: int) -> int:
        """Largest number of networks that can train at once: all their blocks must run at the same time."""
        return torch.cuda.get_device_properties().multi_processor_count // ceil(batch / ROWS)

    def _prepare(self) -> None:
        """Compile the program, and put the weights of each network one after the other."""
        self.program = "lenet"
        shape = cast(Shape, shape_of(self.plain, tuple(self.rows.shape[1:])))
        self._cuda = _program(shape, self.recipe.batch)
        self.rows = self.rows.contiguous()
        weights, self.weights = _joined(self.weights)
        moments = list(zip(*self.moments.values(), strict=True))
        joined = [_joined(dict(zip(self.moments, values, strict=True))) for values in moments]
        self.moments = {name: [views[name] for _, views in joined] for name in self.weights}
        self._factors = self.weights
        self._values = [weights, joined[0][0], joined[-1][0]]
        processors = torch.cuda.get_device_properties().multi_processor_count
        self._group = group_size(self.depth, processors, self.recipe.batch)
        self._gradients = torch.empty(processors, weights.shape[1], device=self.device.type)
        self._counters = torch.zeros(self.depth, dtype=torch.int32, device=self.device.type)
        self._normalize = cast(Normalize, next(iter(cast(nn.Sequential, self.plain))))

    def advance(self, window: Window) -> None:
        """Take a window's steps in all slots that have rows."""
        self._send(window)
        steps, active = len(window.rows), np.flatnonzero((window.rows[0] != ABSENT).any(axis=1)).astype(np.int32)
        self._counters.zero_()
        recipe, normalize = self.recipe, self._normalize
        self._active = self._sent(active).to(self.device.type, non_blocking=True)
        laid_out = [self._laid_out[name] for name in ("rows", "targets", "rates", "scales")]
        self._cuda.launch(
            len(active) * self._group,
            THREADS,
            [
                *(self.rows, self.targets, *laid_out, *self._values, self._gradients, self._counters, self._active),
                *(self.depth, steps, self._group, float(normalize.mean), float(normalize.std)),
                *(float(recipe.weight_decay), float(recipe.momentum), int(recipe.optimizer == "adam")),
            ],
        )


def group_size(networks: int, processors: int, batch: int) -> int:
    """Number of blocks that train one network together, each with at most `ROWS` rows of a batch.

    Parameters
    ----------
    networks : int
        Networks that train at once.
    processors : int
        Multiprocessors of the GPU; each runs one block.
    batch : int
        Rows of a step.

    Returns
    -------
    int
        As many as the GPU can run at once, but none without rows.

    Examples
    --------
    >>> group_size(networks=20, processors=132, batch=32), group_size(networks=33, processors=132, batch=32)
    (6, 4)
    >>> group_size(networks=1, processors=132, batch=32)
    32
    """
    return ceil(batch / ceil(batch / min(batch, processors // networks)))


def _joined(values: State) -> tuple[Tensor, State]:
    """Values of shape (networks, all weights and up to three zeros), and the views of them by name."""
    joined = torch.cat([each.detach().flatten(1) for each in values.values()], 1)
    whole = nn.functional.pad(joined, (0, -joined.shape[1] % 4))
    parts = whole[:, : joined.shape[1]].split([each[0].numel() for each in values.values()], 1)
    views = {name: part.unflatten(1, each.shape[1:]) for (name, each), part in zip(values.items(), parts, strict=True)}
    return whole, views


@cache
def _program(shape: Shape, batch: int) -> CudaProgram:
    constants = {
        **{field.name.upper(): value for field, value in zip(fields(shape), asdict(shape).values(), strict=True)},
        **{f"STRIDE_{number}": stride for number, stride in enumerate(shape.strides)},
        **{"BATCH": batch, "SHARED_BYTES": shape.shared_bytes},
        **{"BETA_1": ADAM_BETAS[0], "BETA_2": ADAM_BETAS[1], "EPSILON": ADAM_EPSILON},
    }
    source = files("limbeck.models.stacked").joinpath("lenet.cu").read_text()
    return CudaProgram(source, "train", [f"-D{name}={value}" for name, value in constants.items()], shape.shared_bytes)


def _stride(kernel: int, width: int) -> int:
    """Smallest length of a line for which all taps of a kernel lie in different memory banks."""
    taps = [(y, x) for y in range(kernel) for x in range(kernel)]
    return next(s for s in count(width) if len({(y * s + x) % BANKS for y, x in taps}) == len(taps))


def _is_plain(convolution: nn.Conv2d) -> bool:
    how = (convolution.stride, convolution.padding, convolution.dilation, convolution.groups, convolution.padding_mode)
    square = convolution.kernel_size[0] == convolution.kernel_size[1]
    return square and how == ((1, 1), (0, 0), (1, 1), 1, "zeros")


def _halves(pool: nn.MaxPool2d) -> bool:
    how = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
    return how in ((2, 2, 0, 1, False), ((2, 2), (2, 2), (0, 0), (1, 1), False))
