"""A rehearsal on made-up rows: a model that cannot be fitted, packed or run is refused before anyone trains."""

import math
from dataclasses import replace

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.onnx import PackedModel
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

FEW = 8  # rows a class
FEWEST = 4  # rows in all, for networks: one step of a large one takes a second
LEAST_AGREEMENT = 0.9


def rehearse(model: Model, row: tuple[int, ...], classes: int) -> None:
    """Fit, pack and ask the model on random rows of that shape around one centre per class."""
    fitted, x = _fit_on_few(model, row, classes)
    try:
        votes = PackedModel(fitted.pack()).vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be packed as ONNX: {_reason(error)}") from error
    agreement = (votes == fitted.vote(x)).mean()
    if agreement < LEAST_AGREEMENT:
        told = f"packed as ONNX it votes as before on only {agreement:.0%} of rows"
        raise LimbeckError(f"model {model.name!r} cannot be used: {told}")


def _fit_on_few(model: Model, row: tuple[int, ...], classes: int) -> tuple[Fitted, Array]:
    """A fit on few rows; on more rows than features where a model (a discriminant analysis, say) needs them."""
    own = getattr(model, "recipe", None)
    recipe = replace(own, epochs=1, patience=None) if isinstance(own, Recipe) else None
    counts = (FEWEST,) if recipe else (FEW * classes, max(FEW, 2 * math.prod(row)) * classes)
    for count in counts:
        x, y = _rows(count, row, classes)
        try:
            return model.fit(x, y, classes, seed=0, recipe=recipe), x
        except Exception as error:
            failure = error
    raise LimbeckError(f"model {model.name!r} cannot be fitted: {_reason(failure)}") from failure


def _rows(count: int, row: tuple[int, ...], classes: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % classes
    centres = rng.random((classes, *row))
    return (0.8 * centres[y] + 0.2 * rng.random((count, *row))).astype(np.float32), y


def _reason(error: Exception) -> str:
    """The first sentence of what a library says."""
    return " ".join(str(error).split()).split(". ")[0] or type(error).__name__
