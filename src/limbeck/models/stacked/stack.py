"""A stack: networks of one architecture that train together, as one program.

Each network has a slot. A window of steps (row numbers, learning rates, random keys) is sent to the device ahead, so
that the device never waits. On a GPU the step is captured once and replayed.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from limbeck.models.descent import loss_on, losses_of_rows
from limbeck.models.device import Device
from limbeck.models.heads import scores_of
from limbeck.models.randomness import Dropout, augmented
from limbeck.models.schedule import ABSENT, ADAM_BETAS, ADAM_EPSILON
from limbeck.models.stacked.convolution import channels_last, is_small, show_to_compiler
from limbeck.models.stacked.layers import BatchNorm, Convolution, halved, stackable
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

WINDOW = 256  # steps sent ahead
ASK_VALUES = 2**22  # of one forward pass: values of its rows times networks
ANCHOR = "#anchor"  # in a state: suffix of the value that a weight is held near
CORRECTION = "#correction"  # in a state: suffix of what is added to a weight's gradient
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Window:
    """Steps that all slots take next.

    Parameters
    ----------
    rows, targets : array of shape (steps, slots, batch)
        Positions of rows and targets in the stack's data; `ABSENT` where a batch is short.
    rates : array of shape (steps, slots)
        Learning rates.
    scales : array of shape (steps, slots)
        Adam's bias correction of the second moment.
    keys : array of shape (steps, slots)
        Random keys.
    """

    rows: Array
    targets: Array
    rates: Array
    scales: Array
    keys: Array


class Stack:
    """Networks of one architecture that take their steps together.

    Parameters
    ----------
    network : nn.Module
        Network with the architecture.
    depth : int
        Number of slots.
    recipe : Recipe
        How all networks are trained.
    device : Device
        Device and precision.
    rows, targets : Tensor
        Data of all networks, on the device.
    compiled : bool
        Whether the step is compiled.
    has_correction : bool
        Whether each network has a correction that is added to its gradients.

    Notes
    -----
    Products in half precision use their own copy of the weights.
    """

    def __init__(
        self,
        network: nn.Module,
        depth: int,
        recipe: Recipe,
        device: Device,
        rows: Tensor,
        targets: Tensor,
        compiled: bool,
        has_correction: bool = False,
    ) -> None:
        self.depth, self.recipe, self.device = depth, recipe, device
        self.program = "compiled" if compiled else "captured" if device.type == "cuda" else "plain"
        self.rows, self.targets = rows, targets
        self.plain, self.network = network, stackable(network, device).train()
        parts = dict(self.network.named_modules())
        self._keys = [f"{name}.key" for name, part in parts.items() if isinstance(part, Dropout)]
        if recipe.batch == 1 and any(isinstance(part, BatchNorm) for part in parts.values()):
            raise TypeError("batch norm cannot be trained with batch = 1")
        self._masks = [f"{name}.present" for name, part in parts.items() if isinstance(part, BatchNorm)]
        self.weights = {name: self._many(weight.detach()) for name, weight in self.network.named_parameters()}
        for name, part in parts.items():
            if isinstance(part, Convolution) and not is_small(self.weights[f"{name}.weight"], part.stride):
                self.weights[f"{name}.weight"] = channels_last(self.weights[f"{name}.weight"])
        self._factors = {
            name: weight.to(torch.bfloat16) if device.halves and name in halved(self.network) else weight
            for name, weight in self.weights.items()
        }
        self._used = [name for name, weight in self.network.named_parameters() if weight.requires_grad]
        for name in self._used:
            self._factors[name].requires_grad_()
        values = set(self.network.state_dict())
        self.buffers = {n: self._many(buffer) for n, buffer in self.network.named_buffers() if n in values}
        self.moments = {
            name: [torch.zeros_like(weight) for _ in range(1 if recipe.optimizer == "sgd" else 2)]
            for name, weight in self.weights.items()
        }
        self.anchors = self._like_weights() if recipe.proximal else {}
        self.correction = self._like_weights() if has_correction else {}
        self._losses, self._move = self._losses_of_all, _move
        if compiled:
            self._losses, self._move = _compiled(self._losses), _compiled(self._move)
        self._lay_out_empty()
        self._graph: Any = None
        self._prepare()
        if compiled:
            gc.collect()
            gc.freeze()  # a compiler leaves millions of objects, which every collection would visit

    def takes(self, rows: Tensor, targets: Tensor) -> bool:
        """Replace the data by other data if these fit into its place; returns whether they do."""
        pairs = ((self.rows, rows), (self.targets, targets))
        if any(len(new) > len(old) or new.dtype != old.dtype for old, new in pairs):
            return False
        for old, new in pairs:
            old[: len(new)].copy_(new)
        return True

    def load(self, slot: int, state: Mapping[str, Tensor]) -> None:
        """Put a network into a slot: its weights and, if it continues, the optimizer moments."""
        with torch.no_grad():
            for name, values in (self.weights | self.buffers).items():
                values[slot].copy_(state[name], non_blocking=True)
            for name, moments in self.moments.items():
                for number, values in enumerate(moments):
                    key = f"{name}#{number}"
                    values[slot].copy_(state[key], non_blocking=True) if key in state else values[slot].zero_()
            for name, anchor in self.anchors.items():
                anchor[slot].copy_(state.get(f"{name}{ANCHOR}", state[name]))
            for name, correction in self.correction.items():
                key = f"{name}{CORRECTION}"
                correction[slot].copy_(state[key]) if key in state else correction[slot].zero_()
            for name, factor in self._factors.items():
                factor[slot].copy_(self.weights[name][slot])

    def read(self, slot: int, moments: bool = False) -> State:
        """Copy of the network in a slot, on the CPU; with `moments`, all that is needed to continue."""
        found = self._held(slot)
        if moments:
            for name, moments_of in self.moments.items():
                found |= {f"{name}#{number}": values[slot] for number, values in enumerate(moments_of)}
            found |= {f"{name}{ANCHOR}": values[slot] for name, values in self.anchors.items()}
            found |= {f"{name}{CORRECTION}": values[slot] for name, values in self.correction.items()}
        return {name: values.to("cpu", copy=True) for name, values in found.items()}

    def advance(self, window: Window) -> None:
        """Take a window's steps in all slots."""
        self._send(window)
        self._at.zero_()
        with self.device.numerics():
            for _ in range(len(window.rows)):
                self._graph.replay() if self._graph else self._step()

    def loss(self, slot: int, rows: Array, targets: Array) -> float:
        """Loss of the network in a slot on held-out rows, given by their positions."""
        x, y = (
            data[torch.from_numpy(positions).to(self.device.type, torch.int64)]
            for data, positions in ((self.rows, rows), (self.targets, targets))
        )
        with self._asked(), self.device.numerics():
            return loss_on(_Alone(self.network, self._held(slot)), x, y, self.recipe)

    def scores(self, states: Sequence[State], rows: Tensor, task: Kind = "multiclass") -> Array:
        """Scores of shape (networks, rows, classes), computed for all networks together."""
        if len(states) > self.depth:
            parts = [states[at : at + self.depth] for at in range(0, len(states), self.depth)]
            return np.concatenate([self.scores(part, rows, task) for part in parts])
        names = [*self.weights, *self.buffers]
        every = {name: torch.stack([state[name] for state in states]).to(self.device.type) for name in names}
        at_once = max(1, ASK_VALUES // (len(states) * rows[0].numel()))
        ask: Any = vmap(self._logits_of_one, in_dims=(0, None))
        if self.device.type == "cpu":  # one after the other is faster there than grouped convolutions
            ask = self._logits_one_by_one
        with self._asked(), torch.no_grad(), self.device.numerics():
            logits = torch.cat([ask(every, part).float() for part in rows.split(at_once)], 1)
            return scores_of(logits, task, dim=2).cpu().numpy()

    def _held(self, slot: int) -> State:
        return {name: values[slot].detach() for name, values in (self.weights | self.buffers).items()}

    def _logits_of_one(self, state: State, rows: Tensor) -> Tensor:
        return cast(Tensor, functional_call(self.network, state, (rows,)))

    def _logits_one_by_one(self, every: State, rows: Tensor) -> Tensor:
        states = [dict(zip(every, values, strict=True)) for values in zip(*every.values(), strict=True)]
        return torch.stack([self._logits_of_one(state, rows) for state in states])

    @contextmanager
    def _asked(self) -> Iterator[None]:
        self.network.eval()
        try:
            yield
        finally:
            self.network.train()

    def _like_weights(self) -> State:
        return {name: torch.zeros_like(weight) for name, weight in self.weights.items()}

    def _many(self, values: Tensor) -> Tensor:
        return values.expand(self.depth, *values.shape).clone()

    def _lay_out_empty(self) -> None:
        device, dtype = self.device.type, self.device.dtype
        shape = (WINDOW, self.depth)
        nobody = torch.full((*shape, self.recipe.batch), ABSENT, dtype=torch.int32, device=device)
        self._laid_out = {
            **{name: nobody.clone() for name in ("rows", "targets")},
            **{name: torch.zeros(shape, dtype=dtype, device=device) for name in ("rates", "scales")},
            "keys": torch.zeros(shape, dtype=torch.int64, device=device),
        }
        self._at = torch.zeros(1, dtype=torch.int64, device=device)

    def _send(self, window: Window) -> None:
        for name, device in self._laid_out.items():
            device[: len(window.rows)].copy_(self._sent(getattr(window, name)), non_blocking=True)

    def _sent(self, values: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def _prepare(self) -> None:
        """Take one step without any rows; on a GPU, capture it."""
        with self.device.numerics():
            if self.device.type != "cuda":
                self._step()
                return
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(3):
                    self._at.zero_()
                    self._step()
            torch.cuda.current_stream().wait_stream(aside)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._step()

    def _step(self) -> None:
        loss = self._losses(self._factors, self.buffers, self.rows, self.targets, self._laid_out, self._at)
        gradients = torch.autograd.grad(loss, [self._factors[name] for name in self._used], allow_unused=True)
        if any(gradient is None for gradient in gradients):
            pairs = zip(self._used, gradients, strict=True)
            self._used = [name for name, gradient in pairs if gradient is not None]
            return
        weights, factors = ([values[name] for name in self._used] for values in (self.weights, self._factors))
        moments = list(zip(*(self.moments[name] for name in self._used), strict=True))
        anchors, correction = (
            [values[name] for name in self._used] if values else [] for values in (self.anchors, self.correction)
        )
        with torch.no_grad():
            pulled = list(gradients), anchors, correction
            self._move(weights, factors, *pulled, moments, self._laid_out, self._at, self.recipe)
            self._at.add_(1)

    def _losses_of_all(
        self, weights: State, buffers: State, rows: Tensor, targets: Tensor, laid_out: State, at: Tensor
    ) -> Tensor:
        """Sum of the networks' mean losses in one step, so that each network has its own gradient."""
        of_rows, of_targets, keys = (laid_out[name].index_select(0, at)[0] for name in ("rows", "targets", "keys"))
        present = of_rows != ABSENT
        x, y = rows[of_rows.clamp(min=0)], targets[of_targets.clamp(min=0)]
        outputs = vmap(self._outputs)(weights, buffers, x, present, keys)
        losses = losses_of_rows(outputs.flatten(0, 1).to(self.device.dtype), y.flatten(0, 1), self.recipe)
        there = present.to(losses.dtype)
        return (losses.view_as(there) * there / there.sum(1, keepdim=True).clamp(min=1)).sum()

    def _outputs(self, weights: State, buffers: State, x: Tensor, present: Tensor, key: Tensor) -> Tensor:
        for part in self.network.modules():
            if isinstance(part, Dropout):
                part.calls = 0
        parameters = {**weights, **buffers, **dict.fromkeys(self._keys, key), **dict.fromkeys(self._masks, present)}
        return cast(Tensor, functional_call(self.network, parameters, (augmented(x, key, self.recipe.augmentation),)))


class _Alone(nn.Module):
    """One network of a stack."""

    def __init__(self, network: nn.Module, state: State) -> None:
        super().__init__()
        self._network, self._state = (network,), state

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, functional_call(self._network[0], self._state, (x,)))


def _move(
    weights: list[Tensor],
    factors: list[Tensor],
    gradients: list[Tensor],
    anchors: list[Tensor],
    correction: list[Tensor],
    moments: list[tuple[Tensor, ...]],
    laid_out: State,
    at: Tensor,
    recipe: Recipe,
) -> None:
    """One step of Adam or SGD, each network at its own rate; products use `factors`, copies of the weights."""
    rates, scales = (laid_out[name].index_select(0, at)[0] for name in ("rates", "scales"))
    rates_of, scales_of = ([_wide(values, weight) for weight in weights] for values in (rates, scales))
    gradients = [gradient.to(weight.dtype) for gradient, weight in zip(gradients, weights, strict=True)]
    if recipe.weight_decay:
        gradients = list(torch._foreach_add(gradients, weights, alpha=recipe.weight_decay))
    if anchors:
        away = torch._foreach_sub(weights, anchors)
        gradients = list(torch._foreach_add(gradients, away, alpha=recipe.proximal))
    if correction:
        gradients = list(torch._foreach_add(gradients, correction))
    first = list(moments[0])
    if recipe.optimizer == "sgd":
        torch._foreach_mul_(first, recipe.momentum)
        torch._foreach_add_(first, gradients)
        moved = torch._foreach_mul(first, rates_of)
    else:
        second = list(moments[1])
        torch._foreach_lerp_(first, gradients, 1 - ADAM_BETAS[0])
        torch._foreach_mul_(second, ADAM_BETAS[1])
        torch._foreach_addcmul_(second, gradients, gradients, 1 - ADAM_BETAS[1])
        size = torch._foreach_sqrt(second)
        torch._foreach_mul_(size, scales_of)
        torch._foreach_add_(size, ADAM_EPSILON)
        moved = torch._foreach_div(first, size)
        torch._foreach_mul_(moved, rates_of)
    torch._foreach_sub_(weights, moved)
    for factor, weight in zip(factors, weights, strict=True):
        if factor is not weight:
            factor.copy_(weight)


def _wide(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.ndim - 1))


def _compiled(function: Any) -> Any:
    import torch._dynamo
    import torch._inductor.config

    show_to_compiler()
    torch._inductor.config.deterministic = True  # else it chooses by measuring, and rounding differs between machines
    limit = torch._dynamo.config
    limit.recompile_limit = max(limit.recompile_limit, 1024)
    return torch.compile(function, dynamic=False)
