"""Several labels a row with any classifier: one binary model for each class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from onnx import helper, numpy_helper

from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.onnx import number_outputs, packed
from limbeck.models.voting import merged
from limbeck.models.weighting import fit_weighted, scaled, takes_weights
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.task import UNKNOWN, Kind


@dataclass(frozen=True, slots=True)
class PerLabel:
    """Model that fits a binary classifier for each class, on the rows whose label of this class is known.

    Parameters
    ----------
    model : Model
        A model of two classes.

    Examples
    --------
    >>> from limbeck.models.named import model_from
    >>> rows, labels = np.array([[0.0], [1.0], [2.0]]), np.array([[0, -1], [1, -1], [1, -1]])
    >>> fitted = PerLabel(model_from({"name": "decision-tree"})).fit(rows, labels, classes=2, seed=0)
    >>> fitted.scores(rows).tolist()
    [[0.0, 0.5], [1.0, 0.5], [1.0, 0.5]]
    """

    model: Model
    task: ClassVar[Kind] = "multilabel"

    @property
    def name(self) -> str:
        """Name of the model in messages and records."""
        return self.model.name

    @property
    def description(self) -> Mapping[str, Any]:
        """What the run record says about the model."""
        return self.model.description

    @property
    def takes_weights(self) -> bool:
        """Whether the model of a class takes sample weights."""
        return takes_weights(self.model)

    def fit(
        self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, weight: Array | None = None
    ) -> Fitted:
        """Fit one model for each class; a class without known labels has none."""
        labels = np.asarray(y)
        if labels.shape != (len(x), classes):
            raise LimbeckError(f"labels of shape {labels.shape}; for several labels a row it is ({len(x)}, {classes})")
        members: list[Fitted | None] = []
        for number, column in enumerate(labels.T):
            known = column != UNKNOWN
            given = x[known], column[known].astype(np.int64), 2, (seed + number) % 2**31, recipe
            own = None if weight is None else scaled(weight[known])
            members.append(fit_weighted(self.model, *given, own) if known.any() else None)
        return FittedPerLabel(members, int(np.prod(x.shape[1:])))


@dataclass(frozen=True, slots=True)
class FittedPerLabel:
    """Fitted binary models.

    Parameters
    ----------
    members : sequence of Fitted or None
        Model of each class; None for a class without known labels.
    features : int
        Number of values in a row.
    """

    members: Sequence[Fitted | None]
    features: int

    def scores(self, x: Array) -> Array:
        """Probability of each class, of shape (rows, classes); 0.5 for a class without known labels."""
        unknown = np.full(len(x), 0.5, np.float32)
        columns = [member.scores(x)[:, 1] if member else unknown for member in self.members]
        return np.asarray(np.stack(columns, axis=1), np.float32)

    def vote(self, x: Array) -> Array:
        """Labels 0 or 1 of shape (rows, classes)."""
        return np.asarray(self.scores(x) > 0.5, np.int64)

    def pack(self) -> bytes:
        """Pack all models as one, as ONNX bytes."""
        fitted = [member or Constant(0, 2, self.features) for member in self.members]
        whole, count = merged([member.pack() for member in fitted]), len(fitted)
        known = np.array([float(member is not None) for member in self.members], np.float32)
        constants = [
            numpy_helper.from_array(np.array(1, np.int64), "positive"),
            numpy_helper.from_array(np.array([1], np.int64), "column"),
            numpy_helper.from_array(known, "known"),
            numpy_helper.from_array((1 - known) / 2, "unknown"),
        ]
        nodes = [node for own in whole.nodes for node in own]
        for index in range(count):
            nodes.append(helper.make_node("Gather", [f"m{index}/scores", "positive"], [f"positive{index}"], axis=1))
            nodes.append(helper.make_node("Unsqueeze", [f"positive{index}", "column"], [f"column{index}"]))
        nodes.append(helper.make_node("Concat", [f"column{index}" for index in range(count)], ["found"], axis=1))
        nodes.append(helper.make_node("Mul", ["found", "known"], ["limited"]))
        nodes.append(helper.make_node("Add", ["limited", "unknown"], ["numbers"]))
        outputs, limits = number_outputs("numbers", "multilabel")
        weights = [*whole.weights, *constants, *limits]
        return packed([*nodes, *outputs], weights, whole.row, count, True, whole.opsets, "multilabel")
