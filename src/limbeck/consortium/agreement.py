"""What a party agrees to about an algorithm's parameters.

`[agree.parameters]` in party.toml names exact values, ranges `{ min = 1, max = 9 }` or choices
`{ one_of = [1, 2] }`. A parameter that it does not name must have its default value. Tables within it (privacy,
recipes) are compared key by key in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, get_type_hints

from pydantic import TypeAdapter

from limbeck.errors import LimbeckError
from limbeck.tables import check_keys, checked, dataclass_in, default_of

RANGE = ("min", "max")
CHOICE = "one_of"


class Bound(Protocol):
    """What one parameter may be."""

    def difference(self, value: Any) -> str | None:
        """The key of the first difference, "" for the parameter itself; None where there is none."""


@dataclass(frozen=True, slots=True)
class Exact:
    value: Any

    def difference(self, value: Any) -> str | None:
        return None if same(value, self.value) else ""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers of one type: where whole numbers are rows and others are shares, 1 is not 1.0."""

    min: Any
    max: Any

    def difference(self, value: Any) -> str | None:
        ends = [end for end in (self.min, self.max) if end is not None]
        right = all(type(end) is type(value) for end in ends)
        within = right and (self.min is None or self.min <= value) and (self.max is None or value <= self.max)
        return None if within else ""


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[Bound, ...]

    def difference(self, value: Any) -> str | None:
        return None if any(each.difference(value) is None for each in self.choices) else ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """A table: a bound for each parameter of `kind`, by its name."""

    kind: type
    bounds: Mapping[str, Bound]

    def difference(self, value: Any) -> str | None:
        if type(value) is not self.kind:
            return ""
        for name, bound in self.bounds.items():
            inner = bound.difference(getattr(value, name))
            if inner is not None:
                return ".".join(filter(None, [name, inner]))
        return None


def read_parameters(kind: type, table: Mapping[str, Any], within: str = "", usual: Any = None) -> Parameters:
    """The bounds in a table of an algorithm's parameters; each value is checked against the parameter's type."""
    defaults = _defaults(kind, usual)
    try:
        check_keys(table, defaults)
    except LimbeckError as error:
        raise LimbeckError(f"{within.removesuffix('.')}: {error}" if within else str(error)) from error
    hints = get_type_hints(kind, include_extras=True)
    bounds = {key: _exactly(default) for key, default in defaults.items()}
    given = {key: _bound(f"{within}{key}", hints[key], value, defaults[key]) for key, value in table.items()}
    return Parameters(kind, bounds | given)


def _defaults(kind: Any, usual: Any) -> dict[str, Any]:
    """The default value of each parameter: as in `usual`, where that is of this kind."""
    known = isinstance(usual, kind)
    return {field.name: getattr(usual, field.name) if known else default_of(field) for field in fields(kind)}


def _exactly(value: Any) -> Bound:
    """One value; of a table every key, so that a difference names its key."""
    if not is_dataclass(value) or isinstance(value, type):
        return Exact(value)
    return Parameters(type(value), {key: _exactly(each) for key, each in _defaults(type(value), value).items()})


def _bound(key: str, hint: Any, value: Any, usual: Any) -> Bound:
    if not isinstance(value, Mapping):
        return Exact(checked(key, TypeAdapter(hint), value))
    if set(value) == {CHOICE} and isinstance(value[CHOICE], list) and value[CHOICE]:
        return OneOf(tuple(_bound(key, hint, each, usual) for each in value[CHOICE]))
    if value and set(value) <= set(RANGE):
        low, high = (_end(key, hint, value.get(end)) for end in RANGE)
        if low is not None and high is not None and low > high:
            raise LimbeckError(f"{key}: min = {low} is more than max = {high}")
        return Range(low, high)
    if (kind := dataclass_in(hint)) is None:
        raise LimbeckError(f"{key}: write a value, {{ min = .., max = .. }} or {{ one_of = [..] }}")
    return read_parameters(kind, value, f"{key}.", usual)


def _end(key: str, hint: Any, value: Any) -> Any:
    if isinstance(value, bool | str | list | Mapping):
        raise LimbeckError(f"{key} = {value!r}: a range is between two numbers")
    return None if value is None else checked(key, TypeAdapter(hint), value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type, also within tables and lists."""
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def changed(parameters: Any, usual: Any = None) -> dict[str, Any]:
    """The values that differ from their defaults, tables within tables too: what `read_parameters` agrees to."""
    found: dict[str, Any] = {}
    for key, default in _defaults(type(parameters), usual).items():
        value = getattr(parameters, key)
        if not same(value, default):
            found[key] = changed(value, default) if is_dataclass(value) else value
    return found
