"""Tables of parameters, as TOML gives them, made into frozen dataclasses."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from pydantic import Field as Range
from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError, did_you_mean

T = TypeVar("T")
Positive = Annotated[int, Range(ge=1)]
Above0 = Annotated[float, Range(gt=0, allow_inf_nan=False)]
RowsPerPerson = Annotated[int, Range(ge=1, le=10**9)]
NotNegative = Annotated[float, Range(ge=0, allow_inf_nan=False)]
Delta = Annotated[float, Range(gt=0, lt=1)]

# Names of version 0.1 with their names of today. An error names the new one wherever a table accepts it.
RENAMED_KEYS = {
    "optimiser": ("optimizer",),
    "settle": ("fine_tune",),
    "towards": ("observer",),
    "least": ("min_rows",),
    "each": ("groups_per_party",),
    "voting": ("weights", "labels", "prior"),
}
RENAMED_VALUES = {("unit", "row"): "example", ("consensus", "count"): "mean"}


def check_keys(table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise if a table has a key that is not known, or the former name of a key or of a value."""
    for key, value in table.items():
        if key not in known:
            new = [name for name in RENAMED_KEYS.get(key, ()) if name in known]
            if new:
                raise LimbeckError(f"{key} is now {', '.join(new)}")
            raise LimbeckError(f"unknown key {key!r}; {did_you_mean(key, known)}")
        if isinstance(value, str) and (key, value) in RENAMED_VALUES:
            raise LimbeckError(f'{key} = "{value}" is now {key} = "{RENAMED_VALUES[key, value]}"')


def from_table(kind: type[T], table: Mapping[str, Any], default: T | None = None) -> T:
    """A dataclass from a table of its fields, each checked against its type; tables within tables too.

    What a table does not say is as in `default`; a table within it changes what its key is by default.
    """
    if not is_dataclass(kind):
        raise LimbeckError(f"{kind!r} is not a dataclass of parameters")
    known = {field.name: field for field in fields(kind)}
    check_keys(table, known)
    for key, field in known.items():
        if default is None and key not in table and default_of(field) is MISSING:
            raise LimbeckError(f"{key} is missing")
    found = {}
    for key, value in table.items():
        within = dataclass_in(_hints(kind)[key])
        if within is None or not isinstance(value, Mapping):
            found[key] = checked(key, _adapter(kind, key), value)
            continue
        usual = default_of(known[key]) if default is None else getattr(default, key)
        try:
            found[key] = from_table(within, value, usual if isinstance(usual, within) else None)
        except LimbeckError as error:
            raise LimbeckError(f"{key}: {error}") from error
    return kind(**found) if default is None else cast(T, replace(cast(Any, default), **found))


def default_of(field: Field[Any]) -> Any:
    """A parameter's default value; MISSING where it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def check_fields(parameters: Any) -> None:
    """Raise if a dataclass, made in Python, has values of other types or ranges than its fields declare."""
    kind_of_all: Any = type(parameters)
    hints = _hints(kind_of_all)
    for field in fields(parameters):
        hint, value = hints[field.name], getattr(parameters, field.name)
        if (kind := dataclass_in(hint)) and (
            isinstance(value, Mapping) or (hint is kind and not isinstance(value, kind))
        ):
            raise LimbeckError(f"{field.name} = {value!r}: in Python, say {kind.__name__}(...)")
        if hint is not kind:
            checked(field.name, _adapter(kind_of_all, field.name), value)


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@lru_cache(maxsize=1024)
def _adapter(kind: type, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_hints(kind)[name])


def dataclass_in(hint: Any) -> type | None:
    """The dataclass that a hint allows, alone or as one of several."""
    found = (part for part in get_args(hint) or (hint,) if isinstance(part, type) and is_dataclass(part))
    return next(found, None)


def checked(key: str, adapter: TypeAdapter[Any], value: Any) -> Any:
    """The value of a key, strictly of its type."""
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        wanted = "; or ".join(dict.fromkeys(map(_wanted, error.errors())))
        raise LimbeckError(f"{key} = {value!r}: {wanted}") from error


def first_problem(error: ValidationError) -> str:
    """The path of the first wrong key, through tables within tables, and what is wrong with it."""
    path: list[str] = []
    inner: Any = error
    while isinstance(inner, ValidationError):
        problem = inner.errors()[0]
        path += map(str, problem["loc"])
        inner = problem.get("ctx", {}).get("error")
    text = "is missing" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
    return ": ".join([*filter(None, [".".join(path)]), text])


def _wanted(error: Any) -> str:
    """A table makes a dataclass: who writes one need not know of the other."""
    return "Input should be a table" if error["type"].startswith("dataclass") else str(error["msg"])
