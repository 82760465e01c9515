"""Parts of an experiment file that are objects of the library: splits, models, algorithms and so on."""

from typing import Any

from limbeck.algorithms import algorithm_named
from limbeck.data.splits import SPLITS, Split, Within
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.features.settings import Features
from limbeck.models.named import model_from
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.tables import from_table


def split_in(value: Any) -> Split:
    """Split that a table describes.

    Parameters
    ----------
    value : dict
        Table with a `kind`, the parameters of this split, and optionally `within`.

    Returns
    -------
    Split
        The split.

    Examples
    --------
    >>> split_in({"kind": "dirichlet", "beta": 0.1})
    Dirichlet(beta=0.1, min_rows=10)
    """
    kind, parameters = _name_and_parameters(value, "kind", 'split = { kind = "dirichlet", beta = 0.5 }')
    if kind not in SPLITS:
        raise LimbeckError(f"unknown kind {kind!r}; {did_you_mean(kind, SPLITS)}")
    within = parameters.pop("within", None)
    if within is not None and not isinstance(within, str):
        raise LimbeckError(f'within must name a group, such as "domain", not {within!r}')
    split: Split = from_table(SPLITS[kind], parameters)
    return split if within is None else Within(split, within)


def model_in(value: Any) -> Model:
    """Model that a table with a `name` and its parameters describes."""
    _name_and_parameters(value, "name", '{ name = "random-forest", max_depth = 6 }')
    return model_from(value)


def algorithm_in(value: Any) -> Algorithm:
    """Algorithm that a table with a `name` and its parameters describes.

    Parameters
    ----------
    value : dict
        Table `[algorithm]`.

    Returns
    -------
    Algorithm
        The algorithm.

    Examples
    --------
    >>> algorithm_in({"name": "fedkt", "partitions": 1}).partitions
    1
    """
    name, parameters = _name_and_parameters(value, "name", 'name = "fedvote"')
    return from_table(algorithm_named(name), parameters)


def budget_in(value: Any) -> Budget:
    """Budget that a table with `epsilon`, `delta`, `observer` and `unit` describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "public", unit = "example" }')
    return from_table(Budget, value)


def features_in(value: Any) -> Features:
    """Features that a table with a `kind` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write features = { kind = "auto", number = 300 }')
    return from_table(Features, value)


def training_in(value: Any) -> Training:
    """Training options that a table with `device`, `trainer` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write training = { device = "auto", trainer = "auto" }')
    return from_table(Training, value)


def _name_and_parameters(value: Any, key: str, example: str) -> tuple[str, dict[str, Any]]:
    """Name or kind of a table, and its other keys."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise LimbeckError(f"needs a table with a {key}, such as {example}")
    return value[key], {other: v for other, v in value.items() if other != key}
