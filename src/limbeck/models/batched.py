"""Small fully connected networks that train together on a CPU: one step of all of them is a few batched products.

A step of such a network takes less time than the calls that make it up. Here one call serves all networks of one
architecture. The result of a network does not depend on the others in any digit: every product has matrices of one
network, whose sizes are the same in every company, and the other operations round each value by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from limbeck.models.descent import losses_of_rows
from limbeck.models.networks import Normalize
from limbeck.models.schedule import ABSENT, ADAM_BETAS, ADAM_EPSILON, BatchSchedule, rate
from limbeck.models.weights import STEP_COUNT
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

MAX_WEIGHTS = 2**15  # of a network; the products of larger ones fill a core by themselves
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Chain:
    """Linear layers with ReLU between them, behind a normalization of the rows.

    Parameters
    ----------
    layers : tuple of (str, str or None, int, int)
        Name of the weights and of the bias, inputs and outputs of each linear layer.
    normalize : tuple of (float, float)
        What is subtracted from the values of a row, and what they are then divided by.
    """

    layers: tuple[tuple[str, str | None, int, int], ...]
    normalize: tuple[tuple[float, float], ...] = ()

    @property
    def sizes(self) -> list[int]:
        """Number of weights of each layer, with the bias as a last column (0 if there is none)."""
        return [outputs * (inputs + 1) for _, _, inputs, outputs in self.layers]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight by name."""
        weights = {weight: (outputs, inputs) for weight, _, inputs, outputs in self.layers}
        return weights | {bias: (outputs,) for _, bias, _, outputs in self.layers if bias is not None}

    def matrices(self, values: Tensor) -> list[Tensor]:
        """Views of shape (networks, outputs, inputs + 1) of values of shape (networks, all weights)."""
        found = []
        for (_, _, inputs, outputs), part in zip(self.layers, values.split(self.sizes, dim=1), strict=True):
            found.append(part.unflatten(1, (outputs, inputs + 1)))
        return found


@dataclass(slots=True)
class Training:
    """Training of one network among others.

    Parameters
    ----------
    schedule : BatchSchedule
        Its steps.
    state : dict
        Weights at the start, then after the last step.
    moments : dict or None
        Optimizer moments to continue with (by name, `#` and number, and `STEP_COUNT`), then those at the end.
    correction : dict
        Added to every gradient, by the names of the weights.
    """

    schedule: BatchSchedule
    state: State
    moments: State | None = None
    correction: State = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """Number of steps behind the moments."""
        return int(self.moments[STEP_COUNT]) if self.moments else 0


def chain_of(network: nn.Module) -> Chain | None:
    """Layers of a network if it is small, and made of linear layers, ReLU, `Flatten` and `Normalize` alone; else None.

    Examples
    --------
    >>> chain_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).layers
    (('1.weight', '1.bias', 4, 3), ('3.weight', '3.bias', 3, 2))
    >>> chain_of(nn.Sequential(nn.Linear(4, 3), nn.Tanh())) is None
    True
    """
    if not all(map(_is_plain, network.modules())):
        return None
    every = network.named_modules(remove_duplicate=False)
    parts = [(name, part) for name, part in every if not isinstance(part, nn.Sequential)]
    layers: list[tuple[str, str | None, int, int]] = []
    normalize: list[tuple[float, float]] = []
    wants_relu = False
    for name, part in parts:
        if isinstance(part, nn.Linear) and not wants_relu:
            before = f"{name}." if name else ""
            bias = None if part.bias is None else f"{before}bias"
            layers.append((f"{before}weight", bias, part.in_features, part.out_features))
            wants_relu = True
        elif isinstance(part, nn.ReLU) and wants_relu:
            wants_relu = False
        elif isinstance(part, Normalize) and not layers:
            normalize.append((part.mean, part.std))
        elif not (isinstance(part, nn.Flatten) and part.start_dim == 1 and part.end_dim == -1 and not layers):
            return None
    chain = Chain(tuple(layers), tuple(normalize))
    fits = wants_relu and chain.shapes.keys() == dict(network.named_parameters()).keys()  # no layer is there twice
    return chain if fits and sum(chain.sizes) <= MAX_WEIGHTS else None


def _is_plain(part: nn.Module) -> bool:
    """Whether a layer computes what its type says, and all its weights are trained."""
    known = type(part) in (nn.Sequential, nn.Linear, nn.ReLU, nn.Flatten, Normalize)
    hooks = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
    return known and not hooks and all(w.requires_grad and w.dtype == torch.float32 for w in part.parameters())


def train_together(chain: Chain, x: Tensor, y: Tensor, trainings: Sequence[Training], recipe: Recipe) -> None:
    """Train networks of one architecture by one recipe; each has the result that it has alone.

    Parameters
    ----------
    chain : Chain
        Their layers.
    x : Tensor of shape (rows, ...)
        Training rows of all networks, one network after the other.
    y : Tensor of shape (rows,) or (rows, columns)
        Targets, as `losses_of_rows` takes them.
    trainings : sequence of Training
        The networks; `state` and `moments` are replaced.
    recipe : Recipe
        How they are trained, without augmentation and early stopping.
    """
    firsts = np.cumsum([0, *(training.schedule.rows for training in trainings)])
    order = sorted(range(len(trainings)), key=lambda i: -trainings[i].schedule.total)
    longest_first = [trainings[i] for i in order]
    data, values = _Data(chain, x, y, firsts[order], longest_first), _Values(chain, longest_first, recipe)
    totals = np.array([training.schedule.total for training in longest_first])
    for step in range(totals[0]):
        active = int((totals > step).sum())
        gradients = _gradients(chain, values.weights[:active], *data.batch(step, active), recipe)
        values.move(gradients, step)
    values.read()


