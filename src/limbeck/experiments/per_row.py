"""What users of the estimators give beside X and y: sample weights, parties, and how rows are split."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from limbeck.data.splits import Iid, Split
from limbeck.errors import LimbeckError
from limbeck.experiments.config import split_in
from limbeck.protocol.rows import Array


def weights_in(given: Any, X: Array) -> Array | None:
    """Return the sample weight of each row, or None if none are given; raises ValueError for other shapes."""
    return None if given is None else np.asarray(_check_sample_weight(given, X, dtype=np.float64))


def groups_in(groups: Any, rows: int) -> Array | None:
    """Return the party of each row, or None if none are given.

    Parameters
    ----------
    groups : array of shape (rows,) or None
        Parties of any type.
    rows : int
        Number of rows.

    Returns
    -------
    array of shape (rows,) or None
        Parties; strings instead of objects.

    Raises
    ------
    LimbeckError
        If a row has no party.

    Examples
    --------
    >>> groups_in(["north", "south"], 2).tolist()
    ['north', 'south']
    """
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.ndim != 1 or len(names) != rows:
        raise LimbeckError(f"groups must have the shape ({rows},), a party for each row, not {names.shape}")
    if any(name is None or name != name for name in names.tolist()):
        raise LimbeckError("groups contains None or NaN: every row needs a party")
    return np.array([str(name) for name in names.tolist()]) if names.dtype == object else names


def without_zero_weights(
    X: Array, y: Array, weight: Array | None, groups: Array | None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Leave out rows of weight 0, so that the result is the same as without them; only for runs without protection.

    Parameters
    ----------
    X, y : array
        Rows and labels.
    weight, groups : array of shape (rows,) or None
        Sample weights, and the parties of the rows.

    Returns
    -------
    tuple of array or None
        The same without these rows.
    """
    if weight is None or weight.all():
        return X, y, weight, groups
    counted = weight != 0
    return X[counted], y[counted], weight[counted], None if groups is None else groups[counted]


def split_given(given: Any) -> Split:
    """Return the split that a user gives as an object or a table; None means evenly."""
    if given is None:
        return Iid()
    if not isinstance(given, Mapping):
        if not hasattr(given, "kind"):
            raise LimbeckError(f'split must be a table such as {{"kind": "dirichlet"}}, not {given!r}')
        split: Split = given
        return split
    try:
        return split_in(dict(given))
    except LimbeckError as error:
        raise LimbeckError(f"split: {error}") from error
