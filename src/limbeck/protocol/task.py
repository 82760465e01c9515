"""Tasks: what the labels of a run are, and what a model's scores mean."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import check_array
from limbeck.protocol.rows import Array
from limbeck.tables import check_fields

Kind = Literal["multiclass", "multilabel", "regression"]
UNKNOWN, NEGATIVE, POSITIVE = -1, 0, 1  # labels of several labels a row
MAX_RANGE = 1e30


@dataclass(frozen=True, slots=True)
class Task:
    """The kind of labels of a run.

    Parameters
    ----------
    kind : {"multiclass", "multilabel", "regression"}
        `multiclass`: one class a row, `y` has class numbers. `multilabel`: several labels a row, `y` has a column for
        each class with 1 (positive), 0 (negative) or -1 (unknown). `regression`: a number, `y` is scaled to [0, 1].
    low, high : float
        For regression, the public range of the target. Targets outside are clipped to it.

    Raises
    ------
    LimbeckError
        If the range is empty, not finite, or given for another kind.

    Examples
    --------
    >>> task = Task("regression", 0.0, 50.0)
    >>> task.scaled(np.array([25.0, 80.0])).tolist(), task.unscaled(np.array([0.5])).tolist()
    ([0.5, 1.0], [25.0])
    """

    kind: Kind = "multiclass"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not -MAX_RANGE <= self.low < self.high <= MAX_RANGE:
            raise LimbeckError(f"range = [{self.low:g}, {self.high:g}]: give the lowest and a higher finite number")
        if self.kind != "regression" and (self.low, self.high) != (0.0, 1.0):
            raise LimbeckError(f'range is for task = "regression", not "{self.kind}"')

    @property
    def is_multiclass(self) -> bool:
        """Whether each row has one class."""
        return self.kind == "multiclass"

    def scaled(self, targets: Array, clipped: bool = True) -> Array:
        """Scale numeric targets from the public range to [0, 1]; those outside are clipped, NaN counts as the lowest.

        Parameters
        ----------
        targets : array of shape (rows,)
            Numbers.
        clipped : bool
            Whether targets outside of the range are clipped to it. Those of test rows are not: errors are real.

        Returns
        -------
        float32 array of shape (rows,)
            Scaled targets.
        """
        finite = np.nan_to_num(np.asarray(targets, np.float64), nan=self.low, posinf=self.high, neginf=self.low)
        limited = np.clip(finite, self.low, self.high) if clipped else finite
        return np.asarray((limited - self.low) / (self.high - self.low), np.float32)

    def unscaled(self, values: Array) -> Array:
        """Scale values in [0, 1] back to the range of the target."""
        return np.asarray(self.low + np.asarray(values, np.float64) * (self.high - self.low))

    def counts(self, y: Array, classes: int) -> Array:
        """Count a party's rows of each class, its positives of each class, or for regression all its rows.

        Parameters
        ----------
        y : array
            Labels of the kind.
        classes : int
            Number of classes.

        Returns
        -------
        array of shape (classes,)
            Counts.

        Examples
        --------
        >>> Task("multilabel").counts(np.array([[1, -1], [1, 0]]), classes=2).tolist()
        [2, 0]
        """
        if self.kind == "multilabel":
            return np.asarray((y == POSITIVE).sum(axis=0))
        return np.array([len(y)]) if self.kind == "regression" else np.bincount(y, minlength=classes)

    def labels_of(self, scores: Array) -> Array:
        """Return the labels that scores (logits) give: the best class, the classes above 0, or the number itself.

        With several labels a row, a score of exactly 0 says nothing (nobody knows the class): the label is unknown.

        Parameters
        ----------
        scores : array of shape (rows, classes)
            Scores.

        Returns
        -------
        array of shape (rows,) or (rows, classes)
            Labels of the kind.

        Examples
        --------
        >>> Task("multilabel").labels_of(np.array([[0.5, -2.0, 0.0]])).tolist()
        [[1, 0, -1]]
        """
        if self.kind == "multilabel":
            return np.where(scores == 0, UNKNOWN, scores > 0).astype(np.int8)
        return np.asarray(scores[:, 0] if self.kind == "regression" else scores.argmax(axis=1))

    def check_labels(self, y: Array, rows: int, classes: int) -> None:
        """Raise LimbeckError unless an array can be the labels of so many rows.

        Parameters
        ----------
        y : array
            Labels of a message.
        rows, classes : int
            Number of rows and of classes.
        """
        if self.kind == "multiclass":
            check_array(y, (rows,), 0, classes - 1, "iu")
        elif self.kind == "multilabel":
            check_array(y, (rows, classes), UNKNOWN, POSITIVE, "i")
        else:
            check_array(y, (rows,), 0, 1, "f")


MULTICLASS = Task()
ALL_TASKS: tuple[Kind, ...] = ("multiclass", "multilabel", "regression")


def known_classes(y: Array) -> Array:
    """Whether a party knows each class: whether any of its rows has a known label of it.

    Parameters
    ----------
    y : array of shape (rows, classes)
        Several labels a row.

    Returns
    -------
    Boolean array of shape (classes,)

    Examples
    --------
    >>> known_classes(np.array([[1, -1], [0, -1]])).tolist()
    [True, False]
    """
    return np.asarray((y != UNKNOWN).any(axis=0))
