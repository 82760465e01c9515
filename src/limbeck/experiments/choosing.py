"""The algorithm of an experiment that names none: by the privacy level, or by the models. See docs/choosing.md."""

from collections.abc import Mapping
from typing import Any

from limbeck.models.named import NETWORKS, PRESETS, TEXT_NETWORKS

BY_LEVEL = {"L1": "fedvote", "L2": "fedridge"}


def with_algorithm(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Add the algorithm to the table of an experiment that names none.

    Parameters
    ----------
    table : mapping
        Table of an experiment file.

    Returns
    -------
    tuple of dict and list of str
        The table with the algorithm's name, and a message that says what was chosen and why.

    Examples
    --------
    >>> table, [why] = with_algorithm({"algorithm": {"privacy": {"epsilon": 1.0}}})
    >>> table["algorithm"]
    {'name': 'fedridge', 'privacy': {'epsilon': 1.0, 'level': 'L2'}}
    >>> why
    'algorithm: fedridge, because there is an epsilon, and no level: L2'
    """
    algorithm = table.get("algorithm", {})
    if not isinstance(algorithm, Mapping) or "name" in algorithm:
        return dict(table), []
    privacy = algorithm.get("privacy", {})
    chosen = dict(algorithm)
    why = ""
    if isinstance(privacy, Mapping) and "epsilon" in privacy and "level" not in privacy:
        chosen["privacy"] = privacy = {**privacy, "level": "L2"}
        why = "there is an epsilon, and no level: L2"
    level = privacy.get("level") if isinstance(privacy, Mapping) else None
    if level in list(BY_LEVEL):  # it may be unhashable
        numbers = _learns_numbers(table)
        why = why or f"privacy.level is {level}" + " and the target is a number" * numbers
        name = "fedridge" if numbers else BY_LEVEL[level]
    else:
        name, why = _by_models(table)
    return {**table, "algorithm": {"name": name, **chosen}}, [f"algorithm: {name}, because {why}"]


def _learns_numbers(table: Mapping[str, Any]) -> bool:
    """Whether the file says that the target is a number."""
    data = table.get("data", {})
    return isinstance(data, Mapping) and (data.get("task") == "regression" or "range" in data)


def _by_models(table: Mapping[str, Any]) -> tuple[str, str]:
    parties = table.get("party")
    parties = parties if isinstance(parties, list) else []
    own = [party["model"] for party in parties if isinstance(party, Mapping) and "model" in party]
    models = [*([table["model"]] if "model" in table else []), *own]
    if not models:
        return "fedridge", "no model is named"
    known = [*NETWORKS, *PRESETS, *TEXT_NETWORKS]  # a name may be unhashable
    networks = all(isinstance(each, Mapping) and each.get("name") in known for each in models)
    if networks and any(each != models[0] for each in models):
        return "fedmd", "the parties have different networks"
    if _learns_numbers(table):
        return "fedkd", "the target is a number, and parties train models"
    return "fedvote", "there is no epsilon, and parties train models"
