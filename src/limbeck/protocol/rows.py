"""Rows: what is learned from, and the public ones that every site knows by their content."""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
UNANSWERED = -1  # the label of a public row that nobody has labelled, or of a query without an answer


@dataclass(frozen=True, slots=True)
class Rows:
    """Labelled rows: `x` is float32 [rows, ...], `y` holds class numbers 0..C-1."""

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Array) -> "Rows":
        return Rows(self.x[rows], self.y[rows])


@dataclass(frozen=True, slots=True)
class PublicRows:
    """Rows that every site holds; `y` is there only for an algorithm that declares it needs the labels."""

    x: Array
    y: Array | None = None
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", content_hash(self.x))

    def __len__(self) -> int:
        return len(self.x)


def flat(x: Array) -> Array:
    """Each row as one line of values; also when there are no rows."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def content_hash(x: Array) -> str:
    """SHA-256 over shape, type and values: equal exactly when the rows are."""
    digest = hashlib.sha256(f"{x.dtype.str}{x.shape}".encode())
    digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()
