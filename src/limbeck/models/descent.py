"""Training of one network by its recipe: the plain loop, whose results all faster trainers must equal."""

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from limbeck.models.device import Device
from limbeck.models.randomness import Dropout, augmented
from limbeck.models.schedule import ABSENT, ADAM_BETAS, ADAM_EPSILON, BatchSchedule, EarlyStopping, rate
from limbeck.models.weights import STEP_COUNT
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

ASK_AT_ONCE = 2048  # rows of one forward pass


def train(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    seed: int,
    device: Device,
    moments: dict[str, Tensor] | None = None,
    correction: Mapping[str, Tensor] | None = None,
) -> None:
    """Train a network in place.

    Parameters
    ----------
    network : nn.Module
        The network, on its device.
    x : Tensor of shape (rows, ...)
        Training rows, on the same device.
    y : Tensor of shape (rows,) or (rows, classes), or with one more column
        Targets, on the same device; a column more holds sample weights, as from `weighted_targets`.
    recipe : Recipe
        How the network is trained.
    seed : int
        Seed of the order of the rows, dropout and augmentation.
    device : Device
        Device and precision.
    moments : dict or None
        Optimizer moments to continue with; updated in place.
    correction : mapping or None
        Added to every gradient, by the names of the weights.
    """
    steps, early_stopping = BatchSchedule(len(x), recipe, seed), EarlyStopping(recipe.patience)
    keyed_dropout(network)
    dropouts = [part for part in network.modules() if isinstance(part, Dropout)]
    if device.type == "cpu" and _supports_channels_last(network, x):  # then pooling is much faster
        x = x.contiguous(memory_format=torch.channels_last)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = _Optimizer(dict(network.named_parameters()), recipe, moments or {}, correction or {})
    best = network.state_dict()
    held_out = torch.from_numpy(steps.held_out).to(x.device)
    for epoch in range(recipe.epochs):
        network.train()
        order, first = steps.epoch(epoch), epoch * steps.per_epoch
        present = (order != ABSENT).sum(axis=1).tolist()
        keys = steps.keys(first, first + len(order)).tolist()
        for batch, size, key in zip(torch.from_numpy(order).to(x.device), present, keys, strict=True):
            rows = batch[:size]
            _set_keys(dropouts, key)
            outputs = _outputs(network, x[rows], recipe, key, device)
            losses_of_rows(outputs, y[rows], recipe).mean().backward()
            optimizer.step(rate(recipe, epoch))
        if len(held_out):
            if early_stopping.sees(loss_on(network.eval(), x[held_out], y[held_out], recipe)):
                best = copy.deepcopy(network.state_dict())
            if early_stopping.spent:
                break
    if len(held_out):
        network.load_state_dict(best)
    if moments is not None:
        moments.update(optimizer.moments())


def _set_keys(dropouts: Iterable[Dropout], key: int) -> None:
    """Give the dropouts of a network the random key of a step."""
    for dropout in dropouts:
        dropout.key.fill_(key)
        dropout.calls = 0


def _outputs(network: nn.Module, x: Tensor, recipe: Recipe, key: int, device: Device) -> Tensor:
    if recipe.augmentation != "none":
        x = augmented(x, torch.tensor(key, device=x.device), recipe.augmentation)
    with torch.autocast(device.type, torch.bfloat16) if device.halves else nullcontext():
        return cast(Tensor, network(x)).to(device.dtype)


def keyed_dropout(network: nn.Module) -> None:
    """Replace every `nn.Dropout` in a network by one that draws by key."""
    number = 0
    device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, Dropout(child.p, number).to(device))
                number += 1


def _supports_channels_last(network: nn.Module, x: Tensor) -> bool:
    """Whether a network works on images that store channels last. A network that calls `view` on them may fail."""
    if x.ndim != 4 or not any(isinstance(part, nn.Conv2d) for part in network.modules()):
        return False
    other: nn.Module = copy.deepcopy(network).eval()
    other.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with torch.enable_grad():
            other(x[:2].contiguous(memory_format=torch.channels_last)).sum().backward()
    except RuntimeError:
        return False
    return True


