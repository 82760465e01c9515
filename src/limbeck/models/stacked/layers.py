"""Layers that support short batches and stacks; `vmap` stacks all other layers as they are."""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from limbeck.models.descent import keyed_dropout
from limbeck.models.device import Device
from limbeck.models.networks import NormByRows
from limbeck.models.stacked.convolution import convolution


def stackable(network: nn.Module, device: Device) -> nn.Module:
    """Copy of a network that trains in the same way alone and under `vmap`.

    Parameters
    ----------
    network : nn.Module
        The network.
    device : Device
        Device and precision of the copy.

    Returns
    -------
    nn.Module
        The copy; its weights have the same names.

    Raises
    ------
    TypeError
        If the network would be trained wrongly in a stack.
    """
    _check_buffers(network)
    network = copy.deepcopy(network).to(device.type, device.dtype)
    keyed_dropout(network)
    halves = torch.bfloat16 if device.halves else None
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if (layer := _layer(child, halves)) is not None:
                setattr(parent, name, layer)
    return network


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, NormByRows)


def _check_buffers(network: nn.Module) -> None:
    """Raise TypeError for what one program for many networks would train wrongly without an error."""
    for name, part in network.named_modules():
        if isinstance(part, _BatchNorm) and type(part) not in NORMS:
            raise TypeError(f"{name}: an unsupported kind of batch norm")
    hidden = {name for name, _ in network.named_buffers()} - set(network.state_dict())
    if hidden:
        raise TypeError(f"buffers outside its state_dict, such as {min(hidden)}")


def check_own_buffers(network: nn.Module, rows: Tensor) -> None:
    """Raise TypeError if a layer other than batch norm changes its buffers in training."""
    trial = copy.deepcopy(network).train()
    norms = {id(part) for part in trial.modules() if type(part) in NORMS}
    before = {id(part): {n: b.clone() for n, b in part.named_buffers(recurse=False)} for part in trial.modules()}
    with torch.no_grad():
        trial(rows)
    for name, part in trial.named_modules():
        own = dict(part.named_buffers(recurse=False)) if id(part) not in norms else {}
        if any(not torch.equal(buffer, before[id(part)][key]) for key, buffer in own.items()):
            raise TypeError(f"{name or 'the network'} changes its buffers")


def halved(network: nn.Module) -> set[str]:
    """Names of the weights that are rounded to half precision in products."""
    return {f"{name}.weight" for name, part in network.named_modules() if isinstance(part, Convolution | Linear)}


def _layer(child: nn.Module, halves: torch.dtype | None) -> nn.Module | None:
    if type(child) in NORMS:
        return BatchNorm(cast(_BatchNorm, child))
    if type(child) is nn.Conv2d and _is_plain(child):
        return Convolution(child, halves)
    if type(child) is nn.AvgPool2d and _is_tiling(child):
        return Average(child)
    return Linear(child, halves) if type(child) is nn.Linear and halves else None


def _is_plain(convolution: nn.Conv2d) -> bool:
    how = (convolution.groups, convolution.dilation, convolution.padding_mode)
    return how == (1, (1, 1), "zeros") and not isinstance(convolution.padding, str)


def _is_tiling(pool: nn.AvgPool2d) -> bool:
    return pool.kernel_size == pool.stride and not pool.padding and not pool.ceil_mode and not pool.divisor_override


class Average(nn.Module):
    """`nn.AvgPool2d` over fields that do not overlap, as a plain mean, of which a compiler makes faster code.

    Parameters
    ----------
    layer : nn.AvgPool2d
        Layer to replace.
    """

    def __init__(self, layer: nn.AvgPool2d) -> None:
        super().__init__()
        size = layer.kernel_size
        self.field = (size, size) if isinstance(size, int) else size

    def forward(self, x: Tensor) -> Tensor:
        down, across = (side // size for side, size in zip(x.shape[-2:], self.field, strict=True))
        whole = x[..., : down * self.field[0], : across * self.field[1]]
        return cast(Tensor, whole.unflatten(-1, (across, -1)).unflatten(-3, (down, -1)).mean((-3, -1)))


class Convolution(nn.Module):
    """`nn.Conv2d` whose factors are rounded in training.

    Parameters
    ----------
    layer : nn.Conv2d
        Layer to replace; its weights are shared.
    halves : torch.dtype or None
        Type of the factors; None means no rounding.
    """

    def __init__(self, layer: nn.Conv2d, halves: torch.dtype | None) -> None:
        super().__init__()
        self.weight, self.bias, self.halves = layer.weight, layer.bias, halves
        self.stride, self.padding = list(layer.stride), [int(size) for size in layer.padding]

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        weight = self.weight.to(self.halves or x.dtype)
        found: Tensor = convolution(x.to(weight.dtype), weight, self.stride, self.padding)
        return found if self.bias is None else found + self.bias.to(found.dtype)[:, None, None]


class Linear(nn.Module):
    """`nn.Linear` whose factors are rounded in training.

    Parameters
    ----------
    layer : nn.Linear
        Layer to replace; its weights are shared.
    halves : torch.dtype
        Type of the factors.
    """

    def __init__(self, layer: nn.Linear, halves: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias, self.halves = layer.weight, layer.bias, halves

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.linear(x, self.weight, self.bias)
        found = F.linear(x.to(self.halves), self.weight.to(self.halves))
        return found if self.bias is None else found + self.bias.to(found.dtype)


class BatchNorm(nn.Module):
    """Batch norm over the rows that are `present`; the others fill up a short batch in a stack.

    Parameters
    ----------
    layer : nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d or NormByRows
        Layer to replace; its weights and buffers are shared.
    """

    present: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.epsilon, self.momentum = layer.eps, layer.momentum
        self.forgets = layer.forgets if isinstance(layer, NormByRows) else None
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(layer, name))
        self.register_buffer("present", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and self.running_mean is not None and self.running_var is not None:
            return self._scaled(x - _wide(self.running_mean, x), self.running_var)
        values = x.to(torch.promote_types(x.dtype, torch.float32))
        around = values[:1].flatten(2).select(2, 0)[0].detach() if x.ndim > 2 else values[0].detach()
        values = values - _wide(around, x)
        present = self.present.to(values.dtype).view(-1, *[1] * (x.ndim - 1))
        others = [dim for dim in range(x.ndim) if dim != 1]
        count = present.sum().clamp(min=1) * (x[0, 0].numel() if x.ndim > 2 else 1)
        mean = (values * present).sum(others) / count
        variance = ((values * values * present).sum(others) / count - mean * mean).clamp(min=0)
        self._remember(mean.detach() + around, variance.detach() * count / (count - 1).clamp(min=1))
        return self._scaled(values - _wide(mean, x), variance).to(x.dtype)

    def _scaled(self, values: Tensor, variance: Tensor) -> Tensor:
        found = values * _wide(torch.rsqrt(variance + self.epsilon), values)
        return found if self.weight is None else found * _wide(self.weight, values) + _wide(self.bias, values)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share: Any = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        if self.forgets is not None:
            share = 1 - (1 - self.forgets) ** self.present.sum().to(mean.dtype)
        self.running_mean.add_((mean - self.running_mean) * share)
        self.running_var.add_((variance - self.running_var) * share)


def _wide(values: Tensor, like: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (like.ndim - 2))
