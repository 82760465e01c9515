"""Training jobs, which an algorithm gives to `Site.train`."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.weighting import fit_weighted, rows_that_count
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

if TYPE_CHECKING:
    from limbeck.models.torch import FittedTorch, TorchModel

T_co = TypeVar("T_co", covariant=True)


class FitJob(Generic[T_co]):
    """Base class of jobs that fit one model; a trainer may fit many of them together.

    Attributes
    ----------
    model : Model
        Model to fit.
    rows : array of shape (rows, ...)
        Training rows.
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class.
    recipe : Recipe or None
        Replaces the model's own recipe.
    start : bytes or None
        Initial weights (safetensors), for networks only.
    correction : bytes or None
        Added to every gradient (safetensors), for networks only.
    weight : array of shape (rows,) or None
        Sample weights, at least 0. Rows of weight 0 are left out, and the other weights are scaled to mean 1.
    """

    __slots__ = ()

    model: Model
    rows: Array
    targets: Array
    recipe: Recipe | None = None
    start: bytes | None = None
    correction: bytes | None = None
    weight: Array | None = None

    def __post_init__(self) -> None:
        if self.weight is None:
            return
        counted = rows_that_count(self.rows, self.targets, self.weight)
        for name, values in zip(("rows", "targets", "weight"), counted, strict=True):
            object.__setattr__(self, name, values)

    def __str__(self) -> str:
        return f"{self.model.name} to {len(self.rows)} rows"

    def run(self, classes: int, seed: int) -> T_co:
        """Fit the model and return the result of the job."""
        if not len(self.rows):
            raise LimbeckError("no row has a label (with confident-gaussian, lower the threshold or use more queries)")
        return self.finish(self.fit(classes, seed))

    def fit(self, classes: int, seed: int) -> Any:
        """Fit the model."""
        return fit_weighted(self.model, self.rows, self.targets, classes, seed, self.recipe, self.weight)

    def finish(self, fitted: Any) -> T_co:
        """Result of the job, computed from the fitted model."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fit(FitJob[bytes]):
    """Fit a model; the result is the packed model (ONNX bytes).

    Parameters
    ----------
    model : Model
        Model to fit.
    rows : array of shape (rows, ...)
        Training rows.
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class for networks whose loss takes them.
    recipe : Recipe or None
        Replaces the model's own recipe; for networks only.
    weight : array of shape (rows,) or None
        Sample weights, at least 0; None means that all rows count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.models.named import model_from
    >>> from limbeck.models.onnx import PackedModel
    >>> rows, labels = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([0, 0, 1, 1])
    >>> job = Fit(model_from({"name": "decision-tree"}), rows, labels)
    >>> PackedModel(job.run(classes=2, seed=0)).vote(rows).tolist()
    [0, 0, 1, 1]
    """

    model: Model
    rows: Array
    targets: Array
    recipe: Recipe | None = None
    weight: Array | None = None

    def finish(self, fitted: Fitted) -> bytes:
        return fitted.pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        """Result in place of a failed training: a model that always predicts the class `number` modulo `classes`."""
        return constant_model(number, classes, self.rows.shape[1:], task_of(self.model))

    def is_valid(self, result: bytes, classes: int) -> bool:
        """Whether a result is a packed model that predicts all rows and is not too large."""
        from limbeck.models.inspection import Limits

        return answers(result, self.rows, classes, Limits().bytes, task_of(self.model))


