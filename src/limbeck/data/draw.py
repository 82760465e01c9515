"""Which rows are private, public and test: always disjoint, drawn by the seed."""

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
    """All rows of a file of the user's own."""

    path: str


@dataclass(frozen=True, slots=True)
class Draw:
    """How many rows (a whole number, or a fraction as a share) from which part of which data set.

    `name` None means the experiment's own data set. Public rows of another set come with `labels` where that says
    what their classes are: `shared` with the private rows, or `own` ones beside them in one space of outputs.
    """

    amount: int | float
    part: Part = "train"
    name: str | None = None
    labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class DrawnParts:
    """A data set cut in three; `private` are row numbers, still to be dealt to parties.

    Labels of private rows are numbers into the data set's own classes, the others' into `classes`.
    """

    private: Array
    public: Rows | None
    test: Rows | None
    classes: tuple[str, ...]


class _Pool:
    """The rows of one part of one data set, handed out once each in a random order."""

    def __init__(self, data: DataSet, part: Part, seed: int) -> None:
        self.data, self.part = data, part
        self.size = data.official_test if part == "test" else len(data.x)
        self.remaining = order(self.size, data.name, part, seed)

    def take(self, amount: int | float, key: str) -> Rows:
        count = count_of(amount, self.size)
        if not len(self.remaining):
            raise LimbeckError(f"data.{key}: no {self.part} rows of {self.data.name} are free")
        if not 1 <= count <= len(self.remaining):
            raise LimbeckError(
                f"data.{key} = {amount} is {count} rows: {self.data.name} has {self.size} {self.part} rows, "
                f"{len(self.remaining)} of them free; choose from 1 to {len(self.remaining)}, or a share"
            )
        taken, self.remaining = np.split(self.remaining, [count])
        return self.rows(taken)

    def rest(self) -> Rows | None:
        return self.rows(self.remaining) if len(self.remaining) else None

    def rows(self, index: Array) -> Rows:
        return self.data.test_rows(index) if self.part == "test" else self.data.rows(index)


def order(size: int, name: str, part: Part, seed: int) -> Array:
    """The order in which the rows of a part are handed out: public rows first."""
    return stream(seed, "draw", name, part).permutation(size)


def count_of(amount: int | float, size: int) -> int:
    """How many rows a number or a share of them is; 0 for a share that is none."""
    if isinstance(amount, int):
        return amount
    return int(amount * size) if 0 < amount <= 1 else 0


def draw_parts(data: DataSet, public: Draw | None, test: Draw | None, seed: int) -> DrawnParts:
    """Public rows first, then test rows, then the rest is private; without `test` the official test rows serve."""
    pools: dict[tuple[str, Part], _Pool] = {}

    def pool(draw: Draw, key: str) -> _Pool:
        source = data if draw.name in (None, data.name) else _fitting(load(str(draw.name)), data, key)
        if draw.labels == "shared":
            source = source.numbered(data.classes, f', which {data.name} does not: say data.{key}.labels = "own"')
        return pools.setdefault((source.name, draw.part), _Pool(source, draw.part, seed))

    public_rows = pool(public, "public").take(public.amount, "public") if public else None
    test_rows = pool(test, "test").take(test.amount, "test") if test else pool(Draw(0, "test"), "test").rest()
    private = pool(Draw(0), "private").remaining
    if not len(private):
        raise LimbeckError(f"data.public and data.test take all {len(data.x)} rows of {data.name}; none is private")
    classes = data.classes
    if public and public.labels == "own":
        other = pool(public, "public").data
        classes = (*(f"{other.name} {name}" for name in other.classes), *classes)
        test_rows = test_rows and Rows(test_rows.x, test_rows.y + len(other.classes))
    return DrawnParts(np.sort(private), public_rows, test_rows, classes)


def _fitting(other: DataSet, data: DataSet, key: str) -> DataSet:
    if other.shares_rows_with(data):
        raise LimbeckError(f"data.{key}: rows of {other.name} are rows of {data.name} too: private ones would be shown")
    if other.x.shape[1:] != data.x.shape[1:]:
        raise LimbeckError(
            f"data.{key}: rows of {other.name} have the shape {other.x.shape[1:]}, "
            f"those of {data.name} {data.x.shape[1:]}"
        )
    if key == "test" and other.classes != data.classes:
        raise LimbeckError(f"data.test: {other.name} and {data.name} have different classes")
    return other
