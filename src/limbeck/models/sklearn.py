"""Any classifier or pipeline with the interface of scikit-learn (also XGBoost, LightGBM), as a kind of model."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from limbeck.errors import LimbeckError
from limbeck.models.boosters import register_boosters
from limbeck.models.constant import Constant
from limbeck.models.forests import fit_estimator, mean_prediction, trees_of
from limbeck.models.onnx import OPSETS, spread
from limbeck.models.trees import pack_trees
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, flat


@dataclass(frozen=True, slots=True)
class SklearnModel:
    """Estimator as a kind of model.

    It is cloned for every fit. A `random_state` of None is set to the seed of the fit.

    Parameters
    ----------
    estimator : Any
        scikit-learn classifier or pipeline.
    description : mapping
        What the run record says about the model; by default its name and its `repr`.

    Raises
    ------
    LimbeckError
        If the estimator is not a classifier.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = SklearnModel(DecisionTreeClassifier())
    >>> model.fit(np.array([[0.0], [1.0]]), np.array([0, 2]), classes=3, seed=0).vote(np.array([[0.9]]))
    array([2])
    """

    estimator: Any
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = " ".join(repr(self.estimator).split())
        if isinstance(self.estimator, type) or not is_classifier_like(self.estimator):
            raise LimbeckError(f"a model must be a scikit-learn classifier, not {text[:100]}")
        if not self.description:
            object.__setattr__(self, "description", {"name": type(_last(self.estimator)).__name__, "repr": text})

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
        """Fit a clone of the estimator; rows of one class give a `Constant`."""
        if recipe is not None:
            raise LimbeckError(f"{self.name} is not trained in epochs and takes no recipe")
        rows = flat(x)
        seen, codes = np.unique(y, return_inverse=True)
        if len(seen) == 1:
            return Constant(int(seen[0]), classes, rows.shape[1])
        estimator = prepared(self.estimator, seed)
        fitted = fit_estimator(estimator, rows, codes, **weights_for(estimator, weight))
        return FittedSklearn(fitted, seen, classes, rows.shape[1])


@dataclass(frozen=True, slots=True)
class FittedSklearn:
    """Fitted estimator.

    Parameters
    ----------
    estimator : Any
        The estimator, which numbers the classes that it has seen 0, 1, ...
    seen : array of int
        Class numbers that these stand for.
    classes : int
        Number of all classes.
    features : int
        Number of values in a row.
    """

    estimator: Any
    seen: Array
    classes: int
    features: int

    def vote(self, x: Array) -> Array:
        """Class number of each row, an array of shape (rows,)."""
        trees = trees_of(self.estimator)
        codes = mean_prediction(trees, flat(x)).argmax(axis=1) if trees else self.estimator.predict(flat(x))
        votes: Array = self.seen[codes.astype(np.int64)]
        return votes

    def scores(self, x: Array) -> Array:
        """Scores of shape (rows, classes): probabilities, or 1 for the predicted class if there are none."""
        identity = np.eye(self.classes, dtype=np.float32)
        if not self._has_probabilities:
            return identity[self.vote(x)]
        trees = trees_of(self.estimator)
        shares = mean_prediction(trees, flat(x)) if trees else self.estimator.predict_proba(flat(x))
        return np.asarray(shares, np.float32) @ identity[self.seen]

    def pack(self) -> bytes:
        """Pack as ONNX bytes."""
        trees = trees_of(self.estimator)
        if trees is not None:
            return pack_trees(trees, self.seen, self.classes, self.features)
        return spread(self._converted(), self.seen, self.classes, self._has_probabilities)

    def _converted(self) -> Any:
        from skl2onnx.helpers.onnx_helper import select_model_inputs_outputs

        options = {id(_last(self.estimator)): {"zipmap": False}} if self._has_probabilities else None
        model = converted(self.estimator, self.features, options)
        if self._has_probabilities:
            return model
        return select_model_inputs_outputs(model, [model.graph.output[0].name])

    @property
    def _has_probabilities(self) -> bool:
        return hasattr(self.estimator, "predict_proba")


def converted(estimator: Any, features: int, options: Any = None) -> Any:
    """Convert a fitted estimator to ONNX by skl2onnx.

    Parameters
    ----------
    estimator : Any
        The estimator.
    features : int
        Number of values in a row.
    options : dict, optional
        Options of skl2onnx.

    Returns
    -------
    ModelProto
        The converted model.
    """
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    register_boosters(estimator)
    rows = [("rows", FloatTensorType([None, features]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return convert_sklearn(estimator, "local", rows, options=options, target_opset=OPSETS)


def prepared(estimator: Any, seed: int) -> Any:
    """Clone an estimator, with every open seed set and on one core, because the trainer distributes the cores."""
    fresh = clone(estimator)
    parameters = fresh.get_params()
    open_seeds = {k: seed for k, v in parameters.items() if k.endswith("random_state") and v is None}
    one_core = {k: 1 for k in parameters if k.endswith("n_jobs")}
    return fresh.set_params(**open_seeds, **one_core)


def takes_sample_weight(estimator: Any) -> bool:
    """Whether `fit` of an estimator, or of the last step of a pipeline, takes sample weights."""
    return bool(has_fit_parameter(_last(estimator), "sample_weight"))


def weights_for(estimator: Any, weight: Array | None) -> dict[str, Array]:
    """Arguments of `fit` that give an estimator, or the last step of a pipeline, its sample weights; none without."""
    if weight is None:
        return {}
    where = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    return {f"{where}sample_weight": weight}


def is_classifier_like(estimator: Any) -> bool:
    """Whether an estimator can be cloned and fitted, and predicts; `predict` may appear only after the fit.

    Parameters
    ----------
    estimator : Any
        The estimator.

    Returns
    -------
    bool
        False for transformers, for example.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> is_classifier_like(StandardScaler())
    False
    """
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        return False
    return hasattr(estimator, "predict") or hasattr(type(estimator), "predict")


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