def loss_on(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> float:
    """Compute the mean loss of a network on rows. No gradient is kept."""
    with torch.no_grad():
        parts = [network(part) for part in x.split(ASK_AT_ONCE)]
        return float(losses_of_rows(torch.cat(parts), y, recipe).mean())


def weighted_targets(targets: Array, weight: Array | None) -> Array:
    """Targets with the sample weights as one more column; as they are without weights.

    Parameters
    ----------
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, numbers, or one target per class.
    weight : array of shape (rows,) or None
        Sample weights with mean 1.

    Returns
    -------
    array of shape (rows, columns + 1), or that of `targets`
        What `losses_of_rows` takes.
    """
    if weight is None:
        return targets
    return np.column_stack([targets, weight]).astype(np.float64)


def losses_of_rows(outputs: Tensor, targets: Tensor, recipe: Recipe) -> Tensor:
    """Loss of each row, multiplied by its sample weight if there is one.

    With weights of mean 1 over all training rows, the mean over a batch estimates the weighted mean loss without bias,
    also in small batches.

    Parameters
    ----------
    outputs : Tensor of shape (rows, classes)
        Outputs of the network.
    targets : Tensor of shape (rows,) or (rows, columns)
        Targets, or the result of `weighted_targets`.
    recipe : Recipe
        The loss and its temperature.

    Returns
    -------
    Tensor of shape (rows,)
        The losses.
    """
    loss, columns = LOSSES[recipe.loss], 1 if recipe.loss == "cross-entropy" else outputs.shape[1]
    if targets.ndim == 1 or targets.shape[1] != columns + 1:
        return loss(outputs, targets, recipe.temperature)
    own = targets[:, 0] if recipe.loss == "cross-entropy" else targets[:, :-1]
    return loss(outputs, own, recipe.temperature) * targets[:, -1]


class _Optimizer:
    """Adam or SGD with torch's fused kernels. `torch.optim` is not used: its first use takes a second for imports."""

    def __init__(
        self,
        weights: dict[str, nn.Parameter],
        recipe: Recipe,
        moments: dict[str, Tensor],
        correction: Mapping[str, Tensor],
    ) -> None:
        self.names, self.weights, self.recipe = list(weights), list(weights.values()), recipe
        self.anchors = [weight.detach().clone() for weight in self.weights] if recipe.proximal else []
        nothing = torch.zeros(())
        self.correction = (
            [correction.get(name, nothing).to(weight) for name, weight in weights.items()] if correction else []
        )
        self.first, self.second = ([torch.zeros_like(weight) for weight in self.weights] for _ in range(2))
        self.taken = int(moments[STEP_COUNT]) if moments else 0
        self.step_count = torch.full((), float(self.taken), device=self.weights[0].device)
        for number, states in enumerate((self.first, self.second)):
            for name, values in zip(self.names, states, strict=True):
                if (key := f"{name}#{number}") in moments:
                    values.copy_(moments[key])

    def moments(self) -> dict[str, Tensor]:
        """Moments with which another training can continue."""
        states = (self.first,) if self.recipe.optimizer == "sgd" else (self.first, self.second)
        found = {
            f"{name}#{number}": values
            for number, every in enumerate(states)
            for name, values in zip(self.names, every, strict=True)
        }
        return {**found, STEP_COUNT: torch.tensor([self.taken])}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every weight against its gradient, then clear the gradients."""
        self.taken += 1
        used = [device for device, weight in enumerate(self.weights) if weight.grad is not None]
        weights, first, second = (
            [values[device] for device in used] for values in (self.weights, self.first, self.second)
        )
        gradients = [cast(Tensor, weight.grad) for weight in weights]
        for device, gradient in zip(used, gradients, strict=True):
            if self.anchors:
                gradient.add_(self.weights[device] - self.anchors[device], alpha=self.recipe.proximal)
            if self.correction:
                gradient.add_(self.correction[device])
        if self.recipe.optimizer == "sgd":
            torch._fused_sgd_(
                weights,
                gradients,
                first if self.recipe.momentum else [],
                weight_decay=self.recipe.weight_decay,
                momentum=self.recipe.momentum,
                lr=rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
            )
        else:
            self.step_count.add_(1)
            torch._fused_adam_(
                weights,
                gradients,
                first,
                second,
                [],
                [self.step_count] * len(weights),
                lr=rate,
                beta1=ADAM_BETAS[0],
                beta2=ADAM_BETAS[1],
                weight_decay=self.recipe.weight_decay,
                eps=ADAM_EPSILON,
                amsgrad=False,
                maximize=False,
            )
        for weight in weights:
            weight.grad = None


def _kl(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """KL divergence at a temperature, times its square, so that gradients keep their size (Hinton et al. 2015)."""
    ours, theirs = F.log_softmax(logits / temperature, dim=1), F.log_softmax(targets / temperature, dim=1)
    return F.kl_div(ours, theirs, reduction="none", log_target=True).sum(1) * temperature**2


def _binary(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Binary cross-entropy of each class, the mean over the classes whose label is known."""
    known = (targets >= 0).to(logits.dtype)
    each = F.binary_cross_entropy_with_logits(logits, targets.clamp(min=0).to(logits.dtype), reduction="none")
    return (each * known).sum(1) / known.sum(1).clamp(min=1)


LOSSES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {  # (logits, targets, temperature) -> loss of each row
    "cross-entropy": lambda logits, targets, _: F.cross_entropy(logits, targets.long(), reduction="none"),
    "soft-cross-entropy": lambda logits, targets, _: F.cross_entropy(logits, targets, reduction="none"),
    "binary-cross-entropy": _binary,
    "kl": _kl,
    "mse": lambda logits, targets, _: F.mse_loss(logits, targets.view_as(logits), reduction="none").mean(1),
    "mae": lambda logits, targets, _: F.l1_loss(logits, targets.view_as(logits), reduction="none").mean(1),
}
