"""Drawing public, test and private rows from data sets: always disjoint, determined by the seed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from limbeck.data.sets import DataSet, Labels, load
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.streams import stream

Part = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class FromFile:
    """All rows of one of the user's files.

    Parameters
    ----------
    path : str
        Path of the file, relative to the experiment's file.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Draw:
    """A number of rows to draw from one part of a data set.

    Parameters
    ----------
    amount : int or float
        Number of rows (int), or share of the part's rows (float in (0, 1]).
    part : {"train", "test"}
        Training rows, or official test rows.
    name : str, optional
        Data set to draw from; by default the experiment's own.
    labels : {"shared", "own"}, optional
        Classes of public rows of another set: those of the private rows (shared), or additional ones (own).
    """

    amount: int | float
    part: Part = "train"
    name: str | None = None
    labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class DrawnParts:
    """Private, public and test rows of a data set.

    Parameters
    ----------
    private : array of shape (rows,)
        Indices of the private rows. They are not yet split among parties.
    public : Rows or None
        Public rows, labelled by `classes`.
    test : Rows or None
        Test rows, labelled by `classes`.
    classes : tuple of str
        All classes. Labels of private rows are indices into the data set's own classes instead.
    """

    private: Array
    public: Rows | None
    test: Rows | None
    classes: tuple[str, ...]


class _Pool:
    """Rows of one part of one data set, in random order; each is taken at most once."""

    def __init__(self, data: DataSet, part: Part, seed: int) -> None:
        self.data, self.part = data, part
        self.size = data.official_test if part == "test" else len(data.x)
        self.remaining = order(self.size, data.name, part, seed)

    def take(self, amount: int | float, key: str) -> Rows:
        count = count_of(amount, self.size)
        if not len(self.remaining):
            raise LimbeckError(f"data.{key}: no {self.part} rows of {self.data.name} are left")
        if not 1 <= count <= len(self.remaining):
            raise LimbeckError(
                f"data.{key} = {amount} is {count} rows: {self.data.name} has {self.size} {self.part} rows, "
                f"{len(self.remaining)} of them left; use 1 to {len(self.remaining)}, or a share"
            )
        taken, self.remaining = np.split(self.remaining, [count])
        return self.rows(taken)

    def rest(self) -> Rows | None:
        return self.rows(self.remaining) if len(self.remaining) else None

    def rows(self, index: Array) -> Rows:
        return self.data.test_rows(index) if self.part == "test" else self.data.rows(index)


def order(size: int, name: str, part: Part, seed: int) -> Array:
    """Random order in which the rows of a part are drawn.

    Parameters
    ----------
    size : int
        Number of rows.
    name : str
        Name of the data set.
    part : {"train", "test"}
        Part of the data set.
    seed : int
        Seed of the experiment.

    Returns
    -------
    array of shape (rows,)
        A permutation of the row indices; public rows are drawn first.
    """
    return stream(seed, "draw", name, part).permutation(size)


def count_of(amount: int | float, size: int) -> int:
    """Number of rows that an amount means.

    Parameters
    ----------
    amount : int or float
        Number of rows (int), or share of them (float).
    size : int
        Number of rows there are.

    Returns
    -------
    int
        Number of rows; 0 for a float outside (0, 1].

    Examples
    --------
    >>> count_of(20, 50), count_of(0.5, 50), count_of(2.0, 50)
    (20, 25, 0)
    """
    if isinstance(amount, int):
        return amount
    return int(amount * size) if 0 < amount <= 1 else 0


def draw_parts(data: DataSet, public: Draw | None, test: Draw | None, seed: int) -> DrawnParts:
    """Draw public rows, then test rows; the remaining training rows are private.

    Parameters
    ----------
    data : DataSet
        The experiment's data set.
    public : Draw or None
        Which rows are public.
    test : Draw or None
        Which rows are test rows; by default the remaining official test rows.
    seed : int
        Seed of the experiment.

    Returns
    -------
    DrawnParts
        The three parts, without common rows.

    Examples
    --------
    >>> from limbeck.data.sets import load
    >>> parts = draw_parts(load("iris"), Draw(30), Draw(0.2), seed=0)
    >>> len(parts.public), len(parts.test), len(parts.private)
    (30, 30, 90)
    """
    pools: dict[tuple[str, Part], _Pool] = {}

    def pool(draw: Draw, key: str) -> _Pool:
        source = data if draw.name in (None, data.name) else _fitting(load(str(draw.name), data.tokens), data, key)
        if draw.labels == "shared":
            source = source.numbered(data.classes, f', which {data.name} does not; use data.{key}.labels = "own"')
        return pools.setdefault((source.name, draw.part), _Pool(source, draw.part, seed))

    public_rows = pool(public, "public").take(public.amount, "public") if public else None
    test_rows = pool(test, "test").take(test.amount, "test") if test else pool(Draw(0, "test"), "test").rest()
    private = pool(Draw(0), "private").remaining
    if not len(private):
        raise LimbeckError(
            f"data.public and data.test take all {len(data.x)} rows of {data.name}; leave some for the parties"
        )
    classes = data.classes
    if public and public.labels == "own" and data.task != "multiclass":
        raise LimbeckError('data.public.labels = "own" is for one class a row: use "shared"')
    if public and public.labels == "own":
        other = pool(public, "public").data
        classes = (*(f"{other.name} {name}" for name in other.classes), *classes)
        test_rows = test_rows and Rows(test_rows.x, test_rows.y + len(other.classes))
    return DrawnParts(np.sort(private), public_rows, test_rows, classes)


def _fitting(other: DataSet, data: DataSet, key: str) -> DataSet:
    if other.shares_rows_with(data):
        raise LimbeckError(
            f"data.{key}: rows of {other.name} are rows of {data.name} too: private rows would be disclosed"
        )
    data.check_kind(other, f"data.{key}")
    if other.task != data.task and key == "test":
        raise LimbeckError(f"data.test: {other.name} is for {other.task}, {data.name} for {data.task}")
    if key == "test" and data.task == "multilabel":
        return other.numbered(data.classes, f", which {data.name} does not")
    if key == "test" and other.classes != data.classes:
        raise LimbeckError(f"data.test: {other.name} and {data.name} have different classes")
    return other
