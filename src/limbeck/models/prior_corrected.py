"""Prior-corrected models: trained as if the classes had the shares of a prior, whatever shares the rows have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

MIN_SHARE = 1e-6  # of a class in a prior: a smaller one counts as 0, so that weights are finite
MAX_RESAMPLED = 3  # how many times as many rows there may be after resampling


@dataclass(frozen=True, slots=True)
class PriorCorrected:
    """Model that is trained as if the classes had the shares of a prior.

    The loss of a network is weighted by class. For other models, the rows of rare classes are repeated.

    Parameters
    ----------
    model : Model
        Model to train.
    prior : "uniform" or list of float
        Share of each class; shares are scaled to a sum of 1.
    description : mapping
        What the run record says about the model.

    Raises
    ------
    LimbeckError
        If the prior is not valid.

    Examples
    --------
    >>> from limbeck.models.named import model_from
    >>> PriorCorrected(model_from({"name": "decision-tree"}), [0.9, 0.1]).name
    'prior-corrected decision-tree'
    """

    model: Model
    prior: Literal["uniform"] | list[float] = "uniform"
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shares: Any = [1.0] if self.prior == "uniform" else self.prior
        are_numbers = isinstance(shares, list) and all(type(share) in (int, float) for share in shares)
        if not are_numbers or not min(shares, default=0) >= 0 < sum(shares) < np.inf:
            raise LimbeckError(f'prior = {self.prior!r}: use "uniform", or a share for each class, not all of them 0')
        if not self.description:
            described = {"name": "prior-corrected", "model": dict(self.model.description), "prior": self.prior}
            object.__setattr__(self, "description", described)

    @property
    def name(self) -> str:
        """Name of the model in messages and records."""
        return f"prior-corrected {self.model.name}"

    @property
    def takes_weights(self) -> bool:
        """Whether it takes sample weights: a network's loss has them, other models get repeated rows."""
        return True

    def fit(
        self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, weight: Array | None = None
    ) -> Fitted:
        """Fit the model on weighted or repeated rows."""
        shares = np.ones(classes) if isinstance(self.prior, str) else np.array(self.prior)
        if len(shares) != classes:
            raise LimbeckError(f"prior has {len(shares)} shares, but there are {classes} classes")
        if len(np.unique(y)) < 2:
            return self.model.fit(x, y, classes, seed, recipe)
        weights = class_weights(y, shares / shares.sum(), weight)
        if not hasattr(self.model, "with_weights"):
            rows = resampled(weights, seed)
            return self.model.fit(x[rows], y[rows], classes, seed, recipe)
        targets = np.eye(classes, dtype=np.float32)[y] * weights[:, None].astype(np.float32)
        soft = replace(recipe or cast(Any, self.model).recipe, loss="soft-cross-entropy")
        return self.model.fit(x, targets, classes, seed, soft)


def class_weights(labels: Array, prior: Array, weight: Array | None = None) -> Array:
    """Weights of rows with which the classes have the shares of a prior.

    Parameters
    ----------
    labels : array of shape (rows,)
        Class numbers.
    prior : array of shape (classes,)
        Share of each class.
    weight : array of shape (rows,), optional
        Sample weights, which keep their ratios within a class.

    Returns
    -------
    array of shape (rows,)
        Weights with mean 1; all equal if the prior has none of the classes.

    Examples
    --------
    >>> class_weights(np.array([0, 0, 0, 1]), np.array([0.5, 0.5])).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    own = np.ones(len(labels)) if weight is None else weight
    counts = np.bincount(labels, own, minlength=len(prior))
    shares = np.where((counts > 0) & (prior >= MIN_SHARE), prior, 0.0)
    weights = (shares / np.where(counts > 0, counts, 1.0))[labels] * own
    return np.asarray(weights / weights.mean()) if weights.any() else np.asarray(own / own.mean())


def resampled(weights: Array, seed: int) -> Array:
    """Row numbers, each repeated in proportion to its weight; fractions are rounded at random.

    Parameters
    ----------
    weights : array of shape (rows,)
        Weights with mean 1.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    array of int
        Row numbers. No row with a weight is left out, unless there would be more than MAX_RESAMPLED times as many rows.

    Examples
    --------
    >>> resampled(np.array([0.5, 0.5, 2.0]), seed=0)
    array([0, 1, 2, 2, 2, 2])
    """
    times = weights / max(weights[weights > 0].min(initial=np.inf), 1 / MAX_RESAMPLED)
    extra = np.random.default_rng(seed).random(len(weights))
    return np.repeat(np.arange(len(weights)), np.floor(times + extra).astype(int))
