"""Large convolutions of many networks in bfloat16, all networks in one Triton kernel.

Images are [network, row, y, x, channel] in memory, weights [network, filter, ky, kx, channel]. Each kernel is a matrix
product whose rows are gathered while it is computed. The gradient of the rows of a convolution with stride S is
computed in S x S parts, one for each position modulo S, because the taps that reach a pixel depend on it.
"""

from dataclasses import asdict, dataclass
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 128  # of the left factor
TERMS = 64  # of a product, added at once
WIDTHS = (256, 128, 64)  # of blocks of the right factor
HOW = {"num_stages": 3, "num_warps": 8}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the convolution of one network; they are constants of the kernels, in capitals as there."""

    ROWS: int
    HEIGHT: int
    WIDTH: int
    CHANNELS: int
    HEIGHT_OUT: int
    WIDTH_OUT: int
    FILTERS: int
    KERNEL: int
    STRIDE: int
    PADDING: int


def sizes_of(x: Tensor, weight: Tensor, stride: list[int], padding: list[int]) -> Sizes | None:
    """Sizes of a convolution that the kernels can compute, or None.

    Parameters
    ----------
    x : Tensor of shape (networks, rows, channels, height, width)
        Images.
    weight : Tensor of shape (networks, filters, channels, kernel, kernel)
        Weights.
    stride, padding : list of int
        Stride and padding, down and across.
    """
    (filters, channels, kernel, across), (height, width) = weight.shape[1:], x.shape[3:]
    even = kernel == across and stride[0] == stride[1] and padding[0] == padding[1]
    if not even or filters % TERMS or channels % TERMS or height % stride[0] or width % stride[0]:
        return None
    down, right = ((side + 2 * padding[0] - kernel) // stride[0] + 1 for side in (height, width))
    return Sizes(x.shape[1], height, width, channels, down, right, filters, kernel, stride[0], padding[0])


def forward(x: Tensor, weight: Tensor, found: Tensor, sizes: Sizes) -> None:
    """Convolve; the result is written into `found`."""
    width = _width(sizes.FILTERS, sizes.KERNEL)
    blocks = -(-sizes.ROWS * sizes.HEIGHT_OUT * sizes.WIDTH_OUT // BLOCK) * (sizes.FILTERS // width)
    _forward[(blocks, len(x))](x, weight, found, **_constants(sizes, BLOCK, width))


def gradient_of_rows(gradient: Tensor, weight: Tensor, found: Tensor, sizes: Sizes) -> None:
    """Gradient of the images; the result is written into `found`."""
    width, parts = _width(sizes.CHANNELS, sizes.KERNEL), sizes.STRIDE**2
    blocks = -(-sizes.ROWS * sizes.HEIGHT * sizes.WIDTH // parts // BLOCK) * (sizes.CHANNELS // width)
    _gradient_of_rows[(blocks, len(found), parts)](gradient, weight, found, **_constants(sizes, BLOCK, width))


def gradient_of_weights(gradient: Tensor, x: Tensor, found: Tensor, sizes: Sizes) -> None:
    """Gradient of the weights; the result is written into `found`."""
    block, width = min(BLOCK, _width(sizes.FILTERS, 1)), _width(sizes.CHANNELS, sizes.KERNEL)
    blocks = (sizes.FILTERS // block) * (sizes.CHANNELS // width) * sizes.KERNEL**2
    _gradient_of_weights[(blocks, len(x))](gradient, x, found, **_constants(sizes, block, width))


def _width(count: int, kernel: int) -> int:
    """Width of a block: as large as possible, but for kernels of one tap at most `BLOCK`."""
    return next(width for width in WIDTHS if count % width == 0 and (kernel > 1 or width <= BLOCK))


def _constants(sizes: Sizes, block: int, width: int) -> dict[str, Any]:
    return {**asdict(sizes), "BLOCK": block, "ACROSS": width, "TERMS": TERMS, **HOW}


@triton.jit
def _forward(
    x,
    weight,
    found,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEIGHT_OUT: tl.constexpr,
    WIDTH_OUT: tl.constexpr,
    FILTERS: tl.constexpr,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
    ACROSS: tl.constexpr,
    TERMS: tl.constexpr,
):
    """Pixels x filters; the terms are channels of each tap."""
    network, block = tl.program_id(1).to(tl.int64), tl.program_id(0)
    pixel = block // (FILTERS // ACROSS) * BLOCK + tl.arange(0, BLOCK)
    filters = block % (FILTERS // ACROSS) * ACROSS + tl.arange(0, ACROSS)
    terms = tl.arange(0, TERMS)
    row, y, x_at = pixel // (HEIGHT_OUT * WIDTH_OUT), pixel // WIDTH_OUT % HEIGHT_OUT, pixel % WIDTH_OUT
    x += network * ROWS * HEIGHT * WIDTH * CHANNELS
    weight += network * FILTERS * KERNEL * KERNEL * CHANNELS
    found += network * ROWS * HEIGHT_OUT * WIDTH_OUT * FILTERS
    sums = tl.zeros((BLOCK, ACROSS), tl.float32)
    for i in range(KERNEL * KERNEL * (CHANNELS // TERMS)):
        tap, channel = i // (CHANNELS // TERMS), i % (CHANNELS // TERMS) * TERMS + terms
        down, right = y * STRIDE - PADDING + tap // KERNEL, x_at * STRIDE - PADDING + tap % KERNEL
        inside = (down >= 0) & (down < HEIGHT) & (right >= 0) & (right < WIDTH) & (row < ROWS)
        at = ((row * HEIGHT + down) * WIDTH + right) * CHANNELS
        left = tl.load(x + at[:, None] + channel[None, :], mask=inside[:, None], other=0.0)
        other = tl.load(weight + ((filters * KERNEL * KERNEL + tap) * CHANNELS)[:, None] + channel[None, :])
        sums = tl.dot(left, tl.trans(other), sums)
    mask = (row < ROWS)[:, None]
    tl.store(found + (pixel * FILTERS)[:, None] + filters[None, :], sums.to(found.dtype.element_ty), mask=mask)


@triton.jit
def _gradient_of_rows(
    gradient,
    weight,
    found,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEIGHT_OUT: tl.constexpr,
    WIDTH_OUT: tl.constexpr,
    FILTERS: tl.constexpr,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
    ACROSS: tl.constexpr,
    TERMS: tl.constexpr,
):
    """Pixels of one part x channels; the terms are filters of each tap that reaches them."""
    network, block, part = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.program_id(2)
    pixel = block // (CHANNELS // ACROSS) * BLOCK + tl.arange(0, BLOCK)
    channels = block % (CHANNELS // ACROSS) * ACROSS + tl.arange(0, ACROSS)
    terms = tl.arange(0, TERMS)
    row = pixel // ((HEIGHT // STRIDE) * (WIDTH // STRIDE))
    y = pixel // (WIDTH // STRIDE) % (HEIGHT // STRIDE) * STRIDE + part // STRIDE
    x = pixel % (WIDTH // STRIDE) * STRIDE + part % STRIDE
    first_down, first_right = (part // STRIDE + PADDING) % STRIDE, (part % STRIDE + PADDING) % STRIDE
    taps_down = (KERNEL - first_down + STRIDE - 1) // STRIDE
    taps_right = (KERNEL - first_right + STRIDE - 1) // STRIDE
    gradient += network * ROWS * HEIGHT_OUT * WIDTH_OUT * FILTERS
    weight += network * FILTERS * KERNEL * KERNEL * CHANNELS
    found += network * ROWS * HEIGHT * WIDTH * CHANNELS
    sums = tl.zeros((BLOCK, ACROSS), tl.float32)
    for i in range(taps_down * taps_right * (FILTERS // TERMS)):
        tap, filters = i // (FILTERS // TERMS), i % (FILTERS // TERMS) * TERMS + terms
        ky, kx = first_down + tap // taps_right * STRIDE, first_right + tap % taps_right * STRIDE
        down, right = (y + PADDING - ky) // STRIDE, (x + PADDING - kx) // STRIDE
        inside = (y + PADDING >= ky) & (down < HEIGHT_OUT) & (x + PADDING >= kx) & (right < WIDTH_OUT) & (row < ROWS)
        at = ((row * HEIGHT_OUT + down) * WIDTH_OUT + right) * FILTERS
        left = tl.load(gradient + at[:, None] + filters[None, :], mask=inside[:, None], other=0.0)
        at = ((filters * KERNEL + ky) * KERNEL + kx) * CHANNELS
        sums = tl.dot(left, tl.load(weight + at[:, None] + channels[None, :]), sums)
    at = ((row * HEIGHT + y) * WIDTH + x) * CHANNELS
    mask = (row < ROWS)[:, None]
    tl.store(found + at[:, None] + channels[None, :], sums.to(found.dtype.element_ty), mask=mask)


@triton.jit
def _gradient_of_weights(
    gradient,
    x,
    found,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEIGHT_OUT: tl.constexpr,
    WIDTH_OUT: tl.constexpr,
    FILTERS: tl.constexpr,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
    ACROSS: tl.constexpr,
    TERMS: tl.constexpr,
):
    """Filters x channels of one tap; the terms are pixels of all rows."""
    network, block = tl.program_id(1).to(tl.int64), tl.program_id(0)
    tap = block // (FILTERS // BLOCK * (CHANNELS // ACROSS))
    filters = block // (CHANNELS // ACROSS) % (FILTERS // BLOCK) * BLOCK + tl.arange(0, BLOCK)
    channels = block % (CHANNELS // ACROSS) * ACROSS + tl.arange(0, ACROSS)
    gradient += network * ROWS * HEIGHT_OUT * WIDTH_OUT * FILTERS
    x += network * ROWS * HEIGHT * WIDTH * CHANNELS
    found += network * FILTERS * KERNEL * KERNEL * CHANNELS
    sums = tl.zeros((BLOCK, ACROSS), tl.float32)
    for i in range((ROWS * HEIGHT_OUT * WIDTH_OUT + TERMS - 1) // TERMS):
        pixel = i * TERMS + tl.arange(0, TERMS)
        row, y, right = pixel // (HEIGHT_OUT * WIDTH_OUT), pixel // WIDTH_OUT % HEIGHT_OUT, pixel % WIDTH_OUT
        down, right = y * STRIDE - PADDING + tap // KERNEL, right * STRIDE - PADDING + tap % KERNEL
        inside = (down >= 0) & (down < HEIGHT) & (right >= 0) & (right < WIDTH) & (row < ROWS)
        left = tl.load(gradient + (pixel * FILTERS)[:, None] + filters[None, :], mask=(row < ROWS)[:, None], other=0.0)
        at = ((row * HEIGHT + down) * WIDTH + right) * CHANNELS
        other = tl.load(x + at[:, None] + channels[None, :], mask=inside[:, None], other=0.0)
        sums = tl.dot(tl.trans(left), other, sums)
    at = (filters * KERNEL * KERNEL + tap) * CHANNELS
    tl.store(found + at[:, None] + channels[None, :], sums.to(found.dtype.element_ty))
