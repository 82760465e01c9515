"""What the estimators are given: arrays, sparse matrices, tables with text or missing values, and sample weights."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, validate_data

from limbeck.data.files import is_frame, table_of
from limbeck.data.table import Table
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array


def needs_schema(X: Any, public: Any = None, is_private: bool = False) -> bool:
    """Whether a schema has to turn rows into numbers: they are a table that is not all numbers.

    Parameters
    ----------
    X : array, sparse matrix or table
        The rows.
    public : array, table or (X, y)
        The public rows; if they are a table, both are read by a schema.
    is_private : bool
        Whether the algorithm is private: then every table is read by a schema, whatever its values are.
    """
    open_rows = public[0] if isinstance(public, tuple) and public else public
    if not is_frame(X):
        return False
    return is_private or is_frame(open_rows) or not _are_numbers(X)


def fitted_rows(estimator: Any, X: Any, y: Any, public: Any, is_private: bool, **checks: Any) -> tuple[Any, Array]:
    """Check rows and labels for `fit`, and remember the names and the number of columns, as scikit-learn does.

    Parameters
    ----------
    estimator : estimator
        The estimator.
    X : array, sparse matrix or table
        The rows.
    y : array
        The labels.
    public : array, table or (X, y)
        The public rows of the estimator.
    is_private : bool
        Whether the algorithm is private.
    **checks : object
        What scikit-learn's `validate_data` is to check of the labels.

    Returns
    -------
    array or Table
        The rows.
    array
        The labels.
    """
    if not needs_schema(X, public, is_private):
        try:
            rows, labels = validate_data(estimator, X, y, accept_sparse="csr", allow_nd=True, **checks)
        except RuntimeError as error:  # objects among the labels may raise anything when they are compared
            raise LimbeckError(f"X or y: {' '.join(str(error).split())}") from error
        return _dense(rows), labels
    labels = validate_data(estimator, "no_validation", y, **checks)
    _check_feature_names(estimator, X, reset=True)
    table = table_of(X, "X")
    estimator.n_features_in_ = len(table.columns)
    if len(labels) != len(table):
        raise LimbeckError(f"X has {len(table)} rows, but y has {len(labels)}")
    return table, labels


def rows_to_predict(estimator: Any, X: Any, by_schema: bool) -> Any:
    """Check rows for `predict`; tables that a schema reads are matched by their names of columns."""
    if by_schema:
        return X
    return _dense(validate_data(estimator, X, accept_sparse="csr", reset=False, allow_nd=True))


def taken(rows: Any, index: Array) -> Any:
    """Rows of these indices of an array or a table."""
    return rows.take(index) if isinstance(rows, Table) else rows[index]


def weights_in(given: Any, rows: Array) -> Array | None:
    """Return the sample weight of each row, or None if none are given; raises ValueError for other shapes."""
    try:
        return None if given is None else np.asarray(_check_sample_weight(given, rows, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise LimbeckError(f"sample_weight: {' '.join(str(error).split())}") from error


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
    if not counted.any():
        raise LimbeckError("sample_weight: all weights are 0; a row needs a weight above 0")
    return taken(X, counted), y[counted], weight[counted], None if groups is None else groups[counted]


def labelled_like(X: Any, predictions: Array, columns: Any, form: str) -> Any:
    """Predictions as a table of pandas or polars, for `set_output`.

    Parameters
    ----------
    X : object
        The rows; a table of pandas gives its index.
    predictions : array of shape (rows,) or (rows, columns)
        The predictions.
    columns : sequence
        Names of the columns.
    form : {"pandas", "polars"}
        What to return.
    """
    names = [str(name) for name in columns]
    if form == "pandas":
        import pandas as pd

        index = getattr(X, "index", None) if hasattr(X, "iloc") else None
        if predictions.ndim == 1:
            return pd.Series(predictions, index=index, name=names[0])
        return pd.DataFrame(predictions, index=index, columns=list(columns))
    import polars as pl

    if predictions.ndim == 1:
        return pl.Series(names[0], predictions)
    return pl.DataFrame(predictions, schema=names)


def _are_numbers(X: Any) -> bool:
    """Whether all columns of a table are numbers, and none is missing."""
    try:
        values = np.asarray(X)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind in "fiub" and not (values.dtype.kind == "f" and np.isnan(values).any())


def _dense(rows: Any) -> Any:
    return rows.toarray() if issparse(rows) else rows
