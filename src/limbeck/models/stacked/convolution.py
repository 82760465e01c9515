"""Convolutions of many networks at once; x has the shape (networks, rows, channels, height, width).

A library's grouped convolution is slow for small groups. For large groups it changes the memory layout, which costs
time. Small convolutions are therefore computed as one batched matrix product over patches. Large ones in bfloat16 are
one Triton kernel for all networks (`half_convolution.py`). Other large ones run at the same time, each on a stream.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

SMALL = ((32, 2**20), (256, 32))  # pairs of the maximum values of a patch and the maximum output channels
FEW = 32  # output channels; with more of them, channels instead of pixels are stored last
ALIGNED = 8  # the matrix units of a GPU need patches of a multiple of so many values
AT_ONCE = 16  # large convolutions that run at once


@torch.library.custom_op("limbeck::convolution", mutates_args=())
def convolution(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    """Convolve the rows of one network. Under `vmap`, convolve the rows of all networks at once."""
    return F.conv2d(x, weight, None, stride, padding)


@convolution.register_fake
def _(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    return x.new_empty(len(x), len(weight), *_sides(x.shape[2:], weight.shape[2:], stride, padding))


@convolution.register_vmap
def _(info: Any, dims: Any, x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> tuple[Tensor, int]:
    x, weight = (
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in ((x, dims[0]), (weight, dims[1]))
    )
    if is_small(weight, stride):
        return _by_patches(F.pad(x, (padding[1], padding[1], padding[0], padding[0])), weight), 0
    return side_by_side(x, weight, stride, padding), 0


def is_small(weight: Tensor, stride: list[int] | tuple[int, ...]) -> bool:
    """Whether the convolutions of a stack are computed by patches.

    Parameters
    ----------
    weight : Tensor of shape (networks, out channels, in channels, height, width)
        Weights of all networks.
    stride : list or tuple of int
        Stride of the convolution.

    Returns
    -------
    bool
        True for small kernels with stride 1.
    """
    values, channels = weight[0, 0].numel(), weight.shape[1]
    return list(stride) == [1, 1] and any(values <= most and channels <= widest for most, widest in SMALL)


def _by_patches(x: Tensor, weight: Tensor) -> Tensor:
    networks, rows, _, height, width = x.shape
    sides = (height - weight.shape[3] + 1, width - weight.shape[4] + 1)
    cut, factor = patches(x.flatten(0, 1), *weight.shape[3:]), weight.flatten(2)
    if weight.shape[1] <= FEW:
        return cast(Tensor, (factor[:, None] @ cut.unflatten(0, (networks, rows))).unflatten(3, sides))
    filled = -factor.shape[2] % ALIGNED
    cut = F.pad(cut, (0, 0, 0, filled)).mT.contiguous().unflatten(0, (networks, rows))
    found = cut @ F.pad(factor, (0, filled)).mT[:, None]
    return cast(Tensor, found.unflatten(2, sides).permute(0, 1, 4, 2, 3))


def _patches(x: Tensor, height: int, width: int) -> Tensor:
    found = x.unfold(2, height, 1).unfold(3, width, 1).permute(0, 1, 4, 5, 2, 3)
    return found.flatten(4).flatten(1, 3).contiguous()


@torch.library.custom_op("limbeck::patches", mutates_args=())
def patches(x: Tensor, height: int, width: int) -> Tensor:
    """Patches of images: (rows, channels, height, width) becomes (rows, channels * kernel size, positions)."""
    return _patches(x, height, width)


def show_to_compiler() -> None:
    """Register `patches` with the compiler, so that it fuses them with the operation that computes the images."""
    from torch._decomp import register_decomposition
    from torch._inductor.decomposition import decompositions

    op = torch.ops.limbeck.patches.default
    if op not in decompositions:
        register_decomposition([op], decompositions)(_patches)


@patches.register_fake
def _(x: Tensor, height: int, width: int) -> Tensor:
    positions = (x.shape[2] - height + 1) * (x.shape[3] - width + 1)
    return x.new_empty(len(x), x.shape[1] * height * width, positions)


def _remember_patches(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, *ctx.kernel = inputs
    ctx.sides = tuple(x.shape[2:])


def _put_back(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    """Gradient with respect to the images: for each pixel, the sum of its gradients over all patches that contain it.

    The sum is written out if torch compiles it, because the compiler then fuses it into one kernel.
    """
    height, width = ctx.kernel
    if not torch.compiler.is_compiling():
        return F.fold(gradient, ctx.sides, ctx.kernel), None, None
    positions = (ctx.sides[0] - height + 1, ctx.sides[1] - width + 1)
    parts = gradient.unflatten(2, positions).unflatten(1, (-1, height, width))
    moved = [
        F.pad(parts[:, :, i, j], (j, width - 1 - j, i, height - 1 - i)) for i in range(height) for j in range(width)
    ]
    return sum(moved[1:], moved[0]), None, None


patches.register_autograd(_put_back, setup_context=_remember_patches)


@torch.library.custom_op("limbeck::side_by_side", mutates_args=())
def side_by_side(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    """Convolve the rows of all networks, one convolution for each network. On a GPU several run at the same time."""
    x, weight = channels_last(x), channels_last(weight)
    if (program := _program(x, weight, stride, padding)) is not None:
        kernels, sizes = program
        kernels.forward(x, weight, found := _empty(x, weight, stride, padding), sizes)
        return found
    if x.device.type != "cuda" or x.dtype == torch.float64:  # with float64, cuDNN returns channels first
        tasks = [partial(F.conv2d, x[i], weight[i], None, stride, padding) for i in range(len(x))]
        return _stacked(_together(tasks, x.device))
    cudnn, found = torch.backends.cudnn, _empty(x, weight, stride, padding)
    how = (padding, stride, [1, 1], 1, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    convolve = torch.ops.aten.cudnn_convolution.out
    _together([partial(convolve, x[i], weight[i], *how, out=found[i]) for i in range(len(x))], x.device)
    return found


@side_by_side.register_fake
def _(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    return _empty(x, weight, stride, padding)


@torch.library.custom_op("limbeck::side_by_side_backward", mutates_args=())
def _backward(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: list[int], padding: list[int], rows_too: bool
) -> tuple[Tensor, Tensor]:
    gradient, x, weight = channels_last(gradient), channels_last(x), channels_last(weight)
    if (program := _program(x, weight, stride, padding)) is not None:
        kernels, sizes = program
        to_rows, to_weight = torch.empty_like(x) if rows_too else x.new_empty(0), torch.empty_like(weight)
        if rows_too:
            kernels.gradient_of_rows(gradient, weight, to_rows, sizes)
        kernels.gradient_of_weights(gradient, x, to_weight, sizes)
        return to_rows, to_weight

    def gradient_to(number: int, i: int) -> Tensor:
        wanted = [number == 0, number == 1, False]
        how = (stride, padding, [1, 1], False, [0, 0], 1)
        found = torch.ops.aten.convolution_backward(gradient[i], x[i], weight[i], None, *how, wanted)
        return cast(Tensor, found[number])

    numbers = [0, 1] if rows_too else [1]
    tasks = [(number, i) for number in numbers for i in range(len(x))]
    found = _together([partial(gradient_to, *task) for task in tasks], x.device)
    return _stacked(found[: len(x)]) if rows_too else x.new_empty(0), _stacked(found[-len(x) :])


@_backward.register_fake
def _(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: list[int], padding: list[int], rows_too: bool
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(channels_last(x)) if rows_too else x.new_empty(0), torch.empty_like(channels_last(weight))


def _remember(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, weight, ctx.stride, ctx.padding = inputs
    ctx.save_for_backward(x, weight)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
    rows_too = ctx.needs_input_grad[0]
    rows, weight = _backward(gradient, *ctx.saved_tensors, ctx.stride, ctx.padding, rows_too)
    return rows if rows_too else None, weight, None, None


side_by_side.register_autograd(_gradients, setup_context=_remember)


def _program(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> tuple[Any, Any] | None:
    """Our own kernels for a convolution and its sizes, or None: they are for bfloat16 and whole blocks of channels."""
    if x.device.type != "cuda" or x.dtype != torch.bfloat16 or torch.cuda.get_device_capability() < (9, 0):
        return None
    from limbeck.models.stacked import half_convolution

    sizes = half_convolution.sizes_of(x, weight, stride, padding)
    return None if sizes is None else (half_convolution, sizes)


def channels_last(x: Tensor) -> Tensor:
    """Store the channels last in memory, as the matrix units of a GPU need them.

    Parameters
    ----------
    x : Tensor of shape (networks, rows, channels, height, width)
        Images or weights.

    Returns
    -------
    Tensor of the same shape
        The same values.

    Examples
    --------
    >>> channels_last(torch.zeros(2, 6, 3, 4, 5)).stride()
    (360, 60, 1, 15, 3)
    """
    flat = x.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    return cast(Tensor, flat.unflatten(0, x.shape[:2]))


def _empty(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    shape = (len(x) * x.shape[1], weight.shape[1], *_sides(x.shape[3:], weight.shape[3:], stride, padding))
    found = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    return cast(Tensor, found.unflatten(0, x.shape[:2]))


def _sides(image: Any, kernel: Any, stride: list[int], padding: list[int]) -> list[int]:
    return [(image[i] + 2 * padding[i] - kernel[i]) // stride[i] + 1 for i in range(2)]


def _together(tasks: Sequence[Callable[[], Tensor]], device: torch.device) -> list[Tensor]:
    """Results of all tasks; on a GPU several tasks run at the same time."""
    if device.type != "cuda":
        return [task() for task in tasks]
    here, streams, found = torch.cuda.current_stream(device), _streams(device)[: len(tasks)], []
    for stream in streams:
        stream.wait_stream(here)
    for i, task in enumerate(tasks):
        with torch.cuda.stream(streams[i % len(streams)]):
            found.append(task())
    for stream in streams:
        here.wait_stream(stream)
    return found


def _stacked(found: list[Tensor]) -> Tensor:
    """Results of all networks in one tensor with channels last, by one copy."""
    return torch.stack([each.permute(0, 2, 3, 1) for each in found]).permute(0, 1, 4, 2, 3)


@cache
def _streams(device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(AT_ONCE)]
