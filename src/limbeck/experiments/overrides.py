"""Overrides of an experiment file from the command line: `--set key.path=value`."""

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import Any, cast

from limbeck.errors import LimbeckError


def override(table: dict[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Change keys of a table.

    If the `name` of an algorithm or a model changes, keys of its table that the new one does not have are dropped.

    Parameters
    ----------
    table : dict
        Table of an experiment file; it stays as it is.
    settings : sequence of str
        Changes of the form key.path=value.

    Returns
    -------
    tuple of dict and list of str
        Changed table, and a message for each dropped key.

    Examples
    --------
    >>> override({"seed": 0, "data": {"name": "iris"}}, ["seed=1", "data.parties=3"])
    ({'seed': 1, 'data': {'name': 'iris', 'parties': 3}}, [])
    """
    changed, notes = deepcopy(table), []
    for path, value in map(_pair, settings):
        if path[-1] == "name" and len(path) > 1:
            notes += _drop_foreign(_table_at(changed, path[:-1]), path[:-1], str(value))
    return changed_by(changed, settings), notes


def changed_by(table: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Change keys of a table as `override` does, without dropping any; this needs no library."""
    changed = deepcopy(table)
    for path, value in map(_pair, settings):
        table_there = _table_at(changed, path[:-1])
        if not isinstance(table_there, dict):
            raise LimbeckError(
                f"--set {'.'.join(path)}: name a key of one of the tables, such as {path[0]}.0.{path[-1]}"
            )
        table_there[path[-1]] = value
    return changed


def _pair(setting: str) -> tuple[list[str], Any]:
    key, equals, text = setting.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise LimbeckError(f"--set {setting}: write --set key.path=value, such as --set algorithm.subsets=10")
    return path, value_of(text)


def value_of(text: str) -> Any:
    """Value of a setting.

    Parameters
    ----------
    text : str
        The text after the equals sign.

    Returns
    -------
    Any
        The TOML value, or the text itself if it is not TOML.

    Examples
    --------
    >>> value_of("0.5"), value_of("[1, 2]"), value_of("fedkt")
    (0.5, [1, 2], 'fedkt')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _table_at(table: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for depth, key in enumerate(path, 1):
        where = ".".join(path[:depth])
        if isinstance(table, list):
            if not key.isdigit() or int(key) >= len(table):
                raise LimbeckError(f"--set {where}: there are {len(table)} such tables, numbered from 0")
            table = table[int(key)]
        else:
            table = table.setdefault(key, {})
        if not isinstance(table, dict | list):
            raise LimbeckError(f"--set {where}.…: {where} is {table!r}, not a table")
    return table


def lacking_keys(table: Mapping[str, Any], others: Sequence[str]) -> dict[str, list[str]]:
    """Find settings of the algorithm that some methods of a comparison do not have, though others do.

    Parameters
    ----------
    table : mapping
        Table of an experiment file, with the name of its own algorithm.
    others : sequence of str
        Names of the other methods.

    Returns
    -------
    dict of str to list of str
        The keys, each with the methods that lack it. Keys that no method has are left out: they are errors.

    Examples
    --------
    >>> lacking_keys({"algorithm": {"name": "fedkt", "subsets": 2, "subset": 3}}, ["solo", "fedvote"])
    {'subsets': ['solo']}
    """
    algorithm = table.get("algorithm")
    if not isinstance(algorithm, Mapping) or not isinstance(algorithm.get("name"), str):
        return {}
    try:
        known = {name: _keys_of(name) for name in dict.fromkeys([algorithm["name"], *others])}
    except LimbeckError:
        return {}  # an unknown name, which is an error where it is used
    lacking = {key: [name for name in known if key not in known[name]] for key in algorithm if key != "name"}
    return {key: names for key, names in lacking.items() if 0 < len(names) < len(known)}


def without_keys(table: dict[str, Any], lacking: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Remove the settings that the table's own algorithm lacks, as `lacking_keys` found them."""
    algorithm = table.get("algorithm", {})
    foreign = [key for key, names in lacking.items() if algorithm["name"] in names]
    return {**table, "algorithm": {k: v for k, v in algorithm.items() if k not in foreign}} if foreign else table


def _keys_of(algorithm: str) -> set[str]:
    from limbeck.algorithms import algorithm_named

    return {field.name for field in fields(cast(Any, algorithm_named(algorithm)))}


def _drop_foreign(table: dict[str, Any], path: Sequence[str], name: str) -> list[str]:
    if not isinstance(table, dict):
        return []
    if path == ["algorithm"]:
        known = _keys_of(name)
    elif path[-1] == "model":
        from limbeck.models.named import parameters_of

        known = parameters_of(name)
    else:
        return []
    foreign = [key for key in table if key != "name" and key not in known]
    return [f"dropped {'.'.join(path)}.{key} = {table.pop(key)!r}: {name} has no such key" for key in foreign]
