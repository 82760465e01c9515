"""Any regressor or pipeline with the interface of scikit-learn (also XGBoost, LightGBM), as a kind of model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.constant import ConstantScores
from limbeck.models.forests import fit_estimator, mean_prediction, trees_of
from limbeck.models.onnx import OPSETS, number_outputs, packed, renamed
from limbeck.models.sklearn import converted, prepared, takes_sample_weight, weights_for
from limbeck.models.trees import pack_trees
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, flat
from limbeck.protocol.task import Kind


@dataclass(frozen=True, slots=True)
class SklearnRegressor:
    """Regressor as a kind of model. Targets and predictions are scaled to [0, 1].

    Parameters
    ----------
    estimator : Any
        scikit-learn regressor or pipeline.
    description : mapping
        What the run record says about the model.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = SklearnRegressor(DecisionTreeRegressor(), {"name": "decision-tree"})
    >>> rows, targets = np.array([[0.0], [1.0]]), np.array([0.25, 0.75])
    >>> model.fit(rows, targets, classes=1, seed=0).vote(rows).tolist()
    [0.25, 0.75]
    """

    estimator: Any
    description: Mapping[str, Any]
    task: ClassVar[Kind] = "regression"

    @property
    def name(self) -> str:
        """Name of the model in messages and records."""
        return str(self.description["name"])

    @property
    def takes_weights(self) -> bool:
        """Whether `fit` of the estimator, or of the last step of a pipeline, takes sample weights."""
        return takes_sample_weight(self.estimator)

    def fit(
        self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, weight: Array | None = None
    ) -> Fitted:
        """Fit a clone of the estimator; rows of one target give a `ConstantScores`."""
        if recipe is not None:
            raise LimbeckError(f"{self.name} is not trained in epochs and takes no recipe")
        rows, targets, estimator = flat(x), np.asarray(y, np.float64).ravel(), prepared(self.estimator, seed)
        if (targets == targets[0]).all():
            return ConstantScores(np.clip(targets[:1], 0, 1), rows.shape[1], "regression")
        fitted = fit_estimator(estimator, rows, targets, **weights_for(estimator, weight))
        return FittedRegressor(fitted, rows.shape[1])


@dataclass(frozen=True, slots=True)
class FittedRegressor:
    """Fitted regressor.

    Parameters
    ----------
    estimator : Any
        The estimator.
    features : int
        Number of values in a row.
    """

    estimator: Any
    features: int

    def vote(self, x: Array) -> Array:
        """Number of each row in [0, 1], an array of shape (rows,)."""
        trees = trees_of(self.estimator)
        numbers = mean_prediction(trees, flat(x)) if trees else self.estimator.predict(flat(x))
        return np.clip(np.nan_to_num(np.asarray(numbers, np.float32).ravel()), 0.0, 1.0)

    def scores(self, x: Array) -> Array:
        """The numbers, of shape (rows, 1)."""
        return self.vote(x)[:, None]

    def pack(self) -> bytes:
        """Pack as ONNX bytes."""
        if (trees := trees_of(self.estimator)) is not None:
            return pack_trees(trees, None, 1, self.features)
        model = converted(self.estimator, self.features)
        graph = model.graph
        renamed(graph, {graph.input[0].name: "rows", graph.output[0].name: "numbers"})
        outputs, constants = number_outputs("numbers", "regression")
        opsets = OPSETS | {o.domain: o.version for o in model.opset_import if o.domain not in OPSETS}
        nodes, weights = [*graph.node, *outputs], [*graph.initializer, *constants]
        return packed(nodes, weights, [self.features], 1, True, opsets, "regression")
