"""Random numbers inside a network, for dropout and augmentation.

A generator draws the next value of a sequence. Here each value depends only on a key and its position. A step of a
network therefore has the same values wherever it is trained: alone or in a stack, on any device.
"""

import math

import torch
from torch import Tensor, nn

from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Augmentation

MAX_SHIFT = 4  # pixels by which a crop shifts an image
GRAY = 0.5  # value of pixels that are cut out
DROPOUTS = 2**20  # more than any network has
PARTS = 4  # of a word of 64 bits, each of 16 bits


def uniform(key: Tensor, shape: tuple[int, ...], purpose: int) -> Tensor:
    """Uniform random values in [0, 1).

    Parameters
    ----------
    key : Tensor
        Scalar of int64.
    shape : tuple of int
        Shape of the result.
    purpose : int
        Separates independent draws with one key.

    Returns
    -------
    Tensor of float32
        The values, of the given shape.

    Notes
    -----
    splitmix64 (Steele, Lea & Flood 2014) of key, purpose and position.

    Examples
    --------
    >>> first, again, other = (uniform(torch.tensor(7), (3,), purpose) for purpose in (0, 0, 1))
    >>> torch.equal(first, again), torch.equal(first, other)
    (True, False)
    """
    return ((_random_bits(key, math.prod(shape), purpose) >> 40 & 0xFFFFFF).to(torch.float32) * 2**-24).reshape(shape)


def chosen(key: Tensor, shape: tuple[int, ...], share: float, purpose: int) -> Tensor:
    """Choose each value with a given probability.

    Parameters
    ----------
    key : Tensor
        Scalar of int64.
    shape : tuple of int
        Shape of the result.
    share : float
        Probability, rounded to a multiple of 1/65536 and at least 1/65536.
    purpose : int
        Separates independent draws with one key.

    Returns
    -------
    Tensor of bool
        True for the chosen values.

    Notes
    -----
    One word of 64 bits decides four values, because drawing words takes most of the time.
    """
    count, bits = math.prod(shape), _random_bits(key, -(-math.prod(shape) // PARTS), purpose)
    parts = (bits[:, None] >> torch.arange(0, 64, 64 // PARTS, device=key.device)).to(torch.int16)
    return parts.flatten()[:count].reshape(shape) <= max(round(share * 2**16), 1) - 2**15 - 1


def _random_bits(key: Tensor, count: int, purpose: int) -> Tensor:
    position = torch.arange(count, device=key.device) ^ (key ^ key)  # without this 0 a compiler overflows
    return _scramble(_scramble(key + purpose) + position * _signed(0x9E3779B97F4A7C15))


class Dropout(nn.Module):
    """`nn.Dropout` whose random values depend on a key.

    Parameters
    ----------
    share : float
        Probability that a value is set to 0.
    number : int
        Number of this dropout in its network, so that each draws its own values.

    Notes
    -----
    `calls` counts the uses in one forward pass. The caller sets `key`, and `calls` to 0, before each step.
    """

    key: Tensor

    def __init__(self, share: float, number: int) -> None:
        super().__init__()
        self.share, self.number, self.calls = share, number, 0
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.share == 0:
            return x
        dropped = chosen(self.key, tuple(x.shape), self.share, self.number + DROPOUTS * self.calls)
        self.calls += 1
        return (x / (1 - self.share)).masked_fill(dropped, 0) if self.share < 1 else x * 0


def augmented(x: Tensor, key: Tensor, how: Augmentation) -> Tensor:
    """Shift, mirror or cut out images, each in its own way.

    Parameters
    ----------
    x : Tensor of shape (rows, channels, height, width)
        Images.
    key : Tensor
        Scalar of int64.
    how : Augmentation
        Which changes are made, as in a recipe.

    Returns
    -------
    Tensor of shape (rows, channels, height, width)
        Changed images; pixels from outside of an image are 0.

    Raises
    ------
    LimbeckError
        If the rows are not images.
    """
    if how == "none":
        return x
    if x.ndim != 4:
        raise LimbeckError(f"augmentation = {how!r} is for images, not for rows of shape {tuple(x.shape[1:])}")
    uniforms = uniform(key, (len(x), 3), -1)
    down, right = ((uniforms[:, i] * (2 * MAX_SHIFT + 1)).floor().long() - MAX_SHIFT for i in (0, 1))
    mirrored = uniforms[:, 2] < 0.5
    columns = torch.arange(x.shape[3], device=x.device).expand(len(x), -1)
    if "flip" in how:
        columns = torch.where(mirrored[:, None], x.shape[3] - 1 - columns, columns)
    if "crop" not in how:
        return x.gather(3, columns[:, None, None, :].expand(x.shape))
    lines = torch.arange(x.shape[2], device=x.device) + down[:, None]
    columns = columns + right[:, None]
    inside = _inside(lines, x.shape[2])[:, None, :, None] & _inside(columns, x.shape[3])[:, None, None, :]
    moved = x.gather(2, lines.clamp(0, x.shape[2] - 1)[:, None, :, None].expand(x.shape))
    found = moved.gather(3, columns.clamp(0, x.shape[3] - 1)[:, None, None, :].expand(x.shape)) * inside
    return _cut_out(found, key) if "cutout" in how else found


def _cut_out(x: Tensor, key: Tensor) -> Tensor:
    """Make a square around a random pixel gray, half as wide as the image (DeVries & Taylor 2017)."""
    uniforms = uniform(key, (len(x), 2), -2)
    near = []
    for i in (0, 1):
        size = x.shape[2 + i]
        middle = (uniforms[:, i] * size).floor()
        position = torch.arange(size, device=x.device)
        near.append((position >= (middle - size // 4)[:, None]) & (position < (middle + size // 4)[:, None]))
    hidden = (near[0][:, :, None] & near[1][:, None, :])[:, None]
    return torch.where(hidden, GRAY, x)


def _inside(at: Tensor, size: int) -> Tensor:
    return (at >= 0) & (at < size)


def _scramble(z: Tensor) -> Tensor:
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """Shift to the right with zeros from the left; torch has only signed integers."""
    return z >> by & (1 << 64 - by) - 1


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant
