"""Chance inside a network: dropout and augmentation, drawn from a key and the place of each value alone.

A generator draws what comes next; a key gives each step of each network its own values wherever it is trained, alone
or in a stack, on any device.
"""

import math

import torch
from torch import Tensor, nn

from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Augmentation

MAX_SHIFT = 4  # pixels that a crop moves an image
GRAY = 0.5  # what is cut out
DROPOUTS = 2**20  # more than any network has
PARTS = 4  # of a word, each of 16 bits


def uniform(key: Tensor, shape: tuple[int, ...], purpose: int) -> Tensor:
    """Values in [0, 1) by splitmix64 (Steele, Lea & Flood 2014) over the key, the purpose and the place."""
    return ((_random_bits(key, math.prod(shape), purpose) >> 40 & 0xFFFFFF).to(torch.float32) * 2**-24).reshape(shape)


def chosen(key: Tensor, shape: tuple[int, ...], share: float, purpose: int) -> Tensor:
    """True for about so many values, to one in 65 536: a word decides four of them, for words are what takes time."""
    count, bits = math.prod(shape), _random_bits(key, -(-math.prod(shape) // PARTS), purpose)
    parts = (bits[:, None] >> torch.arange(0, 64, 64 // PARTS, device=key.device)).to(torch.int16)
    return parts.flatten()[:count].reshape(shape) <= max(round(share * 2**16), 1) - 2**15 - 1


def _random_bits(key: Tensor, count: int, purpose: int) -> Tensor:
    position = torch.arange(count, device=key.device) ^ (key ^ key)  # a compiler would overflow plain places
    return _scramble(_scramble(key + purpose) + position * _signed(0x9E3779B97F4A7C15))


class Dropout(nn.Module):
    """`nn.Dropout` by key; `number` tells a network's dropouts apart, `calls` the uses of one in a forward pass."""

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
    """Images [rows, channels, height, width], each moved, mirrored or cut out in its own way; outside is black."""
    if how == "none":
        return x
    if x.ndim != 4:
        raise LimbeckError(f"augmentation = {how!r} is for images, not for rows of {tuple(x.shape[1:])} values")
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
    """A square around a random pixel, half as wide as the image, is grey (DeVries & Taylor 2017)."""
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
    """To the right, zeros from the left: torch has signed numbers only."""
    return z >> by & (1 << 64 - by) - 1


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant
