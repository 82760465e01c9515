"""Any torch network as a kind of model, trained by a recipe."""

import copy
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from limbeck.errors import LimbeckError
from limbeck.imports import code_beside
from limbeck.models.constant import Constant
from limbeck.models.descent import ASK_AT_ONCE, train
from limbeck.models.device import CPU, Device
from limbeck.models.packing import channels_first, pack
from limbeck.models.weights import STEP_COUNT
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

Build = Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A network and its recipe: `build(shape, classes)`, or a module whose copy starts anew for every fit."""

    network: Build | nn.Module
    recipe: Recipe = field(default_factory=Recipe)
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.description:
            kind = type(self.network) if isinstance(self.network, nn.Module) else self.network
            text = _plain_name(self.network) or " ".join(repr(self.network).split())
            name = getattr(kind, "__name__", "network")
            object.__setattr__(self, "description", {"name": name, "repr": text, "recipe": asdict(self.recipe)})

    @property
    def name(self) -> str:
        return str(self.description["name"])

    @property
    def architecture(self) -> Hashable:
        """Equal where networks differ in their weights alone."""
        if not isinstance(self.network, partial):
            return self.network if isinstance(self.network, Hashable) else id(self.network)
        given = [*self.network.args, *self.network.keywords.values()]
        if not all(map(_is_plain, given)):
            return id(self.network)
        return (self.network.func, repr(self.network.args), repr(sorted(self.network.keywords.items())))

    @property
    def code(self) -> str | None:
        """A hash of the code and the numbers that make the network; None where that cannot be told."""
        build = self.network.func if isinstance(self.network, partial) else self.network
        kind = type(build) if isinstance(build, nn.Module) else build
        if isinstance(self.architecture, int) or " at 0x" in repr(self.description):
            return None
        if kind.__module__.split(".")[0] in ("limbeck", "torch"):
            return getattr(kind, "__qualname__", None)
        file = sys.modules[kind.__module__].__file__ if kind.__module__ in sys.modules else None
        return code_beside(Path(file)) if file else None

    def fit(
        self,
        x: Array,
        y: Array,
        classes: int,
        seed: int,
        recipe: Recipe | None = None,
        start: bytes | None = None,
        device: Device = CPU,
        correction: bytes | None = None,
    ) -> Fitted:
        """`y` holds class numbers, or [rows, classes] targets for the losses that take them.

        Training goes on from the weights `start`, where given, with the moments that come with them; `correction` is
        added to every gradient.
        """
        recipe = self.checked(y, recipe)
        if (label := only_class(y)) is not None and start is None:
            return Constant(label, classes, int(np.prod(x.shape[1:])))
        moments, added = moments_in(start), load(correction) if correction else {}
        with alone(seed):
            network = self.tried(x.shape[1:], classes, start)
            trained = copy.deepcopy(network).to(device.type, device.dtype)
            with device.numerics():
                train(trained, *on(device, x, y), recipe, seed, device, moments, added)
        return self.fitted(network, trained.state_dict(), x.shape[1:], classes, moments)

    def checked(self, y: Array, recipe: Recipe | None) -> Recipe:
        """The recipe to train by, if it suits the targets."""
        recipe = recipe or self.recipe
        if y.ndim == 1 and recipe.loss != "cross-entropy":
            raise LimbeckError(f"the loss {recipe.loss!r} wants a target per class, not class numbers")
        return recipe

    def started(self, row: tuple[int, ...], classes: int, start: bytes | None = None) -> nn.Module:
        """A network with fresh weights, drawn from torch's generator of the moment, or with given ones."""
        network = self._fresh(tuple(channels_first(torch.zeros(1, *row)).shape[1:]), classes)
        if start is not None:
            load_weights(network, start)
        return network

    def tried(self, row: tuple[int, ...], classes: int, start: bytes | None = None) -> nn.Module:
        """The same, after a look whether it gives a score for every class."""
        network = self.started(row, classes, start)
        outputs = network.eval()(channels_first(torch.zeros(1, *row)))
        if outputs.shape != (1, classes):
            raise LimbeckError(f"{self.name} gives outputs of shape {tuple(outputs.shape[1:])} for {classes} classes")
        return network

    def fitted(
        self,
        network: nn.Module,
        weights: Mapping[str, Tensor],
        row: tuple[int, ...],
        classes: int,
        moments: Mapping[str, Tensor] | None = None,
    ) -> "FittedTorch":
        """The network with weights that were found for it."""
        check_finite(weights.values())
        network.load_state_dict(weights)
        return FittedTorch(network.eval(), row, classes, self.architecture, moments or {})

    def with_weights(self, weights: bytes, row: tuple[int, ...], classes: int) -> "FittedTorch":
        """The network with weights from elsewhere (safetensors)."""
        return FittedTorch(self.started(row, classes, weights).eval(), row, classes, self.architecture)

    def first_weights(self, row: tuple[int, ...], classes: int, seed: int) -> bytes:
        """What a network begins with, before any training."""
        with alone(seed):
            return FittedTorch(self.tried(row, classes), row, classes, self.architecture).weights()

    def trained_names(self, row: tuple[int, ...], classes: int) -> set[str]:
        """The names of the weights that training moves; others are averages that layers keep."""
        with alone(0):
            network = self.started(row, classes)
        return {name for name, weight in network.named_parameters() if weight.requires_grad}

    def _fresh(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        if not isinstance(self.network, nn.Module):
            return self.network(shape, classes)
        network = copy.deepcopy(self.network)
        for part in network.modules():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()
        return network


@dataclass(frozen=True, slots=True)
class FittedTorch:
    """A trained network; `row` is the shape of a row as the federation stores it."""

    network: nn.Module
    row: tuple[int, ...]
    classes: int
    architecture: Hashable
    moments: Mapping[str, Tensor] = field(default_factory=dict)

    def logits(self, x: Array, device: Device = CPU) -> Array:
        """[rows, classes], before the softmax."""
        rows, network = on(device, x)[0], self.network
        if device is not CPU:
            network = copy.deepcopy(network).to(device.type, device.dtype)
        with torch.no_grad(), device.numerics():
            return torch.cat([network(part) for part in rows.split(ASK_AT_ONCE)]).float().cpu().numpy()

    def scores(self, x: Array) -> Array:
        return torch.softmax(torch.from_numpy(self.logits(x)), dim=1).numpy()

    def vote(self, x: Array) -> Array:
        return np.asarray(self.logits(x).argmax(axis=1))

    def pack(self) -> bytes:
        return pack(self.network, self.row, self.classes, self.architecture)

    def weights(self) -> bytes:
        """The weights as safetensors; with the optimizer's moments where training went on with some."""
        moments = {name: _on_disk(values) for name, values in self.moments.items()}
        return save({name: weight.contiguous() for name, weight in self.network.state_dict().items()} | moments)


def load_weights(network: nn.Module, weights: bytes) -> None:
    """Give a network the weights of another of its architecture."""
    network.load_state_dict({name: values for name, values in load(weights).items() if "#" not in name})


def moments_in(start: bytes | None) -> dict[str, Tensor] | None:
    """The optimizer's moments that come with weights; None where training is not to go on with any."""
    found = {name: values for name, values in load(start).items() if "#" in name} if start else {}
    return found if STEP_COUNT in found else None


def _on_disk(values: Tensor) -> Tensor:
    return (values.float() if values.is_floating_point() else values).cpu().contiguous()


def _is_plain(value: Any) -> bool:
    """Whether a value's `repr` tells all of it."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool | int | float | None)


def _plain_name(build: Any) -> str | None:
    """Where a function stands, the same in every process; None for what is made at run time."""
    name = getattr(build, "__qualname__", "<>")
    closed = getattr(build, "__closure__", None) is not None
    return None if "<" in name or closed else f"{build.__module__}:{name}"


def check_finite(weights: Iterable[Tensor]) -> None:
    if not all(torch.isfinite(weight).all() for weight in weights):
        raise LimbeckError("training diverged: weights are no longer finite; lower the recipe's learning_rate")


def only_class(y: Array) -> int | None:
    """The class of all rows where there is but one."""
    return int(y[0]) if y.ndim == 1 and len(y) and (y == y[0]).all() else None


def on(device: Device, x: Array, y: Array | None = None) -> tuple[Tensor, Tensor]:
    """Rows (channels first) and targets, where they are to be used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # nobody writes to it
        rows = channels_first(torch.from_numpy(np.ascontiguousarray(x, np.float32)))
        targets = torch.as_tensor(np.ascontiguousarray(y) if y is not None else np.empty(0))
    dtype = device.dtype if targets.is_floating_point() else torch.int64
    return rows.to(device.type, device.dtype), targets.to(device.type, dtype)


@contextmanager
def alone(seed: int) -> Iterator[None]:
    """One thread and chance from the seed; outside nothing of either is changed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
