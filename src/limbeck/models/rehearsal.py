"""A rehearsal on made-up rows: a model that cannot be fitted, packed or run is refused before anyone trains."""

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.onnx import PackedModel
from limbeck.protocol.learning import Fitted, Model
from limbeck.protocol.rows import Array

FEW = 8  # rows a class
LEAST_AGREEMENT = 0.9


def rehearse(model: Model, features: int, classes: int) -> None:
    """Fit, pack and ask the model on random rows around one centre per class."""
    fitted, x = _fit_on_few(model, features, classes)
    try:
        votes = PackedModel(fitted.pack()).vote(x)
    except Exception as error:
        raise LimbeckError(f"model {model.name!r} cannot be packed as ONNX: {_reason(error)}") from error
    agreement = (votes == fitted.vote(x)).mean()
    if agreement < LEAST_AGREEMENT:
        told = f"packed as ONNX it votes as before on only {agreement:.0%} of rows"
        raise LimbeckError(f"model {model.name!r} cannot be used: {told}")


def _fit_on_few(model: Model, features: int, classes: int) -> tuple[Fitted, Array]:
    """A fit on few rows; on more rows than features where a model (a discriminant analysis, say) needs them."""
    for rows_per_class in (FEW, max(FEW, 2 * features)):
        x, y = _rows(rows_per_class, features, classes)
        try:
            return model.fit(x, y, classes, seed=0), x
        except Exception as error:
            failure = error
    raise LimbeckError(f"model {model.name!r} cannot be fitted: {_reason(failure)}") from failure


def _rows(rows_per_class: int, features: int, classes: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(rows_per_class * classes) % classes
    centres = rng.random((classes, features))
    return (0.8 * centres[y] + 0.2 * rng.random((len(y), features))).astype(np.float32), y


def _reason(error: Exception) -> str:
    """The first sentence of what a library says."""
    return " ".join(str(error).split()).split(". ")[0] or type(error).__name__
