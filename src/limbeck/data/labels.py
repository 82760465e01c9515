"""Labels of data sets: which task they are for, and how they become the labels that algorithms learn."""

from collections.abc import Sequence

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array
from limbeck.protocol.task import MULTICLASS, NEGATIVE, POSITIVE, UNKNOWN, Kind, Task

MAX_WHOLE = 20  # different whole numbers, stored as floats, that still count as classes
MANY = 100  # different whole numbers that may be classes without a word about it
PARTS = 10  # of the range of a number, for splits by class


def kind_of(y: Array, where: str) -> Kind:
    """Find the task of labels, in a simulation.

    Parameters
    ----------
    y : array
        Labels as stored.
    where : str
        Where they are from, for error messages.

    Returns
    -------
    {"multiclass", "multilabel", "regression"}
        Several columns are several labels a row; numbers with fractions, or many of them, are a numeric target.

    Raises
    ------
    LimbeckError
        If so many whole numbers could be both.

    Examples
    --------
    >>> kind_of(np.array([0.5, 1.25]), "y"), kind_of(np.array([3, 4]), "y"), kind_of(np.array([[0, 1]]), "y")
    ('regression', 'multiclass', 'multilabel')
    """
    if y.ndim == 2:
        return "multilabel"
    different = len(np.unique(y))
    if y.dtype.kind == "f":
        whole = np.isfinite(y).all() and (y == np.floor(y)).all()
        return "multiclass" if whole and different <= MAX_WHOLE else "regression"
    if different > MANY and different > len(y) // 10:
        what = "texts" if y.dtype.kind == "U" else "whole numbers"
        raise LimbeckError(f'{where} holds {different} different {what}: give task = "regression" (or "multiclass")')
    return "multiclass"


def check_several(y: Array, where: str) -> Array:
    """Return several labels a row as int8, or raise LimbeckError unless all are -1, 0 or 1.

    Parameters
    ----------
    y : array of shape (rows, classes)
        Labels as stored; NaN counts as unknown.
    where : str
        Where they are from, for error messages.
    """
    numbers = np.asarray(y)
    if numbers.dtype.kind == "f":
        numbers = np.nan_to_num(numbers, nan=UNKNOWN)
    if numbers.dtype.kind not in "fiub" or not np.isin(numbers, (UNKNOWN, NEGATIVE, POSITIVE)).all():
        raise LimbeckError(
            f"{where}: with several labels a row, every label is 1 (positive), 0 (negative) or -1 (unknown)"
        )
    return np.asarray(numbers, np.int8)


def check_numbers(y: Array, where: str) -> Array:
    """Return a numeric target as float64, or raise LimbeckError unless it holds finite numbers."""
    if y.ndim != 1 or y.dtype.kind not in "fiub":
        raise LimbeckError(f"{where}: a numeric target has one finite number for each row, not {y.dtype} {y.shape}")
    numbers = np.asarray(y, np.float64)
    if not np.isfinite(numbers).all():
        raise LimbeckError(f"{where}: row {int(np.argmin(np.isfinite(numbers)))} has no finite number as target")
    return numbers


def range_of(targets: Sequence[Array]) -> Task:
    """Return a regression task with the range of all targets, in a simulation."""
    low, high = min(float(y.min()) for y in targets), max(float(y.max()) for y in targets)
    return Task("regression", low, high if high > low else low + 1.0)


def task_in(kind: Kind, limits: Sequence[float] | None, targets: Sequence[Array]) -> Task:
    """Return the task of a kind: its range is given, or for a simulation that of the targets.

    Parameters
    ----------
    kind : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    limits : sequence of two floats or None
        Public range of a numeric target.
    targets : sequence of array
        Numeric targets of all parties and of the test rows.

    Returns
    -------
    Task
        The task.
    """
    if kind != "regression":
        if limits is not None:
            raise LimbeckError(f'range is for task = "regression", not "{kind}"')
        return Task(kind) if kind != "multiclass" else MULTICLASS
    if limits is None:
        return range_of(targets)
    if len(limits) != 2 or not all(isinstance(limit, int | float | np.number) for limit in limits):
        raise LimbeckError(f"range = {list(limits)}: give two numbers, the lowest and the highest target")
    return Task("regression", float(limits[0]), float(limits[1]))


def classes_for_split(y: Array, kind: Kind) -> Array:
    """Return one class for each row, by which rows are split among parties.

    Parameters
    ----------
    y : array
        Labels as stored.
    kind : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    array of shape (rows,)
        The class; of several positive labels that with the fewest rows (FedKD), or one more class for none. The tenth
        of all rows that a number belongs to.

    Examples
    --------
    >>> classes_for_split(np.array([[1, 1], [1, 0], [0, 0]]), "multilabel").tolist()
    [1, 0, 2]
    """
    if kind == "multiclass":
        return y
    if kind == "regression":
        return np.asarray(np.argsort(np.argsort(y, kind="stable"), kind="stable") * PARTS // max(1, len(y)))
    positive = y == POSITIVE
    rank = np.argsort(np.argsort(positive.sum(axis=0), kind="stable"), kind="stable")
    rarest = np.where(positive, rank, y.shape[1]).argmin(axis=1)
    return np.asarray(np.where(positive.any(axis=1), rarest, y.shape[1]))


def columns_into(y: Array, positions: Array, classes: int) -> Array:
    """Return several labels a row with other columns; those that are new are unknown.

    Parameters
    ----------
    y : array of shape (rows, columns)
        Labels.
    positions : integer array of shape (columns,)
        New position of each column.
    classes : int
        New number of columns.
    """
    found = np.full((len(y), classes), UNKNOWN, np.int8)
    found[:, positions] = y
    return found


def check_labels(
    label: str | Sequence[str] | None, task: Kind | None, limits: Sequence[float] | None, classes: Sequence[str] | None
) -> None:
    """Raise LimbeckError unless the keys label, task, range and classes of a table `[data]` go together.

    Parameters
    ----------
    label : str, sequence of str or None
        Column of tables, or several.
    task : {"multiclass", "multilabel", "regression"} or None
        Kind of the labels.
    limits : sequence of two floats or None
        Public range of a numeric target.
    classes : sequence of str or None
        All classes.
    """
    several = () if label is None or isinstance(label, str) else tuple(label)
    if not isinstance(label, str | None) and len(set(several)) < max(2, len(several)):
        raise LimbeckError(
            f"label = {list(several)}: a list names two or more different columns; write one as a string"
        )
    if several and (task not in (None, "multilabel") or limits is not None):
        raise LimbeckError(
            'label: several columns are several labels a row, task = "multilabel"; a number has one column'
        )
    if limits is not None and task not in (None, "regression"):
        raise LimbeckError(f'range is for task = "regression", not "{task}"')
    if limits is not None:
        Task("regression", *map(float, limits))
    if classes and several and (set(classes) != set(several) or len(classes) != len(several)):
        raise LimbeckError(f"classes: with several columns of labels these are the classes: {', '.join(several)}")
    if classes and len(classes) != 1 and (task == "regression" or limits is not None):
        raise LimbeckError(f"classes: a numeric target has one name, not {len(classes)}")
