"""Labelled rows, and public rows with the content hash by which all sites know them."""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
UNANSWERED = -1  # label of a public row without a label, or of a query without an answer


@dataclass(frozen=True, slots=True)
class Rows:
    """Labelled rows.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Values, in float32.
    y : array of shape (rows,)
        Class numbers from 0.
    weight : array of shape (rows,) or None
        Sample weights, finite and at least 0; at private levels at most 1. None means that all rows count the same.

    Examples
    --------
    >>> rows = Rows(np.zeros((3, 2), np.float32), np.array([0, 1, 1]))
    >>> len(rows), rows[np.array([2, 0])].y.tolist()
    (3, [1, 0])
    """

    x: Array
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Array | slice) -> "Rows":
        return Rows(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    @property
    def read_only(self) -> "Rows":
        """The same rows, which nobody can change through these arrays."""
        views = [None if values is None else values.view() for values in (self.x, self.y, self.weight)]
        for view in views:
            if view is not None:
                view.flags.writeable = False
        return Rows(*views)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PublicRows:
    """Public rows, which every site has; `hash` is their content hash.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Values, in float32.
    y : array of shape (rows,) or None
        Class numbers, for algorithms that need public labels.
    hash : str
        Content hash; by default of `x`. Rows that were mapped to features keep the hash of the raw rows.
    are_tokens : bool
        Whether the values are token numbers of texts.
    """

    x: Array
    y: Array | None = None
    hash: str = ""
    are_tokens: bool = False

    def __post_init__(self) -> None:
        if not self.hash:
            object.__setattr__(self, "hash", content_hash(self.x))

    def __len__(self) -> int:
        return len(self.x)


def flat(x: Array) -> Array:
    """Flatten each row to one dimension.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows of any shape, for example images; there may be none.

    Returns
    -------
    array of shape (rows, values)
        The same values.

    Examples
    --------
    >>> flat(np.zeros((5, 8, 8))).shape
    (5, 64)
    >>> flat(np.zeros((0, 8, 8))).shape
    (0, 64)
    """
    return x.reshape(len(x), math.prod(x.shape[1:]))


def content_hash(x: Array) -> str:
    """Hash shape, type and values of an array with SHA-256.

    Parameters
    ----------
    x : array
        Rows.

    Returns
    -------
    str
        64 hexadecimal digits; equal for equal arrays.

    Examples
    --------
    >>> content_hash(np.zeros(3)) == content_hash(np.zeros(3, np.float32))
    False
    """
    digest = hashlib.sha256(f"{x.dtype.str}{x.shape}".encode())
    digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()
