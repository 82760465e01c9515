"""The schema: one rule, shared by all parties, that turns the rows of a table into numbers.

A column whose public values are all numbers is numeric. A missing number becomes the median of the public rows. A
column of dates becomes days, month and weekday. Any other column is categorical. It becomes one column of 0 and 1 for
each value of the public rows (or of a schema file). Other values and missing values are all zeros. A column of texts,
which the user names, becomes token numbers. Columns whose public values are missing or nearly unique are left out.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from limbeck.data.columns import Category, Number, learned_column
from limbeck.data.dates import Date
from limbeck.data.label_columns import class_numbers, numbers_of, several_of
from limbeck.data.reading import Reading
from limbeck.data.table import Table
from limbeck.data.texts import COLUMN, Text, check_alone
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError, reading
from limbeck.protocol.rows import Array
from limbeck.protocol.task import MULTICLASS, Kind, Task
from limbeck.tables import first_problem


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
    id : str, optional
        Column that names the rows. Nothing is learned from it, and predictions have it.
    ignored : tuple of str
        Columns that are left out; a table need not have them.
    separator : str
        Separator of the public file.
    decimal : {".", ","}
        Decimal mark of the public file: that of other files with the same separator, unless they state another.
    missing : tuple of str
        Values that count as missing in every table.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table("a.csv", {"age": np.array([20.0, np.nan]), "job": np.array(["nurse", "cook"], object)})
    >>> schema = Schema((Number("age", 35.0), Category("job", ("cook", "nurse"))), "income", ("low", "high"))
    >>> schema.encode(table)
    array([[20.,  0.,  1.],
           [35.,  1.,  0.]], dtype=float32)
    """

    columns: tuple[Annotated[Number | Category | Date | Text, Field(discriminator="kind")], ...]
    label: str | tuple[str, ...]
    classes: tuple[str, ...]
    task: Kind = "multiclass"
    limits: tuple[float, float] | None = None
    id: str | None = None
    ignored: tuple[str, ...] = ()
    separator: str = ","
    decimal: Literal[".", ","] = "."
    missing: tuple[str, ...] = ()

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
            raise LimbeckError(f"the schema has no column to learn from, beside the label {self.label!r}")
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
            return class_numbers(self.classes, table, self.labels[0])
        if self.task == "multilabel":
            return np.stack([several_of(table, name) for name in self.labels], axis=1)
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
        rows = table.without(*self.labels, *self.ignored, *filter(None, [self.id])).without_marks(self.missing)
        known = {column.name for column in self.columns}
        extra = [name for name in rows.columns if name not in known]
        if extra:
            raise LimbeckError(
                f"{table.where} has a column {extra[0]!r} that the schema does not have; rename it, or list it in "
                "ignore"
            )
        return np.concatenate([column.encode(rows) for column in self.columns], axis=1).astype(np.float32)

    @property
    def reading(self) -> Reading:
        """How the public file was read."""
        return Reading(self.separator, self.decimal)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers of a row; those of texts have none."""
        return tuple(part for column in self.columns if not isinstance(column, Text) for part in column.parts)

    def to_json(self) -> str:
        """Text of a schema file."""
        columns = [_as_table(column) for column in self.columns]
        task = {"task": self.task} if self.task != "multiclass" else {}
        limits = {"limits": self.limits} if self.limits is not None else {}
        optional = {"id": None, "ignored": (), "separator": ",", "decimal": ".", "missing": ()}
        others = {key: getattr(self, key) for key, usual in optional.items() if getattr(self, key) != usual}
        table = {"label": self.label, "classes": self.classes, **task, **limits, **others, "columns": columns}
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
    row_id: str | None = None,
    ignore: Sequence[str] = (),
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
    row_id : str, optional
        Column that names the rows, which need not be there.
    ignore : sequence of str
        Columns to leave out, which need not be there.

    Returns
    -------
    Schema
        Rule for all tables of the same columns.
    """
    named = (label,) if isinstance(label, str) else label
    if wrong := [name for name in (row_id, *ignore) if name in named]:
        raise LimbeckError(f"the label {wrong[0]!r} cannot be an ID or ignored")
    if text is not None:
        return Schema((text,), label, tuple(classes), task, limits, row_id, tuple(ignore), *_marks(public.reading))
    columns = public.without(*named, *ignore, *filter(None, [row_id])).columns
    found = {name: learned_column(public, name) for name in columns}
    learned = tuple(column for column in found.values() if column is not None)
    left_out = [name for name, column in found.items() if column is None]
    if not learned:
        also = (
            f"; {left_out[0]!r} is left out: for a column of texts set data.text = {left_out[0]!r}" if left_out else ""
        )
        raise LimbeckError(
            f"{public.where} has no column to learn from, beside the label {' and '.join(named)!r}{also}"
        )
    ignored = tuple(dict.fromkeys((*ignore, *left_out)))
    return Schema(learned, label, tuple(classes), task, limits, row_id, ignored, *_marks(public.reading))


def _marks(reading: Reading) -> tuple[str, Literal[".", ","], tuple[str, ...]]:
    return reading.separator or ",", reading.decimal or ".", reading.missing


def schema_of_texts(rule: Tokens, classes: Sequence[str], task: Task = MULTICLASS) -> Schema:
    """Schema of texts that are no table; their column is named `text`."""
    columns = (Text(COLUMN, rule.tokens, rule.length, rule.vocabulary),)
    label = tuple(classes) if task.kind == "multilabel" else "label"
    limits = (task.low, task.high) if task.kind == "regression" else None
    return Schema(columns, label, tuple(classes), task.kind, limits)


def read_schema(path: Path) -> Schema:
    """Read a schema file (JSON)."""
    with reading(path):
        return Schema.from_json(path.read_text(encoding="utf-8"), str(path))


def _as_table(column: Any) -> dict[str, Any]:
    """A column as in a schema file; marks only if there are any."""
    return {"kind": column.kind, **{key: value for key, value in asdict(column).items() if key != "marks" or value}}
