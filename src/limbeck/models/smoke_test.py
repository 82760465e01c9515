"""A rehearsal on made-up rows: a model that cannot be fitted, packed or run is refused before anyone trains."""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.onnx import PackedModel
from limbeck.protocol.learning import Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

FEW, MANY = 8, 64  # rows a class
MIN_ROWS = 4  # rows in all, for networks: one step of a large one takes a second
MIN_AGREEMENT = 0.9


def smoke_test(model: Model, row: tuple[int, ...], classes: int) -> None:
    """Fit, pack and ask the model on random rows of that shape around one centre per class.

    On few rows first; on more where a model (many neighbours, a discriminant analysis) needs them.
    """
    recipe = getattr(model, "recipe", None)
    if isinstance(recipe, Recipe):
        quick = replace(recipe, epochs=1, patience=None)
        return _run_smoke_test(model, *_rows(MIN_ROWS, row, classes), classes, quick)
    with suppress(LimbeckError):
        return _run_smoke_test(model, *_rows(FEW * classes, row, classes), classes)
    return _run_smoke_test(model, *_rows(max(MANY, 2 * math.prod(row)) * classes, row, classes), classes)


def _run_smoke_test(model: Model, x: Array, y: Array, classes: int, recipe: Recipe | None = None) -> None:
    try:
        fitted = model.fit(x, y, classes, seed=0, recipe=recipe)
        native = fitted.vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be fitted: {_reason(error)}") from error
    try:
        votes = PackedModel(fitted.pack()).vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be packed as ONNX: {_reason(error)}") from error
    agreement = (votes == native).mean()
    if agreement < MIN_AGREEMENT:
        problem = f"packed as ONNX it votes as before on only {agreement:.0%} of rows"
        raise LimbeckError(f"model {model.name!r} cannot be used: {problem}")


def _rows(count: int, row: tuple[int, ...], classes: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % classes
    centers = rng.random((classes, *row))
    return (0.8 * centers[y] + 0.2 * rng.random((count, *row))).astype(np.float32), y


def _reason(error: Exception) -> str:
    """The first sentence of what a library says."""
    return " ".join(str(error).split()).split(". ")[0] or type(error).__name__
