"""Tables of named columns, before a schema turns them into numbers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from limbeck.data.numbers import number_in, numbers_in
from limbeck.data.reading import UNSTATED, Reading
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class Table:
    """Table of named columns.

    Parameters
    ----------
    where : str
        The file or the argument, for error messages.
    columns : mapping of str to array of shape (rows,)
        Text columns of dtype object (None for a missing value), or numbers as float64 (NaN for a missing value).
    reading : Reading
        How the file was read, and how its texts become numbers and dates.
    """

    where: str
    columns: Mapping[str, Array]
    reading: Reading = UNSTATED

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def decided(self, like: Reading | None = None) -> "Table":
        """Copy with a decimal mark: that of the public rows `like`, or without them what its values show."""
        return replace(self, reading=self.reading.with_decimal(self.columns, like, self.where))

    def column(self, name: str) -> Array:
        """Column of a name, or an error that lists similar names."""
        if name not in self.columns:
            raise LimbeckError(f"{self.where} has no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def without_marks(self, marks: Collection[str]) -> "Table":
        """Copy in which values that stand for a missing one are missing."""
        if not marks:
            return self
        wrong = [value for mark in marks if (value := number_in(mark, self.reading.decimal or ".")) is not None]
        columns = {}
        for name, values in self.columns.items():
            if values.dtype == object:
                columns[name] = np.array([None if text in marks else text for text in values], object)
            else:
                columns[name] = np.where(np.isin(values, wrong), np.nan, values)
        return replace(self, columns=columns)

    def numbers(self, name: str) -> tuple[Array, dict[str, int]]:
        """Column as float64, NaN where one is missing; and the texts that are no numbers, with their first rows."""
        values = self.column(name)
        if values.dtype != object:
            return values, {}
        return numbers_in(values, self.reading.decimal or ".", self.reading.thousands, self.reading.separator is None)

    def texts(self, name: str) -> Array:
        """Column as text: whole numbers without a decimal point, None where one is missing."""
        return texts_of(self.column(name))

    def without(self, *names: str) -> "Table":
        """Copy without some columns; a name that is not there is ignored."""
        return replace(self, columns={key: value for key, value in self.columns.items() if key not in names})

    def renamed(self, old: str, new: str) -> "Table":
        """Copy with another name for one column, which must exist; one that has this name already is left out."""
        self.column(old)
        others = self.without(new) if new != old else self
        return replace(self, columns={new if key == old else key: value for key, value in others.columns.items()})

    def take(self, index: Array) -> "Table":
        """Copy with the rows of these indices."""
        return replace(self, columns={key: value[index] for key, value in self.columns.items()})


def texts_of(values: Array) -> Array:
    """Values as text: whole numbers without a decimal point, None where one is missing."""
    if values.dtype == object:
        return values
    return np.array([f"{value:.15g}" if value == value else None for value in values], dtype=object)
