"""A model for the task of a run: the same name stands for a classifier, one of several labels, or a regressor."""

from typing import Any

from sklearn.base import is_regressor

from limbeck.errors import LimbeckError
from limbeck.models.jobs import task_of
from limbeck.models.named import NAMED
from limbeck.models.per_label import PerLabel
from limbeck.models.regression import SklearnRegressor
from limbeck.models.sklearn import SklearnModel
from limbeck.protocol.learning import Model
from limbeck.protocol.task import Kind


def for_task(model: Model, task: Kind) -> Model:
    """Return the model for a task.

    Parameters
    ----------
    model : Model
        A model as users name it.
    task : {"multiclass", "multilabel", "regression"}
        The task of the run.

    Returns
    -------
    Model
        A network with the head of the task, a binary classifier for each class, or a regressor.

    Raises
    ------
    LimbeckError
        If the model cannot learn such labels.

    Examples
    --------
    >>> from limbeck.models.named import model_from
    >>> for_task(model_from({"name": "random-forest"}), "regression").estimator
    RandomForestRegressor()
    """
    estimator: Any = getattr(model, "estimator", None)
    if isinstance(model, SklearnModel) and task != "regression" and is_regressor(estimator):
        raise LimbeckError(f"model {model.name!r} is a regressor: it is for numbers, and these labels are classes")
    if task == task_of(model):
        return model
    if hasattr(model, "for_task"):
        adapted: Model = model.for_task(task)
        return adapted
    if task == "multilabel" and task_of(model) == "multiclass":
        return PerLabel(model)
    if task == "regression" and isinstance(model, SklearnModel):
        return _regressor(model)
    raise LimbeckError(f"model {model.name!r} cannot learn numbers; use for example linear-regression or random-forest")


def _regressor(model: SklearnModel) -> Model:
    if is_regressor(model.estimator):
        return SklearnRegressor(model.estimator, model.description)
    named = NAMED.get(model.name) if "repr" not in model.description else None
    if named is None or not named.regressor:
        raise LimbeckError(
            f"model {model.name!r} is a classifier and cannot learn numbers; use for example linear-regression"
        )
    parameters = {key: value for key, value in model.description.items() if key != "name"}
    try:
        return SklearnRegressor(named.estimator(parameters, "regression"), model.description)
    except LimbeckError as error:
        raise LimbeckError(f'model {model.name!r}, task = "regression": {error}') from error