class _Data:
    """Rows of all networks, with a last column of ones for the bias."""

    def __init__(self, chain: Chain, x: Tensor, y: Tensor, firsts: Array, trainings: Sequence[Training]) -> None:
        x = x.flatten(1)
        for mean, std in chain.normalize:
            x = (x - mean) / std
        self.x, self.y = torch.cat([x, x.new_ones(len(x), 1)], dim=1), y
        self.firsts, self.schedules = firsts, [training.schedule for training in trainings]
        self.epochs: list[Array] = [np.empty(0)] * len(trainings)

    def batch(self, step: int, active: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, targets, and the share of each row in its network's mean loss; 0 for those that fill up a batch."""
        chosen = np.full((active, self.schedules[0].recipe.batch), ABSENT, np.int64)
        for number, schedule in enumerate(self.schedules[:active]):
            epoch, within = divmod(step, schedule.per_epoch)
            if within == 0:
                self.epochs[number] = schedule.epoch(epoch)
            chosen[number] = self.epochs[number][within]
        present = chosen != ABSENT  # elsewhere a network has its own first row, so that none sees another's
        shares = (present / present.sum(axis=1, keepdims=True)).astype(np.float32)
        rows = torch.from_numpy((np.where(present, chosen, 0) + self.firsts[:active, None]).ravel())
        x = self.x.index_select(0, rows).unflatten(0, chosen.shape)
        return x, self.y.index_select(0, rows), torch.from_numpy(shares)


class _Values:
    """Weights of all networks, of shape (networks, weights), and what an optimizer keeps beside them."""

    def __init__(self, chain: Chain, trainings: Sequence[Training], recipe: Recipe) -> None:
        self.chain, self.trainings, self.recipe = chain, trainings, recipe
        self.weights = self._filled([training.state for training in trainings])
        moments = [training.moments or {} for training in trainings]
        self.first, self.second = (self._filled(moments, f"#{number}") for number in range(2))
        self.correction = self._filled([training.correction for training in trainings])
        self.anchors = self.weights.clone()
        self.taken = [training.taken for training in trainings]

    def _filled(self, states: Sequence[State], suffix: str = "") -> Tensor:
        """Values by name as rows of one tensor; 0 where a name is missing."""
        found = torch.zeros(len(states), sum(self.chain.sizes))
        for (weight, bias, _, _), matrix in zip(self.chain.layers, self.chain.matrices(found), strict=True):
            for name, part in ((weight, matrix[:, :, :-1]), (bias, matrix[:, :, -1])):
                for number, state in enumerate(states):
                    if f"{name}{suffix}" in state:
                        part[number] = state[f"{name}{suffix}"]
        return found

    @torch.no_grad()
    def move(self, gradients: Tensor, step: int) -> None:
        """One step of Adam or SGD, in operations that round each value once."""
        active, recipe = len(gradients), self.recipe
        weights, first, second = (values[:active] for values in (self.weights, self.first, self.second))
        if recipe.proximal:
            gradients += (weights - self.anchors[:active]) * recipe.proximal
        gradients += self.correction[:active]
        if recipe.weight_decay:
            gradients += weights * recipe.weight_decay
        rates = [rate(recipe, step // training.schedule.per_epoch) for training in self.trainings[:active]]
        if recipe.optimizer == "sgd":
            moved = first.mul_(recipe.momentum).add_(gradients) if recipe.momentum else gradients
            weights -= moved * _column(rates)
            return
        first.mul_(ADAM_BETAS[0]).add_(gradients * (1 - ADAM_BETAS[0]))
        second.mul_(ADAM_BETAS[1]).add_((gradients * gradients).mul_(1 - ADAM_BETAS[1]))
        times = [taken + step + 1 for taken in self.taken[:active]]
        corrected = _column([each / (1 - ADAM_BETAS[0] ** time) for each, time in zip(rates, times, strict=True)])
        scales = _column([math.sqrt(1 - ADAM_BETAS[1] ** time) for time in times])
        weights -= first.div(second.sqrt().div_(scales).add_(ADAM_EPSILON)).mul_(corrected)

    def read(self) -> None:
        """Give each training its weights and moments."""
        weights, moments = self._by_name(self.weights), self._by_name(self.first, "#0")
        if self.recipe.optimizer == "adam":
            moments |= self._by_name(self.second, "#1")
        for number, (training, taken) in enumerate(zip(self.trainings, self.taken, strict=True)):
            training.state = {name: every[number] for name, every in weights.items()}
            if training.moments is not None:
                training.moments = {name: every[number] for name, every in moments.items()}
                training.moments[STEP_COUNT] = torch.tensor([taken + training.schedule.total])

    def _by_name(self, values: Tensor, suffix: str = "") -> State:
        """Values of all networks by name; those of one network lie together."""
        found = {}
        for (weight, bias, _, _), matrix in zip(self.chain.layers, self.chain.matrices(values), strict=True):
            found[weight + suffix] = matrix[:, :, :-1].contiguous()
            if bias is not None:
                found[bias + suffix] = matrix[:, :, -1].contiguous()
        return found


def _gradients(chain: Chain, weights: Tensor, x: Tensor, y: Tensor, shares: Tensor, recipe: Recipe) -> Tensor:
    """Gradient of each network's mean loss with respect to its weights, laid out as the weights."""
    matrices = chain.matrices(weights)
    inputs = [x]
    for matrix in matrices[:-1]:
        inputs.append(_with_ones(_products(inputs[-1], matrix.mT).relu_()))
    outputs = _products(inputs[-1], matrices[-1].mT).flatten(0, 1).requires_grad_()
    [gradient] = torch.autograd.grad((losses_of_rows(outputs, y, recipe) * shares.flatten()).sum(), outputs)
    gradient = gradient.unflatten(0, shares.shape)
    found = torch.zeros_like(weights)
    for number in range(len(matrices) - 1, -1, -1):
        chain.matrices(found)[number].copy_(_products(gradient.mT, inputs[number]))
        if number:
            gradient = _products(gradient, matrices[number][:, :, :-1]) * (inputs[number][:, :, :-1] > 0)
    for layer, matrix in zip(chain.layers, chain.matrices(found), strict=True):
        if layer[1] is None:
            matrix[:, :, -1] = 0
    return found


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Product of each network's matrices, by NumPy: `torch.bmm` may round by where in memory a matrix lies."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights that are not finite are an error at the end
        return torch.from_numpy(np.matmul(left.numpy(), right.numpy()))


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones(*x.shape[:2], 1)], dim=2)


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]
