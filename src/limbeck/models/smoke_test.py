"""Smoke test: a model that cannot be fitted, packed or run on made-up rows is rejected before any training."""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.jobs import task_of
from limbeck.models.onnx import PackedModel
from limbeck.protocol.learning import Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind

FEW, MANY = 8, 64  # rows per class, at first and if that fails
MIN_ROWS = 4  # rows in total for networks: one step of a large one takes a second
MIN_AGREEMENT = 0.9  # share of rows for which the packed model must predict the same class
MAX_DIFFERENCE = 1e-3  # of numbers that count as the same


def smoke_test(model: Model, row: tuple[int, ...], classes: int) -> None:
    """Fit a model on random rows around one centre per class, pack it, and predict with it.

    Parameters
    ----------
    model : Model
        Model to test.
    row : tuple of int
        Shape of a row.
    classes : int
        Number of classes.

    Raises
    ------
    LimbeckError
        If the model cannot be fitted or packed, or if the packed model predicts other classes.

    Notes
    -----
    Models other than networks are tried on few rows first, and on more if that fails: a model with many neighbours, or
    a discriminant analysis, needs more.
    """
    recipe = getattr(model, "recipe", None)
    if isinstance(recipe, Recipe):
        quick = replace(recipe, epochs=1, patience=None)
        return _run_smoke_test(model, *_rows(MIN_ROWS, row, classes), classes, quick)
    with suppress(LimbeckError):
        return _run_smoke_test(model, *_rows(FEW * classes, row, classes), classes)
    return _run_smoke_test(model, *_rows(max(MANY, 2 * math.prod(row)) * classes, row, classes), classes)


def _run_smoke_test(model: Model, x: Array, y: Array, classes: int, recipe: Recipe | None = None) -> None:
    y = _labels(y, classes, task_of(model))
    try:
        fitted = model.fit(x, y, classes, seed=0, recipe=recipe)
        native = fitted.vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be fitted: {_reason(error)}") from error
    try:
        votes = PackedModel(fitted.pack()).vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be packed as ONNX: {_reason(error)}") from error
    agreement = np.isclose(votes, native, atol=MAX_DIFFERENCE).mean()
    if agreement < MIN_AGREEMENT:
        problem = f"packed as ONNX it predicts the same class for only {agreement:.0%} of rows"
        raise LimbeckError(f"model {model.name!r} cannot be used: {problem}")


def _rows(count: int, row: tuple[int, ...], classes: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % classes
    centers = rng.random((classes, *row))
    return (0.8 * centers[y] + 0.2 * rng.random((count, *row))).astype(np.float32), y


def _labels(y: Array, classes: int, task: Kind) -> Array:
    """Class numbers as labels of the task: the class alone is positive; or numbers from 0 to 1."""
    if task == "regression":
        return np.linspace(0, 1, len(y), dtype=np.float32)
    return y if task == "multiclass" else np.eye(classes, dtype=np.int8)[y]


def _reason(error: Exception) -> str:
    """First sentence of a library's message."""
    return " ".join(str(error).split()).split(". ")[0] or type(error).__name__
