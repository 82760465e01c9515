"""Torch networks as a kind of model, trained by a recipe."""

import copy
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from limbeck.errors import LimbeckError, shown
from limbeck.imports import code_beside
from limbeck.models.constant import Constant
from limbeck.models.descent import ASK_AT_ONCE, train, weighted_targets
from limbeck.models.device import CPU, Device
from limbeck.models.heads import LOSS_OF, labels_of, scores_of
from limbeck.models.packing import channels_first, pack
from limbeck.models.weights import STEP_COUNT
from limbeck.protocol.algorithm import check_rules
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.task import ALL_TASKS, Kind

Build = Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True, slots=True)
class TorchModel:
    """Torch network with its recipe, as a kind of model.

    Parameters
    ----------
    network : nn.Module or callable
        A module, or a function `build(shape, classes)` that returns one; `shape` is a row's, channels first.
    recipe : Recipe
        How the network is trained.
    description : mapping
        What the run record says about the model; by default its name, its `repr` and the recipe.
    task : {"multiclass", "multilabel", "regression"}
        What the outputs of the network mean: logits of a softmax, logits of a sigmoid for each class, or a number.

    Notes
    -----
    Every fit starts from fresh weights. A module is copied, and its layers get new weights by `reset_parameters`.
    A layer without this method keeps the weights that it has. Images reach the network with channels first.

    Examples
    --------
    >>> import numpy as np
    >>> import limbeck as lb
    >>> from torch import nn
    >>> model = lb.TorchModel(nn.Linear(2, 2), lb.Recipe(epochs=20, batch=4, learning_rate=0.1))
    >>> rows = np.array([[0, 1], [1, 0], [0, 2], [2, 0]], np.float32)
    >>> model.fit(rows, np.array([0, 1, 0, 1]), classes=2, seed=0).vote(rows)
    array([0, 1, 0, 1])
    """

    network: Build | nn.Module
    recipe: Recipe = field(default_factory=Recipe)
    description: Mapping[str, Any] = field(default_factory=dict)
    task: Kind = "multiclass"

    def __post_init__(self) -> None:
        check_rules(
            (
                callable(self.network),
                f"network = {shown(self.network)}: give a module, or a function of shape and classes",
            ),
            (
                isinstance(self.recipe, Recipe),
                f"recipe = {shown(self.recipe)}: give a recipe, such as lb.Recipe(epochs=10)",
            ),
            (isinstance(self.description, Mapping), f"description = {shown(self.description)}: give a mapping"),
            (
                isinstance(self.task, str) and self.task in ALL_TASKS,
                f"task = {shown(self.task)}: known: {', '.join(ALL_TASKS)}",
            ),
        )
        if not self.description:
            kind = type(self.network) if isinstance(self.network, nn.Module) else self.network
            text = _plain_name(self.network) or " ".join(repr(self.network).split())
            name = getattr(kind, "__name__", "network")
            object.__setattr__(self, "description", {"name": name, "repr": text, "recipe": asdict(self.recipe)})

    @property
    def name(self) -> str:
        """Name of the model in messages and records."""
        return str(self.description["name"])

    def for_task(self, task: Kind) -> "TorchModel":
        """Return the network for another kind of labels."""
        return replace(self, task=task)

    @property
    def architecture(self) -> Hashable:
        """Key that is equal for networks that differ only in their weights."""
        if not isinstance(self.network, partial):
            return self.network if isinstance(self.network, Hashable) else id(self.network)
        given = [*self.network.args, *self.network.keywords.values()]
        if not all(map(_is_plain, given)):
            return id(self.network)
        return (self.network.func, repr(self.network.args), repr(sorted(self.network.keywords.items())))

    @property
    def code(self) -> str | None:
        """Hash of the code and the numbers that make the network, or None if it cannot be determined."""
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
        weight: Array | None = None,
    ) -> Fitted:
        """Train a network on rows.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Training rows.
        y : array of shape (rows,) or (rows, classes)
            Class numbers, or one target per class if the loss takes them.
        classes : int
            Number of classes.
        seed : int
            Seed of the initial weights, the order of the rows, dropout and augmentation.
        recipe : Recipe or None
            Replaces the model's own recipe.
        start : bytes or None
            Initial weights (safetensors). If they contain optimizer moments, training continues with these.
        device : Device
            Device and precision.
        correction : bytes or None
            Added to every gradient, by the names of the weights (safetensors).
        weight : array of shape (rows,) or None
            Sample weights above 0 with mean 1, which multiply the loss of each row.

        Returns
        -------
        FittedTorch or Constant
            `Constant` if all rows have one class and `start` is None.

        Raises
        ------
        LimbeckError
            If the recipe or the network does not suit the targets, or if training diverges.
        """
        recipe = self.checked(y, recipe)
        if self.task == "multiclass" and (label := only_class(y)) is not None and start is None:
            return Constant(label, classes, int(np.prod(x.shape[1:])))
        moments, added = moments_in(start), load(correction) if correction else {}
        with alone(seed):
            network = self.tried(x.shape[1:], classes, start)
            trained = copy.deepcopy(network).to(device.type, device.dtype)
            with device.numerics():
                train(trained, *on(device, x, weighted_targets(y, weight)), recipe, seed, device, moments, added)
        return self.fitted(network, trained.state_dict(), x.shape[1:], classes, moments)

    def checked(self, y: Array, recipe: Recipe | None) -> Recipe:
        """Return the recipe to train with, or raise LimbeckError if its loss does not suit the targets."""
        recipe = recipe or self.recipe
        if self.task != "multiclass":
            return replace(recipe, loss=LOSS_OF[self.task]) if recipe.loss == "cross-entropy" else recipe
        if y.ndim == 1 and recipe.loss != "cross-entropy":
            raise LimbeckError(f"the loss {recipe.loss!r} needs a target for each class, not class numbers")
        if y.ndim == 2 and recipe.loss == "cross-entropy":
            raise LimbeckError("the loss 'cross-entropy' needs class numbers, not a target for each class")
        return recipe

    def started(self, row: tuple[int, ...], classes: int, start: bytes | None = None) -> nn.Module:
        """Network with the weights `start`, or with fresh ones, drawn from torch's global generator."""
        network = self._fresh(tuple(channels_first(torch.zeros(1, *row)).shape[1:]), classes)
        if start is not None:
            load_weights(network, start)
        return network

    def tried(self, row: tuple[int, ...], classes: int, start: bytes | None = None) -> nn.Module:
        """Network as from `started`, after a check that it gives one score per class."""
        network = self.started(row, classes, start)
        outputs = network.eval()(channels_first(torch.zeros(1, *row)))
        if outputs.shape != (1, classes):
            raise LimbeckError(
                f"{self.name} gives outputs of shape {tuple(outputs.shape[1:])} for {classes} classes; "
                f"the shape must be ({classes},)"
            )
        return network

    def fitted(
        self,
        network: nn.Module,
        weights: Mapping[str, Tensor],
        row: tuple[int, ...],
        classes: int,
        moments: Mapping[str, Tensor] | None = None,
    ) -> "FittedTorch":
        """Fitted model from a network and its trained weights, or LimbeckError if these are not finite."""
        check_finite(weights.values())
        network.load_state_dict(weights)
        return FittedTorch(network.eval(), row, classes, self.architecture, moments or {}, self.task)

    def with_weights(self, weights: bytes, row: tuple[int, ...], classes: int) -> "FittedTorch":
        """Fitted model with given weights (safetensors)."""
        return FittedTorch(self.started(row, classes, weights).eval(), row, classes, self.architecture, task=self.task)

    def first_weights(self, row: tuple[int, ...], classes: int, seed: int) -> bytes:
        """Initial weights (safetensors), before any training."""
        with alone(seed):
            return FittedTorch(self.tried(row, classes), row, classes, self.architecture).weights()

    def trained_names(self, row: tuple[int, ...], classes: int) -> set[str]:
        """Names of the weights that training changes, without frozen weights and buffers."""
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
    """Trained network.

    Parameters
    ----------
    network : nn.Module
        The network, in evaluation mode.
    row : tuple of int
        Shape of a row as the federation stores it.
    classes : int
        Number of classes.
    architecture : hashable
        Key of the architecture; networks with equal keys share one ONNX graph.
    moments : mapping
        Optimizer moments by name; empty if training does not continue.
    task : {"multiclass", "multilabel", "regression"}
        What the outputs mean.
    """

    network: nn.Module
    row: tuple[int, ...]
    classes: int
    architecture: Hashable
    moments: Mapping[str, Tensor] = field(default_factory=dict)
    task: Kind = "multiclass"

    def logits(self, x: Array, device: Device = CPU) -> Array:
        """Outputs of the network, of shape (rows, classes): logits before the softmax or sigmoid, or numbers."""
        rows, network = on(device, x)[0], self.network
        if device is not CPU:
            network = copy.deepcopy(network).to(device.type, device.dtype)
        with torch.no_grad(), device.numerics():
            return torch.cat([network(part) for part in rows.split(ASK_AT_ONCE)]).float().cpu().numpy()

    def scores(self, x: Array) -> Array:
        """Probabilities of shape (rows, classes), or numbers in [0, 1]."""
        return scores_of(torch.from_numpy(self.logits(x)), self.task).numpy()

    def vote(self, x: Array) -> Array:
        """Class number of each row, an array of shape (rows,); for other tasks the labels."""
        return labels_of(torch.from_numpy(self.logits(x)), self.task).numpy()

    def pack(self) -> bytes:
        """Pack as ONNX bytes."""
        return pack(self.network, self.row, self.classes, self.architecture, self.task)

    def weights(self) -> bytes:
        """Weights as safetensors, with the optimizer moments if training continues with them."""
        moments = {name: _on_disk(values) for name, values in self.moments.items()}
        return save({name: weight.contiguous() for name, weight in self.network.state_dict().items()} | moments)


