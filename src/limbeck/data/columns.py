"""The columns of a schema that hold numbers or categories, and how they are learned from public rows."""

import re
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from limbeck.data.dates import Date, form_of
from limbeck.data.table import Table
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.protocol.rows import Array

MAX_CATEGORIES = 1000
MAX_FLOAT32 = float(np.finfo(np.float32).max)
FEW = 20  # different values that are never too many for a category
NEARLY_UNIQUE = 0.5  # different texts for each row from which a column says who a row is, not what it is like
MAX_MARKS = 3  # different texts among numbers that stand for a missing number
MIN_NUMBERS = 0.8  # share of numbers in such a column
ID = re.compile(r"(.*[\W_])?(id|nr|no|mrn|key)", re.IGNORECASE)  # names that suggest an ID


@dataclass(frozen=True, slots=True)
class Number:
    """Numeric column.

    Parameters
    ----------
    name : str
        Name of the column.
    missing : float
        Replacement for missing numbers.
    kind : "number"
        Kind of the column in a schema file.
    marks : tuple of str
        Texts that stand for a missing number.
    """

    name: str
    missing: Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32, allow_inf_nan=False)]
    kind: Literal["number"] = "number"
    marks: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        return (self.name,)

    @property
    def treatment(self) -> str:
        """What becomes of it, in words."""
        marks = f" ({', '.join(map(repr, self.marks))} too)" if self.marks else ""
        return f"a number; missing{marks} becomes {self.missing:g}"

    def encode(self, table: Table) -> Array:
        """Numbers of the column as an array of shape (rows, 1)."""
        values, others = table.numbers(self.name)
        for text, row in others.items():
            if text not in self.marks:
                where = f"{table.where}: the column {self.name!r}"
                raise LimbeckError(f"{where} holds {text!r} in row {row + 1}, not a number{_hint(table)}")
        wild = np.abs(values) > MAX_FLOAT32
        if wild.any():
            row = int(wild.argmax())
            raise LimbeckError(
                f"{table.where}: the column {self.name!r} holds {values[row]} in row {row + 1}: too large for float32"
            )
        return np.where(np.isnan(values), self.missing, values)[:, None]


@dataclass(frozen=True, slots=True)
class Category:
    """Categorical column.

    Parameters
    ----------
    name : str
        Name of the column.
    values : tuple of str
        Known categories.
    kind : "category"
        Kind of the column in a schema file.
    """

    name: str
    values: tuple[str, ...]
    kind: Literal["category"] = "category"

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        return tuple(f"{self.name} = {value}" for value in self.values)

    @property
    def treatment(self) -> str:
        """What becomes of it, in words."""
        shown = ", ".join(self.values[:4]) + (", ..." if len(self.values) > 4 else "")
        return f"a category of {len(self.values)}: {shown}"

    def encode(self, table: Table) -> Array:
        """One-hot encoding of the column, of shape (rows, categories); unknown values are all zeros."""
        text = table.texts(self.name)
        position = {value: i for i, value in enumerate(self.values)}
        encoded = np.zeros((len(text), len(self.values)))
        held = [(row, position[value]) for row, value in enumerate(text) if value in position]
        encoded[tuple(np.array(held, int).reshape(-1, 2).T)] = 1
        return encoded


def learned_column(public: Table, name: str) -> Number | Category | Date | None:
    """Learn a column from public rows.

    Parameters
    ----------
    public : Table
        Public rows.
    name : str
        Name of the column.

    Returns
    -------
    Number, Category, Date or None
        The column. None if it is left out, with a warning: it is empty, or its texts are nearly unique.
    """
    where, (numbers, others) = f"{public.where}: the column {name!r}", public.numbers(name)
    known = int((~np.isnan(numbers)).sum())
    if known and (not others or _are_marks(numbers, public.texts(name), others)):
        if others:
            marks = ", ".join(map(repr, others))
            warnings.warn(f"{where} holds numbers and {marks}, which counts as missing", LimbeckWarning, stacklevel=5)
        finite = numbers[np.abs(numbers) <= MAX_FLOAT32]
        if ID.fullmatch(name) and len(finite) > FEW and len(np.unique(finite)) == len(numbers):
            warnings.warn(f"{where} looks like an ID: set data.id or data.ignore", LimbeckWarning, stacklevel=5)
        return Number(name, float(np.median(finite)) if len(finite) else 0.0, marks=tuple(others))
    texts = public.texts(name)
    given = [text for text in texts if text is not None]
    if not given or (not others and not known):
        warnings.warn(f"{where} is empty in the public rows and is left out", LimbeckWarning, stacklevel=5)
        return None
    if (form := form_of(texts, public.reading.dates, where)) is not None:
        return _date(where, name, texts, form)
    return _category(where, name, given, numbers, others)


def _are_marks(numbers: Array, texts: Array, others: dict[str, int]) -> bool:
    """Whether the texts among numbers are so few that they stand for a missing number."""
    wrong = sum(text in others for text in texts)
    known = numbers[~np.isnan(numbers)]
    return (
        len(others) <= MAX_MARKS
        and len(known) >= MIN_NUMBERS * (wrong + len(known))
        and len(np.unique(known)) > MAX_MARKS
    )


def _date(where: str, name: str, texts: Array, form: str) -> Date:
    """A column of dates; up to three other texts stand for a missing one."""
    found = Date.learned(name, texts, form)
    if len(found.marks) > MAX_MARKS:
        text = found.marks[0]
        raise LimbeckError(
            f"{where} holds dates, but {text!r} in row {texts.tolist().index(text) + 1} and {len(found.marks) - 1} "
            f"other texts; mend them, list them in data.reading.missing, or set data.ignore = [{name!r}]"
        )
    if found.marks:
        marks = ", ".join(map(repr, found.marks))
        warnings.warn(f"{where} holds dates and {marks}, which counts as missing", LimbeckWarning, stacklevel=6)
    return found


def _category(where: str, name: str, given: list[str], numbers: Array, others: dict[str, int]) -> Category | None:
    different = sorted(set(given))
    known = numbers[~np.isnan(numbers)]
    if len(known) > len(given) / 2 and len(np.unique(known)) > FEW:
        text, row = next(iter(others.items()))
        raise LimbeckError(
            f"{where} holds numbers, but {text!r} in row {row + 1} and {len(others) - 1} other texts; mend them, list "
            f"them in data.reading.missing, or set data.ignore = [{name!r}]"
        )
    if len(different) > max(FEW, NEARLY_UNIQUE * len(given)):
        warnings.warn(
            f"{where} holds {len(different)} different texts in {len(given)} public rows and is left out; if it is an "
            f"ID or a remark, set data.id or data.ignore, if it is a text to learn from, data.text = {name!r}",
            LimbeckWarning,
            stacklevel=6,
        )
        return None
    if len(different) > MAX_CATEGORIES:
        raise LimbeckError(
            f"{where} holds {len(different)} different texts; a category has at most {MAX_CATEGORIES}. For an ID set "
            f"data.id, to leave it out data.ignore = [{name!r}], for a column of texts data.text = {name!r}"
        )
    return Category(name, tuple(different))


def _hint(table: Table) -> str:
    """What may be wrong with numbers of a file of text."""
    if table.reading.separator is None:
        return ""
    mark = "comma" if table.reading.decimal == "," else "point"
    return f" (with a decimal {mark}); mend it, or set decimal or missing in [data.reading]"
