"""Experiment files: the tables of a TOML file, checked.

An unknown key is an error that suggests the most similar known key.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)

from limbeck.algorithms import algorithm_named
from limbeck.data.draw import Draw, FromFile
from limbeck.data.labels import check_labels
from limbeck.data.sets import Labels
from limbeck.data.splits import SPLITS, Iid, Split, Within
from limbeck.data.texts import TextSettings, text_settings
from limbeck.errors import LimbeckError, did_you_mean, reading
from limbeck.features.settings import NO_PUBLIC, Features, applied
from limbeck.models.named import model_from
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget, check_site_names
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise
from limbeck.protocol.task import Kind
from limbeck.tables import check_keys, first_problem, from_table, named_party

T = TypeVar("T", bound="Table")


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
    kind, parameters = _name_and_parameters(value, "kind", 'split = { kind = "dirichlet", beta = 0.5 }')
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


def model_in(value: Any) -> Model:
    """Model that a table with a `name` and its parameters describes."""
    _name_and_parameters(value, "name", '{ name = "random-forest", max_depth = 6 }')
    return model_from(value)


def algorithm_in(value: Any) -> Algorithm:
    """Algorithm that a table with a `name` and its parameters describes.

    Parameters
    ----------
    value : dict
        Table `[algorithm]`.

    Returns
    -------
    Algorithm
        The algorithm.

    Examples
    --------
    >>> algorithm_in({"name": "fedkt", "partitions": 1}).partitions
    1
    """
    name, parameters = _name_and_parameters(value, "name", 'name = "fedvote"')
    return from_table(algorithm_named(name), parameters)


def budget_in(value: Any) -> Budget:
    """Budget that a table with `epsilon`, `delta`, `observer` and `unit` describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "public", unit = "example" }')
    return from_table(Budget, value)


def features_in(value: Any) -> Features:
    """Features that a table with a `kind` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write features = { kind = "auto", number = 300 }')
    return from_table(Features, value)


def training_in(value: Any) -> Training:
    """Training options that a table with `device`, `trainer` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write training = { device = "auto", trainer = "auto" }')
    return from_table(Training, value)


