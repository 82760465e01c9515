"""What a party agrees to about an algorithm's parameters.

`[agree.parameters]` in party.toml names exact values, ranges `{ least = 1, most = 9 }` or choices
`{ one_of = [1, 2] }`. A parameter that it does not name must have its default value. Tables within it (privacy,
recipes) are compared key by key in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, get_type_hints

from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError
from limbeck.tables import check_keys, dataclass_in, default_of

RANGE = ("least", "most")
CHOICE = "one_of"


class Bound(Protocol):
    """What one parameter may be."""

    def difference(self, value: Any, usual: Any) -> str | None:
        """The key of the first difference, "" for the parameter itself; None where there is none."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The default value."""

    def difference(self, value: Any, usual: Any) -> str | None:
        if is_dataclass(value) and type(value) is type(usual):
            return Parameters(type(usual), {}).difference(value, usual)
        return None if same(value, usual) else ""


@dataclass(frozen=True, slots=True)
class Exact:
    value: Any

    def difference(self, value: Any, usual: Any) -> str | None:
        return None if same(value, self.value) else ""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers of one type: where whole numbers are rows and others are shares, 1 is not 1.0."""

    least: Any
    most: Any

    def difference(self, value: Any, usual: Any) -> str | None:
        ends = [end for end in (self.least, self.most) if end is not None]
        right = all(type(end) is type(value) for end in ends)
        within = right and (self.least is None or self.least <= value) and (self.most is None or value <= self.most)
        return None if within else ""


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[Bound, ...]

    def difference(self, value: Any, usual: Any) -> str | None:
        return None if any(each.difference(value, usual) is None for each in self.choices) else ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """A table: a bound for each parameter of `kind`, by its name."""

    kind: type
    bounds: Mapping[str, Bound]

    def difference(self, value: Any, usual: Any) -> str | None:
        if type(value) is not self.kind:
            return ""
        for field in fields(self.kind):
            default = getattr(usual, field.name) if isinstance(usual, self.kind) else default_of(field)
            inner = self.bounds.get(field.name, Usual()).difference(getattr(value, field.name), default)
            if inner is not None:
                return ".".join(filter(None, [field.name, inner]))
        return None


def read_parameters(kind: type, table: Mapping[str, Any], within: str = "") -> Parameters:
    """The bounds in a table of an algorithm's parameters; each value is checked against the parameter's type."""
    try:
        check_keys(table, [field.name for field in fields(kind)])
    except LimbeckError as error:
        raise LimbeckError(f"{within.removesuffix('.')}: {error}" if within else str(error)) from error
    hints = get_type_hints(kind, include_extras=True)
    return Parameters(kind, {key: _bound(f"{within}{key}", hints[key], value) for key, value in table.items()})


def _bound(key: str, hint: Any, value: Any) -> Bound:
    if not isinstance(value, Mapping):
        return Exact(_checked(key, hint, value))
    if set(value) == {CHOICE} and isinstance(value[CHOICE], list) and value[CHOICE]:
        return OneOf(tuple(_bound(key, hint, each) for each in value[CHOICE]))
    if value and set(value) <= set(RANGE):
        least, most = (_end(key, hint, value.get(end)) for end in RANGE)
        if least is not None and most is not None and least > most:
            raise LimbeckError(f"{key}: least = {least} is more than most = {most}")
        return Range(least, most)
    if (kind := dataclass_in(hint)) is None:
        raise LimbeckError(f"{key}: write a value, {{ least = .., most = .. }} or {{ one_of = [..] }}")
    return read_parameters(kind, value, f"{key}.")


def _end(key: str, hint: Any, value: Any) -> Any:
    if isinstance(value, bool | str | list | Mapping):
        raise LimbeckError(f"{key} = {value!r}: a range is between two numbers")
    return None if value is None else _checked(key, hint, value)


def _checked(key: str, hint: Any, value: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        raise LimbeckError(f"{key} = {value!r}: {error.errors()[0]['msg']}") from error


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
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        default = getattr(usual, field.name) if isinstance(usual, type(parameters)) else default_of(field)
        if not same(value, default):
            found[field.name] = changed(value, default) if is_dataclass(value) else value
    return found
