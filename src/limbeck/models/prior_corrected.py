"""Prior-corrected: a model that learns as if its classes had the shares of a prior, whatever shares its rows have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

MIN_SHARE = 1e-6  # of a class in a prior: a smaller one counts as none, so that weights are finite
MAX_RESAMPLED = 3  # how many times its size a set of rows grows when its classes are evened out


@dataclass(frozen=True, slots=True)
class PriorCorrected:
    """A network's loss is weighted by class; other models see rows of rare classes several times."""

    model: Model
    prior: Literal["uniform"] | list[float] = "uniform"
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shares: Any = [1.0] if self.prior == "uniform" else self.prior
        are_numbers = isinstance(shares, list) and all(type(share) in (int, float) for share in shares)
        if not are_numbers or not min(shares, default=0) >= 0 < sum(shares) < np.inf:
            raise LimbeckError(f'prior = {self.prior!r}: "uniform", or a share for each class, not all of them 0')
        if not self.description:
            described = {"name": "prior-corrected", "model": dict(self.model.description), "prior": self.prior}
            object.__setattr__(self, "description", described)

    @property
    def name(self) -> str:
        return f"prior-corrected {self.model.name}"

    def fit(self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None) -> Fitted:
        shares = np.ones(classes) if isinstance(self.prior, str) else np.array(self.prior)
        if len(shares) != classes:
            raise LimbeckError(f"prior has {len(shares)} shares, but there are {classes} classes")
        if len(np.unique(y)) < 2:
            return self.model.fit(x, y, classes, seed, recipe)
        weights = class_weights(y, shares / shares.sum())
        if not hasattr(self.model, "with_weights"):
            rows = resampled(weights, seed)
            return self.model.fit(x[rows], y[rows], classes, seed, recipe)
        targets = np.eye(classes, dtype=np.float32)[y] * weights[:, None].astype(np.float32)
        soft = replace(recipe or cast(Any, self.model).recipe, loss="soft-cross-entropy")
        return self.model.fit(x, targets, classes, seed, soft)


def class_weights(labels: Array, prior: Array) -> Array:
    """Weights of rows such that classes weigh as in the prior, 1 on average; all 1 where it has none of the classes."""
    counts = np.bincount(labels, minlength=len(prior))
    shares = np.where((counts > 0) & (prior >= MIN_SHARE), prior, 0.0)
    weights = (shares / np.maximum(counts, 1))[labels]
    return np.asarray(weights / weights.mean()) if weights.any() else np.ones(len(labels))


def resampled(weights: Array, seed: int) -> Array:
    """Row numbers, each as often as its weight says, at random where that is between two whole numbers.

    No row with a weight is left out, unless there would be more than MAX_RESAMPLED times as many.
    """
    times = weights / max(weights[weights > 0].min(initial=np.inf), 1 / MAX_RESAMPLED)
    extra = np.random.default_rng(seed).random(len(weights))
    return np.repeat(np.arange(len(weights)), np.floor(times + extra).astype(int))