@dataclass(frozen=True, slots=True)
class FitAndScore(FitJob[Array]):
    """Fit a model and score other rows; the result is the scores, of shape (asked rows, classes).

    The model itself stays where it was fitted.

    Parameters
    ----------
    model : Model
        Model to fit.
    rows : array of shape (rows, ...)
        Training rows.
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class for networks whose loss takes them.
    asked : array of shape (asked rows, ...)
        Rows to score.
    weight : array of shape (rows,) or None
        Sample weights, at least 0; None means that all rows count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.models.named import model_from
    >>> rows, labels = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([0, 0, 1, 1])
    >>> FitAndScore(model_from({"name": "decision-tree"}), rows, labels, asked=rows[1:3]).run(classes=2, seed=0)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    model: Model
    rows: Array
    targets: Array
    asked: Array
    weight: Array | None = None

    def finish(self, fitted: Fitted) -> Array:
        return np.asarray(fitted.scores(self.asked), np.float32)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        """Result in place of a failed training: the class `number` modulo `classes` for all rows; else 0.5."""
        if task_of(self.model) != "multiclass":
            return np.full((len(self.asked), classes), 0.5, np.float32)
        return np.asarray(np.eye(classes, dtype=np.float32)[np.full(len(self.asked), number % classes)])

    def is_valid(self, result: Any, classes: int) -> bool:
        """Whether a result has the right shape; votes leave out scores that are not finite."""
        return isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)


@dataclass(frozen=True, slots=True)
class FitAndVote(FitAndScore):
    """Fit a model and label other rows; the result is the votes, class numbers of shape (asked rows,).

    The model itself stays where it was fitted.

    Parameters
    ----------
    model : Model
        Model to fit.
    rows : array of shape (rows, ...)
        Training rows.
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class for networks whose loss takes them.
    asked : array of shape (asked rows, ...)
        Rows to label.
    weight : array of shape (rows,) or None
        Sample weights, at least 0; None means that all rows count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.models.named import model_from
    >>> rows, labels = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([0, 0, 1, 1])
    >>> FitAndVote(model_from({"name": "decision-tree"}), rows, labels, asked=rows[1:3]).run(classes=2, seed=0)
    array([0, 1])
    """

    def finish(self, fitted: Fitted) -> Array:
        return fitted.vote(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.full(len(self.asked), number % classes)

    def is_valid(self, result: Any, classes: int) -> bool:
        """Whether a result is one class number for each row."""
        right = isinstance(result, np.ndarray) and result.shape == (len(self.asked),) and result.dtype.kind in "iu"
        return right and bool(((result >= 0) & (result < classes)).all())


@dataclass(frozen=True, slots=True)
class Refit(FitJob[bytes]):
    """Train a network from given weights; the result is its new weights (safetensors).

    Parameters
    ----------
    model : TorchModel
        Network to train.
    rows : array of shape (rows, ...)
        Training rows.
    targets : array of shape (rows,) or (rows, classes)
        Class numbers, or one target per class if the loss takes them.
    start : bytes or None
        Initial weights (safetensors); None means fresh ones, as for `Fit`.
    recipe : Recipe or None
        Replaces the model's own recipe.
    correction : bytes or None
        Added to every gradient, by the names of the weights (safetensors; SCAFFOLD).
    weight : array of shape (rows,) or None
        Sample weights, at least 0; None means that all rows count the same.
    """

    model: "TorchModel"
    rows: Array
    targets: Array
    start: bytes | None
    recipe: Recipe | None = None
    correction: bytes | None = None
    weight: Array | None = None

    def fit(self, classes: int, seed: int) -> Fitted:
        given = (self.rows, self.targets, classes, seed, self.recipe, self.start)
        return self.model.fit(*given, correction=self.correction, weight=self.weight)

    def finish(self, fitted: "FittedTorch") -> bytes:
        if not hasattr(fitted, "weights"):
            raise LimbeckError("all labels are of one class; training a network needs labels of at least two classes")
        return fitted.weights()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        """Result in place of a failed training: the weights from which training was to start."""
        return self.start or self.model.first_weights(self.rows.shape[1:], classes, seed)


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """Initial weights of a network (safetensors), before any training.

    Parameters
    ----------
    model : TorchModel
        The network.
    row : tuple of int
        Shape of a row.
    """

    model: "TorchModel"
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        """Initial weights of the network."""
        return self.model.first_weights(self.row, classes, seed)


@dataclass(frozen=True, slots=True)
class Pack:
    """Pack a network with given weights as ONNX.

    Parameters
    ----------
    model : TorchModel
        The network.
    start : bytes
        Its weights (safetensors).
    row : tuple of int
        Shape of a row.
    """

    model: "TorchModel"
    start: bytes
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        """The packed model."""
        return self.model.with_weights(self.start, self.row, classes).pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        """Result in place of a failed job: a model that always predicts the class `number` modulo `classes`."""
        return constant_model(number, classes, self.row, task_of(self.model))


class PredictJob:
    """Base class of jobs that predict with an existing model; the result is scores, of shape (asked rows, classes).

    Attributes
    ----------
    asked : array of shape (asked rows, ...)
        Rows to predict.
    """

    __slots__ = ()

    asked: Array

    def is_valid(self, result: Any, classes: int) -> bool:
        """Whether a result is finite scores of the right shape."""
        right = isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)
        return right and bool(np.isfinite(result).all())


@dataclass(frozen=True, slots=True)
class ForwardPass(PredictJob):
    """Predict rows with a network; the result is the logits (before the softmax), of shape (asked rows, classes).

    Parameters
    ----------
    model : TorchModel
        The network.
    start : bytes
        Its weights (safetensors).
    asked : array of shape (asked rows, ...)
        Rows to predict.
    """

    model: "TorchModel"
    start: bytes
    asked: Array

    def __str__(self) -> str:
        return f"{self.model.name}, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        """Logits of shape (asked rows, classes)."""
        return self.model.with_weights(self.start, self.asked.shape[1:], classes).logits(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        """Result in place of a failed job: all logits 0."""
        return np.zeros((len(self.asked), classes), np.float32)


@dataclass(frozen=True, slots=True)
class PredictPacked(PredictJob):
    """Predict rows with a packed model; the result is the scores, of shape (asked rows, classes).

    Parameters
    ----------
    packed : bytes
        Packed model.
    asked : array of shape (asked rows, ...)
        Rows to predict.
    """

    packed: bytes
    asked: Array

    def __str__(self) -> str:
        return f"a packed model, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        """Scores of shape (asked rows, classes)."""
        from limbeck.models.onnx import PackedModel

        return PackedModel(self.packed).scores(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        """Result in place of a failed job: equal scores for all classes."""
        return np.full((len(self.asked), classes), 1 / classes, np.float32)


def constant_model(number: int, classes: int, row: tuple[int, ...], task: Kind = "multiclass") -> bytes:
    """Packed model that gives every row the same class, or the score 0.5 for every class.

    Parameters
    ----------
    number : int
        Chooses the class: `number` modulo `classes`.
    classes : int
        Number of classes.
    row : tuple of int
        Shape of a row.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    bytes
        The packed model.
    """
    from limbeck.models.constant import Constant, ConstantScores

    if task != "multiclass":
        return ConstantScores(np.full(classes, 0.5, np.float32), math.prod(row), task).pack()
    return Constant(number % classes, classes, math.prod(row)).pack()


def answers(packed: Any, rows: Array, classes: int, largest: int | None = None, task: Kind = "multiclass") -> bool:
    """Whether a packed model gives each row a class and finite scores, and is not too large to send or store.

    Parameters
    ----------
    packed : Any
        The packed model.
    rows : array of shape (rows, ...)
        Rows on which the model is tried.
    classes : int
        Number of classes.
    largest : int or None
        Maximum size in bytes; None means no limit.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    bool
        Whether the model is valid.
    """
    from limbeck.models.onnx import PackedModel, check_answers

    try:
        if len(rows):
            check_answers(*PackedModel(packed).run(rows), len(rows), classes, task)
    except (LimbeckError, ValueError):
        return False
    return largest is None or len(packed) <= largest


def task_of(model: Model) -> Kind:
    """Kind of labels that a model learns."""
    return getattr(model, "task", "multiclass")


def is_gradient_trained(model: Model) -> bool:
    """Whether a model is trained by gradient steps and can continue from its weights; others are fitted anew.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    bool
        True for networks.

    Examples
    --------
    >>> from limbeck.models.named import model_from
    >>> is_gradient_trained(model_from({"name": "decision-tree"}))
    False
    """
    return hasattr(model, "with_weights")
