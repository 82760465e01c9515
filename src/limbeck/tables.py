"""Frozen dataclasses of parameters from TOML tables."""

import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from pydantic import Field as Range
from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError, did_you_mean, shown

T = TypeVar("T")
Positive = Annotated[int, Range(ge=1)]
Above0 = Annotated[float, Range(gt=0, allow_inf_nan=False)]
RowsPerPerson = Annotated[int, Range(ge=1, le=10**9)]
NotNegative = Annotated[float, Range(ge=0, allow_inf_nan=False)]
Delta = Annotated[float, Range(gt=0, lt=1)]
SERVER_ONLY = "server-only"  # key in the metadata of a field that parties do not use, and need not agree to

# Names in version 0.1, with their new names. An error gives the new name if the table has such a key.
RENAMED_KEYS = {
    "optimiser": ("optimizer",),
    "settle": ("fine_tune",),
    "towards": ("observer",),
    "least": ("min_rows",),
    "each": ("groups_per_party",),
    "noise": ("mechanism",),
    "sampled": ("participation",),
    "exchange": ("score_format",),
    "voting": ("weights", "labels", "prior"),
}
RENAMED_VALUES = {("unit", "row"): "example", ("consensus", "count"): "mean"}


def check_keys(table: Mapping[str, Any], known: Collection[str], former: Mapping[str, str] | None = None) -> None:
    """Raise if a table has an unknown key, or the former name of a key or of a value.

    Parameters
    ----------
    table : mapping of str to object
        A TOML table.
    known : collection of str
        The valid keys.
    former : mapping of str to str, optional
        What to do about keys of earlier versions, by `key` or by `key = "value"`.

    Raises
    ------
    LimbeckError
        The message gives the nearest valid key or the new name.

    Examples
    --------
    >>> check_keys({"epoch": 3}, ["epochs", "batch"])
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: unknown key 'epoch'; did you mean 'epochs'?
    """
    for key, value in table.items():
        if key not in known:
            new = RENAMED_KEYS.get(key, ())
            if new and set(new) <= set(known):
                raise LimbeckError(f"{key} is now {', '.join(new)}")
            if advice := (former or {}).get(f'{key} = "{value}"', (former or {}).get(key)):
                raise LimbeckError(advice)
            raise LimbeckError(f"unknown key {key!r}; {did_you_mean(key, known)}")
        if isinstance(value, str) and (key, value) in RENAMED_VALUES:
            raise LimbeckError(f'{key} = "{value}" is now {key} = "{RENAMED_VALUES[key, value]}"')


def from_table(kind: type[T], table: Mapping[str, Any], default: T | None = None) -> T:
    """Make a dataclass from a table, and check each value against the type of its field.

    Parameters
    ----------
    kind : type
        A dataclass. Fields that are dataclasses are made from nested tables.
    table : mapping of str to object
        Values by field name.
    default : object, optional
        An object of the dataclass, whose values are used for missing keys. A nested table changes the default of its
        field, too.

    Returns
    -------
    object
        An object of the dataclass.

    Raises
    ------
    LimbeckError
        If a key is unknown or missing, or a value has a wrong type or is out of range.

    Examples
    --------
    >>> from limbeck.protocol.recipe import Recipe
    >>> recipe = from_table(Recipe, {"epochs": 3, "optimizer": "sgd"})
    >>> recipe.epochs, recipe.batch
    (3, 32)
    """
    if not is_dataclass(kind):
        raise LimbeckError(f"{kind!r} is not a dataclass of parameters")
    known = {field.name: field for field in fields(kind)}
    check_keys(table, known, former_keys(kind))
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


def former_keys(kind: type) -> Mapping[str, str]:
    """What to do about keys of earlier versions in the table of a dataclass, which may state it as `former_keys`."""
    return getattr(kind, "former_keys", {})


def default_of(field: Field[Any]) -> Any:
    """Return the default value of a field; MISSING without one."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def check_fields(parameters: Any) -> None:
    """Raise if a value of a dataclass has a wrong type or is out of range.

    Parameters
    ----------
    parameters : object
        An object of a dataclass. Its fields declare types and ranges.

    Raises
    ------
    LimbeckError
        The message gives the field, its value and what would be valid.
    """
    kind_of_all: Any = type(parameters)
    hints = _hints(kind_of_all)
    for field in fields(parameters):
        hint, value = hints[field.name], getattr(parameters, field.name)
        if (kind := dataclass_in(hint)) and (
            isinstance(value, Mapping) or (hint is kind and not isinstance(value, kind))
        ):
            raise LimbeckError(f"{field.name} = {shown(value)}: in Python, write {kind.__name__}(...)")
        if hint is not kind:
            checked(field.name, _adapter(kind_of_all, field.name), value)


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@lru_cache(maxsize=1024)
def _adapter(kind: type, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_hints(kind)[name])


def dataclass_in(hint: Any) -> type | None:
    """Return the dataclass in a type hint, or None.

    Parameters
    ----------
    hint : object
        A type hint, for example `Recipe | None`.

    Returns
    -------
    type or None
        The first dataclass in it.
    """
    found = (part for part in get_args(hint) or (hint,) if isinstance(part, type) and is_dataclass(part))
    return next(found, None)


def checked(key: str, adapter: TypeAdapter[Any], value: Any) -> Any:
    """Check a value strictly against a type.

    Parameters
    ----------
    key : str
        Name of the value, for the message.
    adapter : TypeAdapter
        The type.
    value : object
        The value.

    Returns
    -------
    object
        The valid value.

    Raises
    ------
    LimbeckError
        If the value is not valid.
    """
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        wanted = "; or ".join(dict.fromkeys(map(_wanted, error.errors())))
        raise LimbeckError(f"{key} = {shown(value)}: {wanted}") from error


def first_problem(error: ValidationError) -> str:
    """Describe the first problem in an error of pydantic: the path of the key, and what is wrong.

    Parameters
    ----------
    error : ValidationError
        The error.

    Returns
    -------
    str
        One line, for example "data.parties: Input should be greater than 0".
    """
    path: list[str] = []
    inner: Any = error
    while isinstance(inner, ValidationError):
        problem = inner.errors()[0]
        path += map(str, problem["loc"])
        inner = problem.get("ctx", {}).get("error")
    text = "is missing" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
    return ": ".join([*filter(None, [".".join(path)]), text])


def named_party(problem: str, table: Mapping[str, Any]) -> str:
    """Name a `[[party]]` table in an error by its index or its name, instead of its place in the file.

    Parameters
    ----------
    problem : str
        The error, which begins with the path of the key.
    table : mapping
        The table of the file.

    Returns
    -------
    str
        The error with the party's index or name.

    Examples
    --------
    >>> named_party("party.0.model: unknown model 'svmm'", {"party": [{"index": 3, "model": {"name": "svmm"}}]})
    "[[party]] index = 3: model: unknown model 'svmm'"
    """
    found = re.match(r"party\.(\d+)(\.?)", problem)
    if found is None:
        return problem
    entry = table["party"][int(found[1])]
    key = next((key for key in ("index", "name") if isinstance(entry, Mapping) and key in entry), None)
    named = f"{key} = {entry[key]!r}" if key else f"table {int(found[1]) + 1}"
    return f"[[party]] {named}{': ' if found[2] else ''}{problem[found.end() :]}"


def _wanted(error: Any) -> str:
    """What a value should be; the author of a table need not know about dataclasses."""
    return "Input should be a table" if error["type"].startswith("dataclass") else str(error["msg"])
