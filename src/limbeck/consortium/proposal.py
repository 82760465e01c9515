"""The first party.toml of a party: the parameters of the invitation, as limits that its owner can change."""

import json
import re
from collections.abc import Mapping
from typing import Any

from limbeck.algorithms import algorithm_named
from limbeck.consortium.agreement import changed
from limbeck.consortium.joining import Join
from limbeck.errors import LimbeckError
from limbeck.imports import is_own
from limbeck.privacy.guarantees import delta_of_subsets, epsilon_towards
from limbeck.privacy.ledger import Budget
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.envelopes import ASSUMED_ROWS
from limbeck.tables import from_table

BEGINNING = """\
# The settings of this party. It answers nothing before `limbeck party start`.
data = "private.csv"       # your rows: CSV, Parquet or NPZ. They stay where they are
# label = "outcome"        # the column of the classes, if it has another name than the consortium's
public = "public.csv"      # the consortium's public rows, as you received them
# test = "test.csv"        # your own test rows, on which `limbeck server evaluate` may measure a model
{features}approve = false            # true: a person must approve every request with `limbeck party approve`
{choice}
[model]                    # any model that suits your rows
name = "random-forest"
"""
FEATURES = 'features = "experiment.features.safetensors"   # the consortium\'s feature map, as you received it\n'
CHOICE = """\
# The invitation names no epsilon. Choose before the first start: this line, or a [budget] below.
# unprotected = true       # no limit: answers may leave without protection
"""
ACTIVE = """
# The most that all runs together may spend. This is the epsilon of the invitation: enough for one run, and then for no
# `limbeck server evaluate` on your test rows. If you agree to an evaluation or to more runs, raise it before the first
# run, for example by 1: the ledger keeps its first budget, which can only be lowered later.
[budget]
"""
OPEN = """
# The most that all runs together may spend. The ledger keeps its first budget, which can only be lowered later.
# [budget]
# epsilon = 3.0
# delta = 1e-5
# observer = "server"      # who may learn no more than this: "server", "parties" or "public"
# unit = "example"         # what is protected: "example", "party" or "both"
# rows_per_person = 1      # how many of your rows may belong to one person
"""
AGREED = """
# What you agree to. This party refuses anything else.
[[agree]]
"""
PARAMETERS = """
[agree.parameters]         # a parameter that is not named here must have its default value
"""
UNLIMITED = "# epsilon = 3.0            # the most that one run may spend; without it there is no limit\n"
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
MIN_EPSILON = 0.001  # of a budget, which must be above 0; a subset of replaced rows has epsilon 0


def settings_for(join: Join) -> str:
    """Text of the first party.toml.

    Parameters
    ----------
    join : Join
        Content of the join file.

    Returns
    -------
    str
        TOML with comments.
    """
    budget = budget_for(join.algorithm)
    limits = ACTIVE + _lines(budget) if budget else OPEN
    agreed = AGREED + agreement_for(join.algorithm, budget)
    beginning = BEGINNING.format(choice="" if budget else CHOICE, features=FEATURES if join.features else "")
    beginning = beginning.replace("\n[model]", weights_for(join) + "\n[model]")
    return beginning + limits + agreed


def weights_for(join: Join) -> str:
    """Comment about the class weights of an invitation; empty if it has none."""
    if join.class_weights is None:
        return ""
    named = zip(join.classes, join.class_weights, strict=True)
    table = ", ".join(f"{_key(name)} = {weight!r}" for name, weight in named)
    return f"# Your rows are weighted by class, as the invitation says: {{ {table} }}\n"


