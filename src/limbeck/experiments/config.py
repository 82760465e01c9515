"""An experiment as a TOML file says it; unknown keys are refused with the nearest right one named."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictFloat,
    StrictInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from limbeck.algorithms import algorithm_named
from limbeck.data.draw import Draw
from limbeck.data.splits import SPLITS, Iid, Split
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.models.named import model_from
from limbeck.protocol.learning import Model
from limbeck.protocol.parties import Algorithm

T = TypeVar("T", bound="Table")


class Table(BaseModel):
    """A table of the file: it knows its keys."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, table: Any) -> Any:
        if isinstance(table, dict):
            _check_keys(table, {field.alias or name for name, field in cls.model_fields.items()})
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


def _draw(value: Any) -> Draw:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Draw(value)
    if not isinstance(value, dict):
        raise LimbeckError(
            f'{value!r} is not a number of rows, a share, {{ from = "test", share = 0.5 }} '
            'or { name = "other", rows = 5000 }'
        )
    form = FromTest.model_validate(value) if "from" in value else FromOther.model_validate(value)
    amount = form.rows if form.share is None else form.share
    if amount is None or (form.share is not None and form.rows is not None):
        raise LimbeckError("give either share or rows")
    return Draw(amount, "test") if isinstance(form, FromTest) else Draw(amount, "train", form.name)


def _split(value: Any) -> Split:
    kind, parameters = _apart(value, "kind", 'split = { kind = "dirichlet", beta = 0.5 }')
    if kind not in SPLITS:
        raise LimbeckError(f"unknown kind {kind!r}; {did_you_mean(kind, SPLITS)}")
    split: Split = _from_table(SPLITS[kind], parameters)
    return split


def _model(value: Any) -> Model:
    _apart(value, "name", '{ name = "random-forest", max_depth = 6 }')
    return model_from(value)


def _algorithm(value: Any) -> Algorithm:
    name, parameters = _apart(value, "name", 'name = "fedkt"')
    algorithm: Algorithm = _from_table(algorithm_named(name), parameters)
    return algorithm


class Data(Table):
    """`[data]`"""

    name: str
    parties: StrictInt = Field(10, ge=1)
    split: Annotated[Split, PlainValidator(_split)] = Iid()
    public: Annotated[Draw | None, PlainValidator(_draw)] = None
    test: Annotated[Draw | None, PlainValidator(_draw)] = None


class Party(Table):
    """`[[party]]`: what one party has that the others have not."""

    index: StrictInt = Field(ge=0)
    model: Annotated[Model, PlainValidator(_model)]


class Server(Table):
    """`[server]`"""

    model: Annotated[Model, PlainValidator(_model)]


class Experiment(Table):
    """A whole file, checked."""

    seed: StrictInt = Field(0, ge=0)
    data: Data
    model: Annotated[Model, PlainValidator(_model)]
    party: list[Party] = []
    server: Server | None = None
    algorithm: Annotated[Algorithm, PlainValidator(_algorithm)]

    @model_validator(mode="after")
    def _parties_exist(self) -> "Experiment":
        indices = [party.index for party in self.party]
        for index in indices:
            if index >= self.data.parties:
                raise LimbeckError(f"[[party]] index = {index}, but data.parties is {self.data.parties}")
            if indices.count(index) > 1:
                raise LimbeckError(f"[[party]] index = {index} stands twice")
        return self

    @property
    def server_model(self) -> Model:
        return self.server.model if self.server else self.model

    def model_of(self, party: int) -> Model:
        return {entry.index: entry.model for entry in self.party}.get(party, self.model)


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise LimbeckError(f"{path} is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise LimbeckError(f"{path} is not a text file") from error
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror}") from error


def check_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """The checked table, or one line: where, which key, what is wrong with it."""
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        path, told = _first(error)
        raise LimbeckError(": ".join([where, *filter(None, [".".join(path)]), told])) from error


def _first(error: ValidationError) -> tuple[list[str], str]:
    """The path of the first wrong key, through tables within tables, and what is wrong with it."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"]]
    inner = problem.get("ctx", {}).get("error")
    if isinstance(inner, ValidationError):
        deeper, told = _first(inner)
        return path + deeper, told
    return path, "is missing" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")


def _check_keys(table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise LimbeckError(f"unknown key {key!r}; {did_you_mean(key, known)}")


def _apart(value: Any, key: str, example: str) -> tuple[str, dict[str, Any]]:
    """A table's name or kind, and its other keys."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise LimbeckError(f"needs a table with a {key}, such as {example}")
    return value[key], {other: v for other, v in value.items() if other != key}


def _from_table(kind: type[Any], table: Mapping[str, Any]) -> Any:
    """A frozen dataclass from a table of its fields, each checked against its type."""
    if not is_dataclass(kind):
        raise LimbeckError(f"{kind!r} is not a dataclass of parameters")
    _check_keys(table, {field.name for field in fields(kind)})
    needed = [field.name for field in fields(kind) if field.name not in table and _has_no_default(field)]
    if needed:
        raise LimbeckError(f"{needed[0]} is missing")
    hints = get_type_hints(kind)
    try:
        return kind(**{key: TypeAdapter(hints[key]).validate_python(v, strict=True) for key, v in table.items()})
    except ValidationError as error:
        wrong = next(key for key, v in table.items() if v is error.errors()[0]["input"])
        raise LimbeckError(f"{wrong} = {table[wrong]!r}: {_first(error)[1]}") from error


def _has_no_default(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
