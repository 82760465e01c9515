"""Any torch network as a kind of model, trained by a recipe."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import onnx
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional as F

from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.onnx import packed
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

Build = Callable[[tuple[int, ...], int], nn.Module]
COLOURS = (1, 3, 4)
OPSET = 17  # the TorchScript exporter's newest
ASK_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A network and its recipe: `build(shape, classes)`, or a module whose copy starts anew for every fit."""

    network: Build | nn.Module
    recipe: Recipe = field(default_factory=Recipe)
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.description:
            kind = type(self.network) if isinstance(self.network, nn.Module) else self.network
            text = " ".join(repr(self.network).split())
            name = getattr(kind, "__name__", "network")
            object.__setattr__(self, "description", {"name": name, "repr": text, "recipe": asdict(self.recipe)})

    @property
    def name(self) -> str:
        return str(self.description["name"])

    def fit(self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None) -> Fitted:
        """`y` holds class numbers, or [rows, classes] targets for the losses that take them."""
        if y.ndim == 1 and len(seen := np.unique(y)) == 1:
            return Constant(int(seen[0]), classes, int(np.prod(x.shape[1:])))
        recipe = recipe or self.recipe
        if y.ndim == 1 and recipe.loss != "cross-entropy":
            raise LimbeckError(f"the loss {recipe.loss!r} wants a target per class, not class numbers")
        rows = channels_first(x)
        with alone(seed):
            network = self.started(rows.shape[1:], classes)
            self._check_outputs(network.eval()(rows[:1]), classes)
            train(network, rows, torch.as_tensor(y), recipe)
        if not all(torch.isfinite(weight).all() for weight in network.parameters()):
            raise LimbeckError("training diverged: weights are no longer finite; lower the recipe's learning_rate")
        return FittedTorch(network.eval(), x.shape[1:], classes)

    def _check_outputs(self, outputs: Tensor, classes: int) -> None:
        if outputs.shape != (1, classes):
            raise LimbeckError(f"{self.name} gives outputs of shape {tuple(outputs.shape[1:])} for {classes} classes")

    def started(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A network with fresh weights, drawn from torch's generator of the moment."""
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

    def logits(self, x: Array) -> Array:
        """[rows, classes], before the softmax."""
        parts = [self.network(channels_first(x[i : i + ASK_AT_ONCE])) for i in range(0, max(len(x), 1), ASK_AT_ONCE)]
        return torch.cat([part.detach() for part in parts]).numpy()

    def scores(self, x: Array) -> Array:
        return torch.softmax(torch.from_numpy(self.logits(x)), dim=1).numpy()

    def vote(self, x: Array) -> Array:
        return np.asarray(self.logits(x).argmax(axis=1))

    def pack(self) -> bytes:
        file = io.BytesIO()
        names = ("rows", "label", "scores")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the TorchScript exporter is deprecated, and ten times faster
            torch.onnx.export(
                _Voter(self.network).eval(),
                (torch.zeros(2, *self.row),),
                cast(Any, file),
                input_names=names[:1],
                output_names=names[1:],
                dynamic_axes={name: {0: "rows"} for name in names},
                opset_version=OPSET,
                dynamo=False,
            )
        graph = onnx.load_from_string(file.getvalue()).graph
        return packed(graph.node, graph.initializer, self.row, self.classes, probabilities=True, opsets={"": OPSET})

    def weights(self) -> bytes:
        """The weights as safetensors, for algorithms that average them."""
        return save(dict(self.network.state_dict()))


def load_weights(network: nn.Module, weights: bytes) -> None:
    """Give a network the weights of another of its architecture."""
    network.load_state_dict(load(weights))


def train(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> None:
    """Train in place by the recipe; the order of batches comes from torch's generator of the moment."""
    optimiser = _optimiser(network, recipe)
    loss = LOSSES[recipe.loss]
    held = min(max(1, int(len(x) * recipe.held_out)), max(0, len(x) - 2)) if recipe.patience else 0
    order = torch.randperm(len(x))
    rows, check = order[held:], order[:held]
    schedule = _schedule(optimiser, recipe, epochs=recipe.epochs)
    best, best_weights, waited = float("inf"), network.state_dict(), 0
    for _ in range(recipe.epochs):
        network.train()
        for batch in rows[torch.randperm(len(rows))].split(recipe.batch):
            if len(batch) == 1 < min(recipe.batch, len(rows)):
                continue  # a single row left over: batch norm has no variance of one row
            optimiser.zero_grad()
            loss(network(x[batch]), y[batch], recipe.temperature).backward()
            optimiser.step()
        schedule.step()
        if held:
            current = _loss_on(network.eval(), x[check], y[check], recipe)
            waited = 0 if current < best else waited + 1
            if current < best:
                best, best_weights = current, copy.deepcopy(network.state_dict())
            if waited == recipe.patience:
                break
    if held:
        network.load_state_dict(best_weights)


def channels_first(x: Array) -> Tensor:
    """Rows as torch wants them: images of [H, W] or [H, W, colours] become [colours, H, W]."""
    rows = torch.from_numpy(np.ascontiguousarray(x, np.float32))
    return _first(rows)


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


class _Voter(nn.Module):
    """A network as packed models are: from stored rows to label and scores."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(_first(rows))
        return logits.argmax(dim=1), torch.softmax(logits, dim=1)


def _first(rows: Tensor) -> Tensor:
    if rows.ndim == 3:
        return rows.unsqueeze(1)
    return rows.permute(0, 3, 1, 2) if rows.ndim == 4 and rows.shape[3] in COLOURS else rows


def _optimiser(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    rate, decay = recipe.learning_rate, recipe.weight_decay
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(network.parameters(), rate, momentum=recipe.momentum, weight_decay=decay)
    return torch.optim.Adam(network.parameters(), rate, weight_decay=decay)


def _schedule(optimiser: torch.optim.Optimizer, recipe: Recipe, epochs: int) -> torch.optim.lr_scheduler.LRScheduler:
    if recipe.schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs, recipe.final_learning_rate)
    return torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: 1.0)


def _loss_on(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> float:
    with torch.no_grad():
        parts = [network(part) for part in x.split(ASK_AT_ONCE)]
        return float(LOSSES[recipe.loss](torch.cat(parts), y, recipe.temperature))


def _kl(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """KL at a temperature, times its square so that gradients keep their size (Hinton et al. 2015)."""
    ours, theirs = F.log_softmax(logits / temperature, dim=1), F.log_softmax(targets / temperature, dim=1)
    return F.kl_div(ours, theirs, reduction="batchmean", log_target=True) * temperature**2


LOSSES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "cross-entropy": lambda logits, targets, _: F.cross_entropy(logits, targets.long()),
    "soft-cross-entropy": lambda logits, targets, _: F.cross_entropy(logits, targets),
    "kl": _kl,
    "mse": lambda logits, targets, _: F.mse_loss(logits, targets),
    "mae": lambda logits, targets, _: F.l1_loss(logits, targets),
}