def budget_for(algorithm: Mapping[str, Any]) -> Budget | None:
    """Budget for one run of the invitation's algorithm.

    Parameters
    ----------
    algorithm : mapping
        Name and parameters of the algorithm.

    Returns
    -------
    Budget or None
        The budget; None if the invitation has no epsilon.

    Examples
    --------
    >>> budget_for({"name": "fedkt", "privacy": {"level": "L2", "epsilon": 3.0}}).epsilon
    3.0
    """
    privacy = algorithm.get("privacy")
    table = privacy if isinstance(privacy, Mapping) else {}
    own = table.get("epsilon") is not None and table.get("level") != "L0"
    source = table if own else algorithm
    epsilon, delta, group = (source.get(key) for key in ("epsilon", "delta", "rows_per_person"))
    if not isinstance(epsilon, int | float) or not 0 < epsilon < float("inf"):
        return _budget_of_subset(algorithm)
    noised_by_server = table.get("level") == "L1" if own else algorithm.get("noised_by") == "server"
    return Budget(
        epsilon=float(epsilon),
        delta=delta if isinstance(delta, float) else 1e-5,
        observer="public" if noised_by_server else "server",
        unit="party" if noised_by_server else "example",
        rows_per_person=group if isinstance(group, int) else 1,
    )


def _budget_of_subset(algorithm: Mapping[str, Any]) -> Budget | None:
    """Budget for training on one secret subset, if the invitation has a `population`."""
    if is_own(str(algorithm.get("name"))) or not isinstance(algorithm.get("population"), int):
        return None
    found: Any = _algorithm(algorithm)
    releases = planned_releases(found.disclosures, Facts(ASSUMED_ROWS, 2, 1, "secure"))
    group = found.rows_per_person
    delta = delta_of_subsets(releases, group)
    if not 0 < delta < 1:
        return None
    epsilon = epsilon_towards("server", releases, delta, "example", group)
    return Budget(max(MIN_EPSILON, epsilon), delta, "server", "example", group) if epsilon < float("inf") else None


def agreement_for(algorithm: Mapping[str, Any], budget: Budget | None) -> str:
    """Table `[[agree]]` for the invitation's algorithm, with all parameters that differ from their defaults.

    Parameters
    ----------
    algorithm : mapping
        Name and parameters of the algorithm.
    budget : Budget or None
        What one run may spend.

    Returns
    -------
    str
        TOML with comments.
    """
    privacy = algorithm.get("privacy")
    level = privacy.get("level") if isinstance(privacy, Mapping) else None
    lines = [f"algorithm = {_toml(str(algorithm.get('name')))}"]
    if isinstance(level, str):
        lines.append(f"levels = {_toml([level])}")
    if budget:
        lines.append("# the most that one run may spend")
    cost = _lines(budget) if budget else UNLIMITED
    named = "".join(f"{_key(key)} = {_toml(value, key)}\n" for key, value in _parameters(algorithm).items())
    return "\n".join(lines) + "\n" + cost + PARAMETERS + named


def _lines(budget: Budget) -> str:
    group = f"rows_per_person = {budget.rows_per_person}\n" if budget.rows_per_person != 1 else ""
    return (
        f"epsilon = {budget.epsilon!r}\ndelta = {budget.delta!r}\n"
        f"observer = {_toml(budget.observer)}\nunit = {_toml(budget.unit)}\n{group}"
    )


def _parameters(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that the invitation sets. Code that it names is not imported; all its parameters are written then."""
    if is_own(str(algorithm.get("name"))):
        return {key: value for key, value in _without_none(algorithm).items() if key != "name"}
    return changed(_algorithm(algorithm))


def _algorithm(table: Mapping[str, Any]) -> Any:
    try:
        parameters = {key: value for key, value in table.items() if key != "name"}
        return from_table(algorithm_named(str(table.get("name"))), parameters)
    except LimbeckError as error:
        raise LimbeckError(f"this version of Limbeck cannot run the invitation's algorithm: {error}") from error


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: _without_none(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    return {key: value for key, value in found.items() if value is not None}


def _toml(value: Any, where: str = "algorithm") -> str:
    """A value as one line of TOML; TOML has no value for None."""
    match value:
        case None:
            raise LimbeckError(f"the invitation sets {where} to null, which TOML does not have")
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            inner = ", ".join(f"{_key(key)} = {_toml(each, f'{where}.{key}')}" for key, each in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(_toml(each, where) for each in value)}]"
        case _:
            return repr(value)


def _key(key: str) -> str:
    return key if PLAIN_KEY.fullmatch(key) else _toml(key)
