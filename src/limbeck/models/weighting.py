"""Sample weights in training: which models take them, and how they are scaled."""

import inspect
from typing import cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import Fitted, Model, WeightedModel
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array


def takes_weights(model: Model) -> bool:
    """Whether a model can be fitted to weighted rows.

    Parameters
    ----------
    model : Model
        The model. Its property `takes_weights` decides; without one, whether its `fit` has the parameter `weight`.

    Returns
    -------
    bool
        False for models such as nearest neighbours, which do not use sample weights.

    Examples
    --------
    >>> from limbeck.models.named import model_from
    >>> [takes_weights(model_from({"name": name})) for name in ("decision-tree", "knn")]
    [True, False]
    """
    own = getattr(model, "takes_weights", None)
    return "weight" in inspect.signature(model.fit).parameters if own is None else bool(own)


def check_takes_weights(model: Model) -> None:
    """Raise LimbeckError, which names the model, unless it can be fitted to weighted rows."""
    if not takes_weights(model):
        raise LimbeckError(
            f"model {model.name!r} does not use sample weights or class weights; use for example random-forest"
        )


def fit_weighted(
    model: Model, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, weight: Array | None = None
) -> Fitted:
    """Fit a model to rows with weights; without weights it need not take any.

    Parameters
    ----------
    model : Model
        The model.
    x, y : array
        Rows and their labels.
    classes : int
        Number of classes of the run.
    seed : int
        Seed of all randomness.
    recipe : Recipe, optional
        Replaces the model's own recipe.
    weight : array of shape (rows,), optional
        Sample weights above 0 with mean 1.

    Returns
    -------
    Fitted
        The fitted model.
    """
    if weight is None:
        return model.fit(x, y, classes, seed, recipe)
    check_takes_weights(model)
    return cast(WeightedModel, model).fit(x, y, classes, seed, recipe, weight=weight)


def rows_that_count(rows: Array, targets: Array, weight: Array) -> tuple[Array, Array, Array | None]:
    """Leave out rows of weight 0, and scale the other weights to mean 1.

    Parameters
    ----------
    rows, targets : array
        Training rows and their targets.
    weight : array of shape (rows,)
        Sample weights, at least 0.

    Returns
    -------
    rows, targets : array
        Those with a weight above 0.
    weight : array or None
        Their weights with mean 1; None if all are equal.

    Notes
    -----
    A training therefore depends on the ratios of weights alone, not on their scale: weights that had to be divided to
    lie in [0, 1] change no regularization. Equal weights give the same model as none, and a class whose rows all have
    weight 0 counts as absent. That is sound at private levels, because it happens inside the training of one
    teacher, which may be any function of the rows of its subset. How rows are cut into subsets does not depend on it.

    Examples
    --------
    >>> rows_that_count(np.zeros((3, 1)), np.array([0, 1, 1]), np.array([0.1, 0.0, 0.3]))[1:]
    (array([0, 1]), array([0.5, 1.5]))
    """
    if not (counts := weight > 0).all():
        rows, targets, weight = rows[counts], targets[counts], weight[counts]
    if not len(weight) or (weight == weight[0]).all():
        return rows, targets, None
    return rows, targets, scaled(weight)


def scaled(weight: Array) -> Array:
    """Scale weights to mean 1; weights that are all 0 stay 0."""
    largest = weight.max(initial=0.0)  # first, so that no sum overflows
    if not largest > 0:
        return np.asarray(weight, np.float64)
    shares = np.asarray(weight, np.float64) / largest
    return np.asarray(shares / shares.mean())


def beside_others(others: int, weight: Array | None) -> Array | None:
    """Weights of rows without weights, followed by weighted rows that count as much on average.

    Parameters
    ----------
    others : int
        Number of rows without weights, for example public rows.
    weight : array of shape (rows,) or None
        Weights of the rows that follow.

    Returns
    -------
    array of shape (others + rows,) or None
        The weights; None if no row has one.

    Examples
    --------
    >>> beside_others(2, np.array([0.1, 0.3])).tolist()
    [1.0, 1.0, 0.5, 1.5]
    """
    return None if weight is None else np.concatenate([np.ones(others), scaled(weight)])
