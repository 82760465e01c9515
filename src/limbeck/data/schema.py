"""The schema: one rule, shared by all parties, that turns the rows of a table into numbers.

A column whose public values are all numbers is numeric. A missing number becomes the median of the public rows. Any
other column is categorical. It becomes one column of 0 and 1 for each value of the public rows (or of a schema file).
Other values and missing values are all zeros. A column of texts, which the user names, becomes token numbers.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from limbeck.data.files import Table
from limbeck.data.texts import COLUMN, Text, check_alone
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError, reading
from limbeck.protocol.rows import Array
from limbeck.tables import first_problem

MAX_CATEGORIES = 1000
MAX_FLOAT32 = float(np.finfo(np.float32).max)


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
    """

    name: str
    missing: Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32, allow_inf_nan=False)]
    kind: Literal["number"] = "number"

    def encode(self, table: Table) -> Array:
        """Numbers of the column as an array of shape (rows, 1)."""
        values = _numbers(table.column(self.name))
        if isinstance(values, str):
            raise LimbeckError(f"{table.where}: the column {self.name!r} holds text ({values!r}), not numbers")
        wild = np.abs(values) > MAX_FLOAT32
        if wild.any():
            row = wild.argmax()
            raise LimbeckError(
                f"{table.where}: the column {self.name!r} holds {values[row]} in row {row}: too large for float32"
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

    def encode(self, table: Table) -> Array:
        """One-hot encoding of the column, of shape (rows, categories); unknown values are all zeros."""
        text = _text(table.column(self.name))
        position = {value: i for i, value in enumerate(self.values)}
        encoded = np.zeros((len(text), len(self.values)))
        held = [(row, position[value]) for row, value in enumerate(text) if value in position]
        encoded[tuple(np.array(held, int).reshape(-1, 2).T)] = 1
        return encoded


@dataclass(frozen=True, slots=True)
class Schema:
    """Rule that turns the rows of a table into numbers.

    Parameters
    ----------
    columns : tuple of Number, Category or Text
        Feature columns, in order. A column of texts is the only one.
    label : str
        Name of the label column.
    classes : tuple of str
        Classes, in order.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table("a.csv", {"age": np.array([20.0, np.nan]), "job": np.array(["nurse", "cook"], object)})
    >>> schema = Schema((Number("age", 35.0), Category("job", ("cook", "nurse"))), "income", ("low", "high"))
    >>> schema.encode(table)
    array([[20.,  0.,  1.],
           [35.,  1.,  0.]], dtype=float32)
    """

    columns: tuple[Annotated[Number | Category | Text, Field(discriminator="kind")], ...]
    label: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        values = {f"values of {column.name}": column.values for column in self.columns if column.kind == "category"}
        for kind, given in {"columns": names, "classes": self.classes, **values}.items():
            if repeated := [name for name, times in Counter(given).items() if times > 1]:
                raise LimbeckError(f"the schema's {kind} hold {repeated[0]!r} twice")
        if not names:
            raise LimbeckError(f"the schema has no column other than the label {self.label!r}")
        for column in self.columns:
            if column.kind == "text":
                check_alone("the schema", column.name, names)

    @property
    def text(self) -> Text | None:
        """Column of texts; None if there is none."""
        first = self.columns[0]
        return first if isinstance(first, Text) else None

    def encode(self, table: Table) -> Array:
        """Features of a table.

        Parameters
        ----------
        table : Table
            A table with all columns of the schema, with or without the label.

        Returns
        -------
        float32 array of shape (rows, features)
            Encoded columns, in the order of the schema.

        Raises
        ------
        LimbeckError
            If a column is missing, is not in the schema, or has text instead of numbers.
        """
        rows = table.without(self.label)
        known = {column.name for column in self.columns}
        extra = [name for name in rows.columns if name not in known]
        if extra:
            raise LimbeckError(f"{table.where} has a column {extra[0]!r} that the schema does not have")
        return np.concatenate([column.encode(rows) for column in self.columns], axis=1).astype(np.float32)

    def numbers_of(self, labels: Array, where: str) -> Array:
        """Class numbers of labels; 1 and 1.0 are the same class.

        Parameters
        ----------
        labels : array of shape (rows,)
            Labels as text.
        where : str
            The file, for error messages.

        Returns
        -------
        int64 array of shape (rows,)
            Indices into `classes`.
        """
        number: dict[str, int] = {name: i for i, name in enumerate(self.classes)}
        if _are_numbers(np.array(self.classes, object)) and _are_numbers(labels):
            value = {float(name): i for name, i in number.items()}
            number |= {name: value[float(name)] for name in labels if float(name) in value}
        unknown = [name for name in labels if name not in number]
        if unknown:
            known = ", ".join(self.classes)
            raise LimbeckError(f"{where}: the label {unknown[0]!r} in {self.label!r} is none of {known}")
        return np.array([number[name] for name in labels], np.int64)

    def to_json(self) -> str:
        """Text of a schema file."""
        columns = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        return json.dumps({"label": self.label, "classes": self.classes, "columns": columns}, indent=1)

    @staticmethod
    def from_json(text: str, where: str) -> "Schema":
        """Schema from the text of a schema file; `where` names the file in error messages."""
        try:
            return TypeAdapter(Schema).validate_json(text)
        except ValidationError as error:
            raise LimbeckError(f"{where} is not a schema: {first_problem(error)}") from error


def schema_of(public: Table, label: str, classes: Sequence[str], text: Text | None = None) -> Schema:
    """Schema from the public rows.

    Parameters
    ----------
    public : Table
        Public rows, with or without the label column.
    label : str
        Name of the label column.
    classes : sequence of str
        Classes, in order.
    text : Text, optional
        Column of texts, if that is the only column.

    Returns
    -------
    Schema
        Rule for all tables of the same columns.
    """
    if text is not None:
        return Schema((text,), label, tuple(classes))
    columns = public.without(label).columns
    return Schema(tuple(_learned(public.where, *column) for column in columns.items()), label, tuple(classes))


def schema_of_texts(rule: Tokens, classes: Sequence[str]) -> Schema:
    """Schema of texts that are no table; their column is named `text`."""
    return Schema((Text(COLUMN, rule.tokens, rule.length, rule.vocabulary),), "label", tuple(classes))


def labels_of(table: Table, label: str) -> Array:
    """Labels of a table as text.

    Parameters
    ----------
    table : Table
        A table.
    label : str
        Name of the label column.

    Returns
    -------
    object array of shape (rows,)
        Labels. A row without a label is an error.
    """
    values = _text(table.column(label))
    missing = np.array([value is None for value in values])
    if missing.any():
        raise LimbeckError(f"{table.where}: row {missing.argmax()} has no label in {label!r}")
    return values


def classes_of(tables: Sequence[Table], label: str) -> tuple[str, ...]:
    """Classes of several tables, sorted.

    Parameters
    ----------
    tables : sequence of Table
        Tables with labels. They must agree on whether labels are numbers or text.
    label : str
        Name of the label column.

    Returns
    -------
    tuple of str
        Classes; numbers are sorted by value, text alphabetically.

    Examples
    --------
    >>> import numpy as np
    >>> classes_of([Table("a.csv", {"y": np.array(["10", "2", "2.0"], object)})], "y")
    ('2', '10')
    """
    kinds = {table.where: _are_numbers(labels_of(table, label)) for table in tables}
    first = tables[0].where
    for where, numbers in kinds.items():
        if numbers != kinds[first]:
            here, there = ("numbers", "text") if numbers else ("text", "numbers")
            raise LimbeckError(f"{where}: the label {label!r} holds {here}, in {first} it holds {there}")
    names = sorted({name for table in tables for name in labels_of(table, label)}, key=lambda name: (len(name), name))
    if not kinds[first]:
        return tuple(sorted(names))
    shortest: dict[float, str] = {}
    for name in names:
        shortest.setdefault(float(name), name)
    return tuple(shortest[value] for value in sorted(shortest))


def read_schema(path: Path) -> Schema:
    """Read a schema file (JSON)."""
    with reading(path):
        return Schema.from_json(path.read_text(encoding="utf-8"), str(path))


def _learned(where: str, name: str, values: Array) -> Number | Category:
    numbers = _numbers(values)
    if not isinstance(numbers, str):
        known = numbers[np.abs(numbers) <= MAX_FLOAT32]
        return Number(name, float(np.median(known)) if len(known) else 0.0)
    categories = sorted({value for value in values if value is not None})
    if len(categories) > MAX_CATEGORIES:
        raise LimbeckError(
            f"{where}: the column {name!r} holds {len(categories)} different texts; "
            f"a category has at most {MAX_CATEGORIES}. For a column of texts, set data.text = {name!r}"
        )
    return Category(name, tuple(categories))


def _numbers(values: Array) -> Array | str:
    """Values as float64, NaN where one is missing; or the first text that is not a number."""
    if values.dtype != object:
        return values
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is not None:
            try:
                numbers[row] = float(value)
            except ValueError:
                return str(value)
    return numbers


def _are_numbers(labels: Array) -> bool:
    return not isinstance(_numbers(labels), str)


def _text(values: Array) -> Array:
    """Values as text: whole numbers without a decimal point, None where one is missing."""
    if values.dtype == object:
        return values
    return np.array([f"{value:.15g}" if value == value else None for value in values], dtype=object)