def load_weights(network: nn.Module, weights: bytes) -> None:
    """Load weights (safetensors) into a network of the same architecture; moments are ignored."""
    network.load_state_dict({name: values for name, values in load(weights).items() if "#" not in name})


def moments_in(start: bytes | None) -> dict[str, Tensor] | None:
    """Optimizer moments among given weights, or None if training does not continue with any."""
    found = {name: values for name, values in load(start).items() if "#" in name} if start else {}
    return found if STEP_COUNT in found else None


def _on_disk(values: Tensor) -> Tensor:
    return (values.float() if values.is_floating_point() else values).cpu().contiguous()


def _is_plain(value: Any) -> bool:
    """Whether `repr` describes a value completely."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool | int | float | None)


def _plain_name(build: Any) -> str | None:
    """Qualified name of a function, the same in every process; None for what is made at run time."""
    name = getattr(build, "__qualname__", "<>")
    closed = getattr(build, "__closure__", None) is not None
    return None if "<" in name or closed else f"{build.__module__}:{name}"


def check_finite(weights: Iterable[Tensor]) -> None:
    """Raise LimbeckError unless all weights are finite."""
    if not all(torch.isfinite(weight).all() for weight in weights):
        raise LimbeckError("training diverged: weights are no longer finite; lower the recipe's learning_rate")


def only_class(y: Array) -> int | None:
    """Class of all rows if there is only one.

    Parameters
    ----------
    y : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class.

    Returns
    -------
    int or None
        The class; None if there are several, no rows, or targets per class.

    Examples
    --------
    >>> only_class(np.array([2, 2, 2]))
    2
    >>> only_class(np.array([0, 2, 2])) is None
    True
    """
    return int(y[0]) if y.ndim == 1 and len(y) and (y == y[0]).all() else None


def on(device: Device, x: Array, y: Array | None = None) -> tuple[Tensor, Tensor]:
    """Rows (channels first) and targets as tensors on a device, in its precision."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # only read
        rows = channels_first(torch.from_numpy(np.ascontiguousarray(x, np.float32)))
        targets = torch.as_tensor(np.ascontiguousarray(y) if y is not None else np.empty(0))
    dtype = device.dtype if targets.is_floating_point() else torch.int64
    return rows.to(device.type, device.dtype), targets.to(device.type, dtype)


@contextmanager
def alone(seed: int) -> Iterator[None]:
    """Context with one thread and a seeded torch generator; both are restored afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
