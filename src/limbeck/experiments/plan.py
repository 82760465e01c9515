"""Plans of comparisons: methods and swept values, each at every seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.experiments.cached_runs import CachedRun
from limbeck.experiments.choosing import with_algorithm
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.overrides import lacking_keys, override, value_of, without_keys

OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """One line of a comparison: a method with swept values.

    Parameters
    ----------
    method : str
        The method, with its parameters.
    swept : mapping
        Value of each swept key.
    runs : sequence of CachedRun
        One run for each seed.
    """

    method: str
    swept: Mapping[str, Any]
    runs: Sequence[CachedRun]


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """Plan of a comparison: every run is checked, none has started.

    Parameters
    ----------
    file : Path
        The experiment file.
    lines : sequence of ComparedMethod
        Lines of the table.
    seeds : sequence of int
        Seeds of each line.
    notes : sequence of str
        Settings of the algorithm that some methods do not have, one line for each setting.
    """

    file: Path
    lines: Sequence[ComparedMethod]
    seeds: Sequence[int]
    notes: Sequence[str] = ()

    @property
    def runs(self) -> dict[str, CachedRun]:
        """All runs by key, each once."""
        return {cached.key: cached for line in self.lines for cached in line.runs}

    @property
    def swept(self) -> list[str]:
        """Keys that are swept."""
        return list(self.lines[0].swept)


def plan(
    file: Path, methods: Sequence[str] = (), over: Sequence[str] = (), seeds: int = 5, settings: Sequence[str] = ()
) -> ComparisonPlan:
    """Plan the runs of a comparison or a sweep.

    Parameters
    ----------
    file : Path
        The experiment file.
    methods : sequence of str
        Methods to compare with the file's own, for example "fedkt:partitions=1".
    over : sequence of str
        Swept keys with their values, for example "algorithm.partitions=1,2".
    seeds : int
        Number of seeds, from the file's own seed on.
    settings : sequence of str
        Changes of the file, of the form key.path=value.

    Returns
    -------
    ComparisonPlan
        One line for each method and combination of swept values.
    """
    if seeds < 1:
        raise LimbeckError(f"--seeds {seeds}: at least one seed is needed")
    table, dropped = override(read_toml(file), settings)
    lines, chosen, notes = [], range(0), dict.fromkeys(dropped)
    for swept in _combinations(over):
        changed, _ = with_algorithm(override(table, [f"{key}={text}" for key, text in swept.items()])[0])
        lacking = lacking_keys(changed, [_method(method)[0] for method in methods])
        notes |= {f"algorithm.{key} is not for {', '.join(names)}: no such key": None for key, names in lacking.items()}
        first = check_table(Experiment, without_keys(changed, lacking), str(file)).seed
        chosen = range(first, first + seeds)
        values = {key: value_of(text) for key, text in swept.items()}
        own = str(changed.get("algorithm", {}).get("name"))
        for method in dict.fromkeys([own, *methods]):
            known = without_keys(changed, lacking) if method == own else changed
            runs = [_cached_run(file, known, method, seed) for seed in chosen]
            lines.append(ComparedMethod(method, values, runs))
    order = list(dict.fromkeys(line.method for line in lines))
    return ComparisonPlan(file, sorted(lines, key=lambda line: order.index(line.method)), chosen, list(notes))


def methods_in(text: str) -> list[str]:
    """Split a list of methods at its commas.

    Parameters
    ----------
    text : str
        Methods separated by commas. A method is a name with parameters, separated by colons.

    Returns
    -------
    list of str
        The methods.

    Examples
    --------
    >>> methods_in("solo,fedkt:partitions=1:subsets=2")
    ['solo', 'fedkt:partitions=1:subsets=2']
    """
    methods = [part.strip() for part in split_outside(text, ",")]
    if not all(methods):
        raise LimbeckError(f"--with {text}: write --with solo,pate,fedkt:partitions=1")
    return methods


def _combinations(over: Sequence[str]) -> Iterator[dict[str, str]]:
    keys, texts = [], []
    for each in over:
        key, equals, values = each.partition("=")
        parts = [part.strip() for part in split_outside(values, ",")]
        if not equals or not key.strip() or not all(parts):
            raise LimbeckError(f"--over {each}: write --over key.path=value,value, such as algorithm.partitions=1,2,3")
        if key.strip() == "seed":
            raise LimbeckError(
                "--over seed: every line runs at several seeds already; use --seeds N, or --set seed=FIRST"
            )
        if key.strip() in keys:
            raise LimbeckError(f"--over {key.strip()} occurs twice: put all its values into one")
        keys.append(key.strip())
        texts.append(list(dict.fromkeys(parts)))
    return (dict(zip(keys, chosen, strict=True)) for chosen in product(*texts))


def _cached_run(file: Path, table: dict[str, Any], method: str, seed: int) -> CachedRun:
    name, parameters = _method(method)
    other = [] if name == table.get("algorithm", {}).get("name") else [f"algorithm.name={name}"]
    changed, _ = override(table, [f"seed={seed}", *other])
    changed, _ = override(changed, [f"algorithm.{parameter}" for parameter in parameters])
    where = f"{file}, {method}" if other or parameters else str(file)
    experiment = check_table(Experiment, changed, where)
    if experiment.ledger or (experiment.noise_source == "secure" and experiment.algorithm.is_private):
        raise LimbeckError(
            f"{where}: a comparison has no ledger, so it cannot use secure noise: use --set noise=simulated, and "
            "remove `ledger` from the file"
        )
    return CachedRun(experiment, changed, file.parent)


def _method(method: str) -> tuple[str, list[str]]:
    """Name of a method, which may contain colons (`python:mine:Mine`), and its parameters."""
    parts = split_outside(method, ":")
    names = [part for part in parts if "=" not in part]
    if parts[: len(names)] != names or any(part.split("=")[0] in ("", "name") for part in parts[len(names) :]):
        raise LimbeckError(f"--with {method}: write a name, then its parameters, such as fedkt:partitions=1:subsets=2")
    return ":".join(names), parts[len(names) :]


def split_outside(text: str, mark: str) -> list[str]:
    """Split a text at a character, but not within quotes or brackets.

    Parameters
    ----------
    text : str
        The text.
    mark : str
        One character.

    Returns
    -------
    list of str
        The parts.

    Examples
    --------
    >>> split_outside("[1,2],'a,b',3", ",")
    ['[1,2]', "'a,b'", '3']
    """
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        else:
            depth += (character in OPENING) - (character in CLOSING)
        if character == mark and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
