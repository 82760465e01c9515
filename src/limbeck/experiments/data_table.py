"""The table `[data]` of experiment files, checked."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StrictFloat, StrictInt, model_validator

from limbeck.data.draw import Draw, FromFile
from limbeck.data.labels import check_labels
from limbeck.data.reading import UNSTATED, Reading, reading_in
from limbeck.data.sets import Labels
from limbeck.data.splits import SPLITS, Iid, Split, Within
from limbeck.data.texts import TextSettings, text_settings
from limbeck.data.weights import ClassWeights, check_class_weights
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.task import Kind
from limbeck.tables import check_keys, from_table


class Table(BaseModel):
    """Base class of the tables of a file; rejects unknown keys."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, table: Any) -> Any:
        if isinstance(table, dict):
            check_keys(table, {field.alias or name for name, field in cls.model_fields.items()})
        return table


class FromTest(Table):
    """The table `{ from = "test", share = 0.5 }`: some of the official test rows.

    Parameters
    ----------
    part : "test"
        The key `from`.
    share : float, optional
        Share of the official test rows.
    rows : int, optional
        Number of rows, instead of a share.
    """

    part: Literal["test"] = Field(alias="from")
    share: StrictFloat | None = None
    rows: StrictInt | None = None


class FromOther(Table):
    """The table `{ name = "other", rows = 5000 }`: some training rows of another data set.

    Parameters
    ----------
    name : str
        Name of the data set.
    share : float, optional
        Share of its training rows.
    rows : int, optional
        Number of rows, instead of a share.
    labels : {"shared", "own"}, optional
        Whether its classes are those of the private rows, or additional ones.
    """

    name: str
    share: StrictFloat | None = None
    rows: StrictInt | None = None
    labels: Labels | None = None


def _draw(value: Any) -> Draw | FromFile:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Draw(value)
    if not isinstance(value, dict):
        raise LimbeckError(
            f'{value!r} is not a number of rows, a share, {{ from = "test", share = 0.5 }}, '
            '{ name = "other", rows = 5000 } or { path = "public.csv" }'
        )
    if "path" in value:
        return from_table(FromFile, value)
    form = FromTest.model_validate(value) if "from" in value else FromOther.model_validate(value)
    amount = form.rows if form.share is None else form.share
    if amount is None or (form.share is not None and form.rows is not None):
        raise LimbeckError("give either share or rows, not both")
    return Draw(amount, "test") if isinstance(form, FromTest) else Draw(amount, "train", form.name, form.labels)


def split_in(value: Any) -> Split:
    """Split that a table describes.

    Parameters
    ----------
    value : dict
        Table with a `kind`, the parameters of this split, and optionally `within`.

    Returns
    -------
    Split
        The split.

    Examples
    --------
    >>> split_in({"kind": "dirichlet", "beta": 0.1})
    Dirichlet(beta=0.1, min_rows=10)
    """
    kind, parameters = name_and_parameters(value, "kind", 'split = { kind = "dirichlet", beta = 0.5 }')
    if kind not in SPLITS:
        raise LimbeckError(f"unknown kind {kind!r}; {did_you_mean(kind, SPLITS)}")
    within = parameters.pop("within", None)
    if within is not None and not isinstance(within, str):
        raise LimbeckError(f'within must name a group, such as "domain", not {within!r}')
    split: Split = from_table(SPLITS[kind], parameters)
    return split if within is None else Within(split, within)


def _names(value: Any) -> str | list[str] | None:
    several = isinstance(value, list) and len(value) > 1 and all(isinstance(name, str) for name in value)
    if several and len(set(value)) < len(value):
        raise LimbeckError("a data set is named twice")
    if not several and not isinstance(value, str | None):
        raise LimbeckError("write the name of a data set, or a list of two or more names")
    names: str | list[str] | None = value
    return names


class Columns(Table):
    """The keys about the columns of tables, which `[data]` has in every kind of file.

    Parameters
    ----------
    label : str or list of str, optional
        Column of tables that has the classes or the numeric target; several columns are several labels a row.
    row_id : str, optional
        Column that names the rows (the key `id`). Nothing is learned from it, and predictions have it.
    ignore : list of str
        Columns that are left out.
    reading : Reading
        How tables are read: separator, decimal mark and so on; what is not stated is found.
    text : TextSettings, optional
        Column of texts, and how they become numbers.
    task : {"multiclass", "multilabel", "regression"}, optional
        Kind of the labels; in simulations by default found from them.
    limits : list of two floats, optional
        Public range of a numeric target (the key `range`).
    positive : str, optional
        The class of interest, one of two.
    schema_file : str, optional
        Schema file (the key `schema`).
    """

    label: str | list[str] | None = None
    row_id: str | None = Field(None, alias="id")
    ignore: list[str] = Field([])
    reading: Annotated[Reading, PlainValidator(reading_in)] = UNSTATED
    text: Annotated[TextSettings | None, PlainValidator(text_settings)] = None
    task: Kind | None = None
    limits: list[StrictFloat | StrictInt] | None = Field(None, alias="range", min_length=2, max_length=2)
    positive: str | None = None
    schema_file: str | None = Field(None, alias="schema")

    @model_validator(mode="after")
    def _schema_is_alone(self) -> "Columns":
        if self.schema_file and (self.row_id or self.ignore):
            raise LimbeckError("id, ignore and schema: the schema names these columns; remove id and ignore")
        return self

    @property
    def labels_of_tables(self) -> tuple[str, ...]:
        """Columns of tables that have the labels; none if they are not named."""
        return (self.label,) if isinstance(self.label, str) else tuple(self.label or ())


class Data(Columns):
    """Table `[data]`.

    Parameters
    ----------
    name : str or list of str, optional
        Name of a data set, or of several.
    labels : {"shared", "own"}, optional
        With several data sets: whether classes of one name are one class, or every set has its own classes.
    path : str, optional
        One file of private rows, which is split among the parties.
    classes : list of str, optional
        All classes, in order.
    class_weights : mapping of str to float or "balanced", optional
        Weights of classes; a class without one has the weight 1.
    parties : int
        Number of parties.
    split : Split
        How rows are assigned to parties.
    public : Draw or FromFile, optional
        Public rows.
    test : Draw or FromFile, optional
        Test rows.
    """

    @model_validator(mode="after")
    def _task_is_consistent(self) -> "Data":
        check_labels(self.label, self.task, self.limits, self.classes)
        return self

    @model_validator(mode="after")
    def _labels_are_for_public_rows(self) -> "Data":
        if isinstance(self.test, Draw) and self.test.labels:
            raise LimbeckError(
                "test.labels: test rows have the classes of the private rows; labels is for public rows only"
            )
        if isinstance(self.name, list) != (self.labels is not None):
            raise LimbeckError(
                'several names need labels = "shared" (classes of one name are one class) '
                'or "own" (every set has its own classes)'
            )
        return self

    name: Annotated[str | list[str] | None, PlainValidator(_names)] = None
    labels: Labels | None = None
    path: str | None = None
    classes: list[str] | None = Field(None, min_length=1)
    class_weights: Annotated[ClassWeights | None, PlainValidator(check_class_weights)] = None
    parties: StrictInt = Field(10, ge=1)
    split: Annotated[Split, PlainValidator(split_in)] = Iid()
    public: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None
    test: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None


def name_and_parameters(value: Any, key: str, example: str) -> tuple[str, dict[str, Any]]:
    """Name or kind of a table, and its other keys."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise LimbeckError(f"needs a table with a {key}, such as {example}")
    return value[key], {other: v for other, v in value.items() if other != key}
