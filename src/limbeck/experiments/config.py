"""An experiment as a TOML file says it; unknown keys are refused with the nearest right one named."""

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
from limbeck.data.sets import Labels
from limbeck.data.splits import SPLITS, Iid, Split, Within
from limbeck.errors import LimbeckError, did_you_mean, reading
from limbeck.models.named import model_from
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget, check_site_names
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise
from limbeck.tables import check_keys, first_problem, from_table

T = TypeVar("T", bound="Table")


class Table(BaseModel):
    """A table of the file: it knows its keys."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, table: Any) -> Any:
        if isinstance(table, dict):
            check_keys(table, {field.alias or name for name, field in cls.model_fields.items()})
        return table


class FromTest(Table):
    """Some of the official test rows."""

    part: Literal["test"] = Field(alias="from")
    share: StrictFloat | None = None
    rows: StrictInt | None = None


class FromOther(Table):
    """Some rows of another data set."""

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
        raise LimbeckError("give either share or rows")
    return Draw(amount, "test") if isinstance(form, FromTest) else Draw(amount, "train", form.name, form.labels)


def split_in(value: Any) -> Split:
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
        raise LimbeckError("a data set stands twice")
    if not several and not isinstance(value, str | None):
        raise LimbeckError("write the name of a data set, or a list of two or more")
    names: str | list[str] | None = value
    return names


def model_in(value: Any) -> Model:
    _name_and_parameters(value, "name", '{ name = "random-forest", max_depth = 6 }')
    return model_from(value)


def algorithm_in(value: Any) -> Algorithm:
    name, parameters = _name_and_parameters(value, "name", 'name = "fedkt"')
    return from_table(algorithm_named(name), parameters)


def budget_in(value: Any) -> Budget:
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "public", unit = "example" }')
    return from_table(Budget, value)


def training_in(value: Any) -> Training:
    if not isinstance(value, dict):
        raise LimbeckError('write training = { device = "auto", trainer = "auto" }')
    return from_table(Training, value)


class Data(Table):
    """`[data]`"""

    @model_validator(mode="after")
    def _labels_are_for_public_rows(self) -> "Data":
        if isinstance(self.test, Draw) and self.test.labels:
            raise LimbeckError("test.labels: test rows have the private rows' classes; labels is for public rows")
        if isinstance(self.name, list) != (self.labels is not None):
            raise LimbeckError(
                'several names go with labels = "shared" (one name, one class) or "own" (every set has its own classes)'
            )
        return self

    name: Annotated[str | list[str] | None, PlainValidator(_names)] = None
    labels: Labels | None = None
    path: str | None = None
    label: str | None = None
    classes: list[str] | None = Field(None, min_length=2)
    schema_file: str | None = Field(None, alias="schema")
    parties: StrictInt = Field(10, ge=1)
    split: Annotated[Split, PlainValidator(split_in)] = Iid()
    public: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None
    test: Annotated[Draw | FromFile | None, PlainValidator(_draw)] = None


class Party(Table):
    """`[[party]]`: what one party has that the others have not.

    `name` is how a ledger that several runs share knows the party, whatever its number.
    """

    index: StrictInt = Field(ge=0)
    name: str | None = None
    model: Annotated[Model | None, PlainValidator(model_in)] = None
    data: str | None = None


class Server(Table):
    """`[server]`"""

    model: Annotated[Model, PlainValidator(model_in)]


class Source(Table):
    """Where rows come from: the part of a file that `limbeck data split` needs."""

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
                raise LimbeckError(f"[[party]] index = {index} stands twice")
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
            raise LimbeckError("data.classes is for files of your own: a named data set has its classes")
        if self.data.schema_file and self.data.classes:
            raise LimbeckError("data.classes and data.schema: the schema names the classes already")
        if len(given) != 1:
            raise LimbeckError(f"rows come from one of {', '.join(sources)}; given: {', '.join(given) or 'none'}")
        if self.files and len(self.files) != len(self.party):
            lacking = next(party.index for party in self.party if party.data is None)
            raise LimbeckError(f"[[party]] index = {lacking} names no data, but others do")
        return self

    @property
    def files(self) -> list[str]:
        """The parties' own files in party order; none where rows are split among them."""
        return [party.data for party in sorted(self.party, key=lambda party: party.index) if party.data]

    @property
    def parties(self) -> int:
        return len(self.files) or self.data.parties

    @property
    def names(self) -> list[str] | None:
        """What a ledger calls the parties; None where none of them has a name."""
        known = {party.index: party.name for party in self.party if party.name is not None}
        return [known.get(index, f"party {index}") for index in range(self.parties)] if known else None


class Experiment(Source):
    """A whole file, checked."""

    noise: Noise | None = None
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    ledger: str | None = None
    bounds: StrictBool = False
    model: Annotated[Model, PlainValidator(model_in)]
    server: Server | None = None
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    algorithm: Annotated[Algorithm, PlainValidator(algorithm_in)]

    @property
    def noise_source(self) -> Noise:
        """Real rows get real noise: files of the user's own, unless told otherwise."""
        return self.noise or ("secure" if self.files or self.data.path else "simulated")

    def takes_from_private(self, part: Draw | FromFile | None) -> bool:
        """Whether public or test rows are taken out of the user's own private file."""
        return self.data.path is not None and isinstance(part, Draw) and part.name is None

    @property
    def server_model(self) -> Model:
        return self.server.model if self.server else self.model

    @property
    def models(self) -> list[Model]:
        """Every party's and the server's."""
        return [*(self.model_of(party) for party in range(self.parties)), self.server_model]

    def model_of(self, party: int) -> Model:
        return {entry.index: entry.model for entry in self.party}.get(party) or self.model


def read_toml(path: Path) -> dict[str, Any]:
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LimbeckError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise LimbeckError(f"{path} is not TOML: it nests too deeply") from error


def check_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """The checked table, or one line: where, which key, what is wrong with it."""
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        raise LimbeckError(f"{where}: {first_problem(error)}") from error


def _name_and_parameters(value: Any, key: str, example: str) -> tuple[str, dict[str, Any]]:
    """A table's name or kind, and its other keys."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise LimbeckError(f"needs a table with a {key}, such as {example}")
    return value[key], {other: v for other, v in value.items() if other != key}
