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

from limbeck.data.arrays import MAX_FLOAT32
from limbeck.data.files import Table
from limbeck.data.labels import MAX_WHOLE, check_numbers, kind_of
from limbeck.data.texts import COLUMN, Text, check_alone
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError, reading
from limbeck.protocol.rows import Array
from limbeck.protocol.task import MULTICLASS, UNKNOWN, Kind, Task
from limbeck.tables import first_problem

MAX_CATEGORIES = 1000
TRUTH = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0, "-1": -1, "-1.0": -1}


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
    label : str or tuple of str
        Name of the label column, or of several.
    classes : tuple of str
        Classes, in order.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    limits : tuple of two floats, optional
        Public range of a numeric target.

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
    label: str | tuple[str, ...]
    classes: tuple[str, ...]
    task: Kind = "multiclass"
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        Task(self.task, *(self.limits or ()))
        if self.task == "multilabel" and len(self.labels) != len(self.classes):
            raise LimbeckError(f"the schema has {len(self.labels)} label columns for {len(self.classes)} classes")
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

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the label columns."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def targets(self, table: Table, clipped: bool = True) -> Array:
        """Labels of a table, as algorithms learn them.

        Parameters
        ----------
        table : Table
            A table with the label columns.
        clipped : bool
            Whether numeric targets are clipped to their range.

        Returns
        -------
        array
            Class numbers; several labels a row, unknown where a value is missing; or numbers scaled to [0, 1].
        """
        if self.task == "multiclass":
            return self.numbers_of(labels_of(table, self.labels[0]), table.where)
        if self.task == "multilabel":
            return np.stack([_several(table, name) for name in self.labels], axis=1)
        return Task("regression", *(self.limits or ())).scaled(numbers_of(table, self.labels[0]), clipped)

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
        rows = table.without(*self.labels)
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
            raise LimbeckError(f"{where}: the label {unknown[0]!r} in {self.labels[0]!r} is none of {known}")
        return np.array([number[name] for name in labels], np.int64)

    def to_json(self) -> str:
        """Text of a schema file."""
        columns = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        task = {"task": self.task} if self.task != "multiclass" else {}
        limits = {"limits": self.limits} if self.limits is not None else {}
        table = {"label": self.label, "classes": self.classes, **task, **limits, "columns": columns}
        return json.dumps(table, indent=1)

    @staticmethod
    def from_json(text: str, where: str) -> "Schema":
        """Schema from the text of a schema file; `where` names the file in error messages."""
        try:
            return TypeAdapter(Schema).validate_json(text)
        except ValidationError as error:
            raise LimbeckError(f"{where} is not a schema: {first_problem(error)}") from error


def schema_of(
    public: Table,
    label: str | tuple[str, ...],
    classes: Sequence[str],
    text: Text | None = None,
    task: Kind = "multiclass",
    limits: tuple[float, float] | None = None,
) -> Schema:
    """Schema from the public rows.

    Parameters
    ----------
    public : Table
        Public rows, with or without the label column.
    label : str or tuple of str
        Name of the label column, or of several.
    classes : sequence of str
        Classes, in order.
    text : Text, optional
        Column of texts, if that is the only column.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    limits : tuple of two floats, optional
        Public range of a numeric target.

    Returns
    -------
    Schema
        Rule for all tables of the same columns.
    """
    if text is not None:
        return Schema((text,), label, tuple(classes), task, limits)
    columns = public.without(*((label,) if isinstance(label, str) else label)).columns
    found = tuple(_learned(public.where, *column) for column in columns.items())
    return Schema(found, label, tuple(classes), task, limits)


def kind_of_tables(tables: Sequence[Table], label: str) -> Kind:
    """Find whether a label column has classes or numbers, in a simulation.

    Parameters
    ----------
    tables : sequence of Table
        Tables with labels.
    label : str
        Name of the label column.

    Returns
    -------
    {"multiclass", "regression"}
        Numbers with fractions, or many of them, are a numeric target.
    """
    values = [_numbers(labels_of(table, label)) for table in tables]
    if any(isinstance(each, str) for each in values):
        for table in tables:
            _check_text(table, label)
        return "multiclass"
    numbers = np.concatenate([np.asarray(each, np.float64) for each in values])
    return kind_of(numbers, f"{tables[0].where}: {label!r}")


def numbers_of(table: Table, label: str) -> Array:
    """Read a numeric target of a table.

    Parameters
    ----------
    table : Table
        A table.
    label : str
        Name of the column.

    Returns
    -------
    float64 array of shape (rows,)
        Numbers. A row without one is an error.
    """
    values = _numbers(labels_of(table, label))
    if isinstance(values, str):
        raise LimbeckError(f"{table.where}: the target {label!r} holds text ({values!r}), not numbers")
    return check_numbers(np.asarray(values, np.float64), f"{table.where}: {label!r}")


def _check_text(table: Table, label: str) -> None:
    """Raise if labels are many different numbers but for a few texts: a numeric target with wrong cells."""
    texts = labels_of(table, label)
    wrong = [row for row, text in enumerate(texts) if isinstance(_numbers(np.array([text], object)), str)]
    numbers = {text for row, text in enumerate(texts) if row not in set(wrong)}
    if wrong and len(numbers) > MAX_WHOLE and len(wrong) < len(texts) // 2:
        raise LimbeckError(
            f"{table.where}: the label {label!r} holds {len(numbers)} different numbers, and {texts[wrong[0]]!r} in "
            f'row {wrong[0]}: mend that value of a numeric target, or give task = "multiclass"'
        )


def _several(table: Table, label: str) -> Array:
    """One of several label columns as 1, 0 and -1; a missing value is unknown."""
    texts = _text(table.column(label))
    found = np.full(len(texts), UNKNOWN, np.int8)
    for row, text in enumerate(texts):
        if text is not None and text.lower() not in TRUTH:
            raise LimbeckError(
                f"{table.where}: the label {label!r} holds {text!r}; several labels a row "
                "are 1 (positive), 0 (negative), and -1 or nothing (unknown)"
            )
        found[row] = UNKNOWN if text is None else TRUTH[text.lower()]
    return found


def schema_of_texts(rule: Tokens, classes: Sequence[str], task: Task = MULTICLASS) -> Schema:
    """Schema of texts that are no table; their column is named `text`."""
    columns = (Text(COLUMN, rule.tokens, rule.length, rule.vocabulary),)
    label = tuple(classes) if task.kind == "multilabel" else "label"
    limits = (task.low, task.high) if task.kind == "regression" else None
    return Schema(columns, label, tuple(classes), task.kind, limits)


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