class Data(Table):
    """Table `[data]`.

    Parameters
    ----------
    name : str or list of str, optional
        Name of a data set, or of several.
    labels : {"shared", "own"}, optional
        With several data sets: whether classes of one name are one class, or every set has its own classes.
    path : str, optional
        One file of private rows, which is split among the parties.
    label : str or list of str, optional
        Column of tables that has the classes or the numeric target; several columns are several labels a row.
    task : {"multiclass", "multilabel", "regression"}, optional
        Kind of the labels; in simulations by default found from them.
    limits : list of two floats, optional
        Public range of a numeric target (the key `range`).
    classes : list of str, optional
        All classes, in order.
    schema_file : str, optional
        Schema file (the key `schema`).
    text : TextSettings, optional
        Column of texts, and how they become numbers.
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

    @property
    def labels_of_tables(self) -> tuple[str, ...]:
        """Columns of tables that have the labels; none if they are not named."""
        return (self.label,) if isinstance(self.label, str) else tuple(self.label or ())

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
    label: str | list[str] | None = None
    task: Kind | None = None
    limits: list[StrictFloat | StrictInt] | None = Field(None, alias="range", min_length=2, max_length=2)
    classes: list[str] | None = Field(None, min_length=1)
    schema_file: str | None = Field(None, alias="schema")
    text: Annotated[TextSettings | None, PlainValidator(text_settings)] = None
    parties: StrictInt = Field(10, ge=1)
    split: Annotated[Split, PlainValidator(split_in)] = Iid()
    public: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None
    test: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None


class Party(Table):
    """Table `[[party]]`: settings of one party.

    Parameters
    ----------
    index : int
        Number of the party, from 0.
    name : str, optional
        Name of the party in a ledger that several runs share.
    model : Model, optional
        Model of the party; by default `[model]`.
    data : str, optional
        File of its private rows.
    """

    index: StrictInt = Field(ge=0)
    name: str | None = None
    model: Annotated[Model | None, PlainValidator(model_in)] = None
    data: str | None = None


class Server(Table):
    """Table `[server]`.

    Parameters
    ----------
    model : Model
        Model of the server; by default `[model]`.
    """

    model: Annotated[Model, PlainValidator(model_in)]


class Source(Table):
    """Source of the rows: the part of a file that `limbeck data split` needs.

    Parameters
    ----------
    seed : int
        Seed of all randomness.
    data : Data
        Table `[data]`.
    party : list of Party
        Tables `[[party]]`.
    """

    seed: StrictInt = Field(0, ge=0)
    data: Data
    party: list[Party] = []

    @model_validator(mode="after")
    def _parties_exist(self) -> "Source":
        indices = [party.index for party in self.party]
        for index in indices:
            if index >= self.parties:
                raise LimbeckError(f"[[party]] index = {index}, but there are {self.parties} parties, numbered from 0")
            if indices.count(index) > 1:
                raise LimbeckError(f"[[party]] index = {index} occurs twice; number the parties from 0")
        try:
            check_site_names([party.name for party in self.party if party.name is not None])
        except LimbeckError as error:
            raise LimbeckError(f"[[party]] name: {error}") from error
        return self

    @model_validator(mode="after")
    def _one_source(self) -> "Source":
        sources = {"data.name": self.data.name, "data.path": self.data.path, "[[party]] data": self.files or None}
        given = [key for key, value in sources.items() if value is not None]
        if self.data.name and self.data.classes:
            raise LimbeckError("data.classes is only for your own files: a named data set has its classes")
        if self.data.schema_file and self.data.classes:
            raise LimbeckError(
                "data.classes and data.schema: the schema names the classes already; remove data.classes"
            )
        if self.data.name and self.data.text and self.data.text.column:
            raise LimbeckError("data.text.column is only for tables: a named data set has one text in each row")
        if self.data.schema_file and self.data.text:
            raise LimbeckError("data.text and data.schema: the schema names the column of texts; remove data.text")
        if len(given) != 1:
            raise LimbeckError(f"rows come from one of {', '.join(sources)}; given: {', '.join(given) or 'none'}")
        if self.files and len(self.files) != len(self.party):
            lacking = next(party.index for party in self.party if party.data is None)
            raise LimbeckError(f"[[party]] index = {lacking} has no data, but others have; give every party a file")
        return self

    @property
    def kind(self) -> Kind | None:
        """Kind of the labels, as in the file; None if it is found from the labels, in a simulation."""
        if self.data.task is None and self.data.limits is not None:
            return "regression"
        return self.data.task or ("multilabel" if isinstance(self.data.label, list) else None)

    @property
    def files(self) -> list[str]:
        """Files of the parties in party order; empty if rows are split among the parties."""
        return [party.data for party in sorted(self.party, key=lambda party: party.index) if party.data]

    @property
    def parties(self) -> int:
        """Number of parties."""
        return len(self.files) or self.data.parties

    @property
    def names(self) -> list[str] | None:
        """Names of the parties in a ledger; None if no party has a name."""
        known = {party.index: party.name for party in self.party if party.name is not None}
        return [known.get(index, f"party {index}") for index in range(self.parties)] if known else None


MODEL = {"name": "random-forest"}


class Experiment(Source):
    """A whole experiment file.

    Parameters
    ----------
    noise : {"secure", "simulated"}, optional
        Noise of private releases; by default secure for the user's own files, simulated for named data sets.
    budget : Budget, optional
        Largest epsilon that all runs of the ledger may spend.
    ledger : str, optional
        Ledger file that several runs share.
    bounds : bool
        Whether to measure what each party's model would reach with the rows of all parties; only in simulations.
    model : Model
        Table `[model]`; by default a random forest.
    server : Server, optional
        Table `[server]`.
    training : Training
        Table `[training]`.
    features : Features, optional
        Table `[features]`: what all rows are mapped to.
    algorithm : Algorithm
        Table `[algorithm]`.
    """

    noise: Noise | None = None
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    ledger: str | None = None
    bounds: StrictBool = False
    model: Annotated[Model, PlainValidator(model_in)] = Field(default_factory=lambda: model_in(MODEL))
    server: Server | None = None
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    features: Annotated[Features | None, PlainValidator(features_in)] = None
    algorithm: Annotated[Algorithm, PlainValidator(algorithm_in)]

    @model_validator(mode="after")
    def _features_go_where_they_are_applied(self) -> "Experiment":
        algorithm, features = applied(self.algorithm, self.features)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "features", features)
        if features is not None and self.data.public is None:
            raise LimbeckError(NO_PUBLIC)
        return self

    @property
    def kind(self) -> Kind | None:
        found = Source.kind.fget(self)  # type: ignore[attr-defined]
        is_real = self.algorithm.is_private and self.noise_source == "secure"
        return found or ("multiclass" if is_real and not self.data.schema_file else None)

    @property
    def noise_source(self) -> Noise:
        """Noise of private releases: as in the file, else secure for the user's own files."""
        return self.noise or ("secure" if self.files or self.data.path else "simulated")

    def takes_from_private(self, part: Draw | FromFile | None) -> bool:
        """Whether public or test rows are drawn from the user's own private file."""
        return self.data.path is not None and isinstance(part, Draw) and part.name is None

    @property
    def server_model(self) -> Model:
        """Model of the server."""
        return self.server.model if self.server else self.model

    @property
    def models(self) -> list[Model]:
        """Models of all parties, then that of the server."""
        return [*(self.model_of(party) for party in range(self.parties)), self.server_model]

    def model_of(self, party: int) -> Model:
        """Model of a party."""
        return {entry.index: entry.model for entry in self.party}.get(party) or self.model


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an error names the file."""
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LimbeckError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise LimbeckError(f"{path} is not TOML: its tables are nested too deeply") from error


def check_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Check a table of a file.

    Parameters
    ----------
    kind : type
        Class of the table, for example `Experiment`.
    table : mapping
        The table.
    where : str
        The file, for error messages.

    Returns
    -------
    Table
        Instance of `kind`.

    Raises
    ------
    LimbeckError
        With the file, the key and the first problem.
    """
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        raise LimbeckError(f"{where}: {named_party(first_problem(error), table)}") from error


def _name_and_parameters(value: Any, key: str, example: str) -> tuple[str, dict[str, Any]]:
    """Name or kind of a table, and its other keys."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise LimbeckError(f"needs a table with a {key}, such as {example}")
    return value[key], {other: v for other, v in value.items() if other != key}
