"""What a party agrees to about an algorithm's parameters.

`[agree.parameters]` in party.toml has exact values, ranges `{ min = 1, max = 9 }` or choices `{ one_of = [1, 2] }`. A
parameter that is not there must have its default value. Tables in it (privacy, recipes) are compared key by key in the
same way. Parameters that only the server uses, such as the path of a file, are not compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, get_type_hints

from pydantic import TypeAdapter

from limbeck.errors import LimbeckError
from limbeck.tables import SERVER_ONLY, check_keys, checked, dataclass_in, default_of, former_keys

RANGE = ("min", "max")
CHOICE = "one_of"


class Bound(Protocol):
    """What a party accepts as the value of a parameter."""

    def difference(self, value: Any) -> str | None:
        """Compare a value with the bound.

        Parameters
        ----------
        value : Any
            Value of the parameter.

        Returns
        -------
        str or None
            None if the value is accepted; else the key within the parameter that differs, "" for the parameter itself.
        """


@dataclass(frozen=True, slots=True)
class Exact:
    """One accepted value.

    Parameters
    ----------
    value : Any
        The value; 1 and 1.0 differ.

    Examples
    --------
    >>> Exact(2).difference(2), Exact(2).difference(3)
    (None, '')
    """

    value: Any

    def difference(self, value: Any) -> str | None:
        """Compare a value with the bound; see `Bound.difference`."""
        return None if same(value, self.value) else ""


@dataclass(frozen=True, slots=True)
class Range:
    """Range of numbers of one type: an int may be a number of rows, and a float a share of them.

    Parameters
    ----------
    min : int or float or None
        Smallest accepted value.
    max : int or float or None
        Largest accepted value.

    Examples
    --------
    >>> Range(1, 9).difference(5), Range(1, 9).difference(5.0)
    (None, '')
    """

    min: Any
    max: Any

    def difference(self, value: Any) -> str | None:
        """Compare a value with the bound; see `Bound.difference`."""
        ends = [end for end in (self.min, self.max) if end is not None]
        right = all(type(end) is type(value) for end in ends)
        within = right and (self.min is None or self.min <= value) and (self.max is None or value <= self.max)
        return None if within else ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Choice between several bounds.

    Parameters
    ----------
    choices : tuple of Bound
        A value is accepted if one of them accepts it.

    Examples
    --------
    >>> OneOf((Exact(1), Exact(2))).difference(2) is None
    True
    """

    choices: tuple[Bound, ...]

    def difference(self, value: Any) -> str | None:
        """Compare a value with the bound; see `Bound.difference`."""
        return None if any(each.difference(value) is None for each in self.choices) else ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Bounds of all parameters of a dataclass.

    Parameters
    ----------
    kind : type
        The dataclass, for example an algorithm.
    bounds : mapping of str to Bound
        Bound of each parameter.
    """

    kind: type
    bounds: Mapping[str, Bound]

    def difference(self, value: Any) -> str | None:
        """Compare a value with the bound; see `Bound.difference`."""
        if type(value) is not self.kind:
            return ""
        for name, bound in self.bounds.items():
            inner = bound.difference(getattr(value, name))
            if inner is not None:
                return ".".join(filter(None, [name, inner]))
        return None


def read_parameters(kind: type, table: Mapping[str, Any], within: str = "", usual: Any = None) -> Parameters:
    """Read the bounds of an algorithm's parameters.

    Parameters
    ----------
    kind : type
        Class of the algorithm.
    table : mapping
        Table `[agree.parameters]`; each value is checked against the parameter's type.
    within : str
        Prefix of keys in error messages.
    usual : optional
        Instance whose values are the defaults.

    Returns
    -------
    `Parameters`
        Bounds of all parameters.

    Examples
    --------
    >>> from limbeck.algorithms.fedkt import FedKT
    >>> bounds = read_parameters(FedKT, {"subsets": {"min": 2, "max": 9}})
    >>> bounds.difference(FedKT(subsets=3)), bounds.difference(FedKT(subsets=10))
    (None, 'subsets')
    """
    defaults = _defaults(kind, usual)
    try:
        check_keys(table, defaults, former_keys(kind))
    except LimbeckError as error:
        raise LimbeckError(f"{within.removesuffix('.')}: {error}" if within else str(error)) from error
    hints = get_type_hints(kind, include_extras=True)
    bounds = {key: _exactly(default) for key, default in defaults.items()}
    given = {key: _bound(f"{within}{key}", hints[key], value, defaults[key]) for key, value in table.items()}
    return Parameters(kind, bounds | given)


def _defaults(kind: Any, usual: Any) -> dict[str, Any]:
    """Default value of each parameter that parties agree to: as in `usual`, if that is an instance of `kind`."""
    known = isinstance(usual, kind)
    agreed = [field for field in fields(kind) if not field.metadata.get(SERVER_ONLY)]
    return {field.name: getattr(usual, field.name) if known else default_of(field) for field in agreed}


def _exactly(value: Any) -> Bound:
    """Bound for exactly one value; a dataclass is compared field by field, so that a difference names its key."""
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
        raise LimbeckError(f"{key} = {value!r}: a range needs two numbers")
    return None if value is None else checked(key, TypeAdapter(hint), value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and have the same type, also within dataclasses and lists.

    Parameters
    ----------
    one : Any
        A value.
    other : Any
        Another value.

    Returns
    -------
    bool
        Whether they are the same.

    Examples
    --------
    >>> same([1, "a"], [1, "a"]), same([1], [1.0])
    (True, False)
    """
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def changed(parameters: Any, usual: Any = None) -> dict[str, Any]:
    """Parameters that differ from their defaults, as a table for `read_parameters`.

    Parameters
    ----------
    parameters : dataclass instance
        For example an algorithm.
    usual : optional
        Instance whose values are the defaults.

    Returns
    -------
    dict
        Values by key, with nested tables.

    Examples
    --------
    >>> from limbeck.algorithms.fedkt import FedKT
    >>> changed(FedKT(subsets=8))
    {'subsets': 8}
    """
    found: dict[str, Any] = {}
    for key, default in _defaults(type(parameters), usual).items():
        value = getattr(parameters, key)
        if not same(value, default):
            found[key] = changed(value, default) if is_dataclass(value) else value
    return found
