"""The training jobs that algorithms hand in."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

if TYPE_CHECKING:
    from limbeck.models.torch import FittedTorch, TorchModel

T_co = TypeVar("T_co", covariant=True)


class FitJob(Generic[T_co]):
    """A job that is one fit and a question to what was fitted: a trainer may fit many such together.

    `start` holds weights to train on from; `correction` is added to every gradient: both for networks alone.
    """

    __slots__ = ()

    model: Model
    rows: Array
    targets: Array
    recipe: Recipe | None = None
    start: bytes | None = None
    correction: bytes | None = None

    def __str__(self) -> str:
        return f"{self.model.name} to {len(self.rows)} rows"

    def run(self, classes: int, seed: int) -> T_co:
        if not len(self.rows):
            raise LimbeckError("no row has a label (with confident-gaussian, lower the threshold or use more queries)")
        return self.finish(self.fit(classes, seed))

    def fit(self, classes: int, seed: int) -> Any:
        return self.model.fit(self.rows, self.targets, classes, seed, self.recipe)

    def finish(self, fitted: Any) -> T_co:
        """What is asked of what was fitted."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fit(FitJob[bytes]):
    """Fit a model, by its own recipe unless another is given; the packed model comes back."""

    model: Model
    rows: Array
    targets: Array
    recipe: Recipe | None = None

    def finish(self, fitted: Fitted) -> bytes:
        return fitted.pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        return constant_model(number, classes, self.rows.shape[1:])

    def is_valid(self, result: bytes, classes: int) -> bool:
        from limbeck.models.inspection import Limits

        return answers(result, self.rows, classes, Limits().bytes)


@dataclass(frozen=True, slots=True)
class FitAndScore(FitJob[Array]):
    """Fit a model and ask it once; only its scores [rows, classes] come back, the model stays where it was fitted."""

    model: Model
    rows: Array
    targets: Array
    asked: Array

    def finish(self, fitted: Fitted) -> Array:
        return np.asarray(fitted.scores(self.asked), np.float32)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        """Certain of one class, which the number chooses."""
        return np.asarray(np.eye(classes, dtype=np.float32)[np.full(len(self.asked), number % classes)])

    def is_valid(self, result: Any, classes: int) -> bool:
        """What is no number in it, ballots leave out."""
        return isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)


@dataclass(frozen=True, slots=True)
class FitAndVote(FitAndScore):
    """The same for votes: one class a row."""

    def finish(self, fitted: Fitted) -> Array:
        return fitted.vote(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.full(len(self.asked), number % classes)

    def is_valid(self, result: Any, classes: int) -> bool:
        right = isinstance(result, np.ndarray) and result.shape == (len(self.asked),) and result.dtype.kind in "iu"
        return right and bool(((result >= 0) & (result < classes)).all())


@dataclass(frozen=True, slots=True)
class Refit(FitJob[bytes]):
    """Train a network on from given weights (safetensors), or from fresh ones as `Fit` does; its weights come back.

    `correction` is added to every gradient: by the names of the weights, as safetensors (SCAFFOLD).
    """

    model: "TorchModel"
    rows: Array
    targets: Array
    start: bytes | None
    recipe: Recipe | None = None
    correction: bytes | None = None

    def fit(self, classes: int, seed: int) -> Fitted:
        given = (self.rows, self.targets, classes, seed, self.recipe, self.start)
        return self.model.fit(*given, correction=self.correction)

    def finish(self, fitted: "FittedTorch") -> bytes:
        if not hasattr(fitted, "weights"):
            raise LimbeckError("all labels are of one class: no network is trained to say that")
        return fitted.weights()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        """The weights that training was to start from."""
        return self.start or self.model.first_weights(self.rows.shape[1:], classes, seed)


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """A network's first weights (safetensors), before any training."""

    model: "TorchModel"
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        return self.model.first_weights(self.row, classes, seed)


@dataclass(frozen=True, slots=True)
class Pack:
    """A network with given weights, as ONNX."""

    model: "TorchModel"
    start: bytes
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        return self.model.with_weights(self.start, self.row, classes).pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        return constant_model(number, classes, self.row)


class Asking:
    """A job that asks what is there already: finite scores [rows, classes] come back."""

    __slots__ = ()

    asked: Array

    def is_valid(self, result: Any, classes: int) -> bool:
        right = isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)
        return right and bool(np.isfinite(result).all())


@dataclass(frozen=True, slots=True)
class ForwardPass(Asking):
    """A network's logits for rows, by its weights: [rows, classes], before the softmax."""

    model: "TorchModel"
    start: bytes
    asked: Array

    def __str__(self) -> str:
        return f"{self.model.name}, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        return self.model.with_weights(self.start, self.asked.shape[1:], classes).logits(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.zeros((len(self.asked), classes), np.float32)


@dataclass(frozen=True, slots=True)
class PredictPacked(Asking):
    """A packed model's scores for rows: [rows, classes]."""

    packed: bytes
    asked: Array

    def __str__(self) -> str:
        return f"a packed model, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        from limbeck.models.onnx import PackedModel

        return PackedModel(self.packed).scores(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.full((len(self.asked), classes), 1 / classes, np.float32)


def constant_model(number: int, classes: int, row: tuple[int, ...]) -> bytes:
    """A packed model that gives every row the class that a number chooses."""
    from limbeck.models.constant import Constant

    return Constant(number % classes, classes, math.prod(row)).pack()


def answers(packed: Any, rows: Array, classes: int, largest: int | None = None) -> bool:
    """Whether a packed model gives each row a class and finite scores, and is not too large to send or keep."""
    from limbeck.models.onnx import PackedModel, check_answers

    try:
        if len(rows):
            check_answers(*PackedModel(packed).run(rows), len(rows), classes)
    except (LimbeckError, ValueError):
        return False
    return largest is None or len(packed) <= largest


def is_gradient_trained(model: Model) -> bool:
    """Whether a model is trained in steps and can go on from where it is; others are fitted anew."""
    return hasattr(model, "with_weights")
