"""What is compared: methods and swept values, each at every seed, as lines of cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.experiments.cached_runs import CachedRun
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.overrides import override, value_of

OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A line of the table: one method with the swept values, one cell a seed."""

    method: str
    swept: Mapping[str, Any]
    runs: Sequence[CachedRun]


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """All lines; every cell was checked, none has run."""

    file: Path
    lines: Sequence[ComparedMethod]
    seeds: Sequence[int]

    @property
    def runs(self) -> dict[str, CachedRun]:
        """Each cell once, by its key."""
        return {cached.key: cached for line in self.lines for cached in line.runs}

    @property
    def swept(self) -> list[str]:
        return list(self.lines[0].swept)


def plan(
    file: Path, methods: Sequence[str] = (), over: Sequence[str] = (), seeds: int = 5, settings: Sequence[str] = ()
) -> ComparisonPlan:
    """The file's own method and those beside it, on the same rows, for every combination of swept values."""
    if seeds < 1:
        raise LimbeckError(f"--seeds {seeds}: at least one seed is needed")
    table, _ = override(read_toml(file), settings)
    first = check_table(Experiment, table, str(file)).seed
    chosen = range(first, first + seeds)
    lines = []
    for swept in _combinations(over):
        changed, _ = override(table, [f"{key}={text}" for key, text in swept.items()])
        values = {key: value_of(text) for key, text in swept.items()}
        own = str(changed.get("algorithm", {}).get("name"))
        for method in dict.fromkeys([own, *methods]):
            runs = [_cached_run(file, changed, method, seed) for seed in chosen]
            lines.append(ComparedMethod(method, values, runs))
    order = list(dict.fromkeys(line.method for line in lines))
    return ComparisonPlan(file, sorted(lines, key=lambda line: order.index(line.method)), chosen)


def methods_in(text: str) -> list[str]:
    """`solo,fedkt:partitions=1:subsets=2`: methods with commas, their parameters with colons between them."""
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
            raise LimbeckError("--over seed: every line is run over seeds already; say --seeds N, or --set seed=FIRST")
        if key.strip() in keys:
            raise LimbeckError(f"--over {key.strip()} stands twice: put all its values into one")
        keys.append(key.strip())
        texts.append(list(dict.fromkeys(parts)))
    return (dict(zip(keys, chosen, strict=True)) for chosen in product(*texts))


def _cached_run(file: Path, table: dict[str, Any], method: str, seed: int) -> CachedRun:
    name, parameters = _method(method)
    other = [] if name == table.get("algorithm", {}).get("name") else [f"algorithm.name={name}"]
    changed, _ = override(table, [f"seed={seed}", *other])
    changed, _ = override(changed, [f"algorithm.{parameter}" for parameter in parameters])
    where = str(file) if method == name else f"{file}, {method}"
    experiment = check_table(Experiment, changed, where)
    if experiment.ledger or (experiment.noise_source == "secure" and experiment.algorithm.is_private):
        raise LimbeckError(
            f"{where}: a comparison keeps no ledger, so that it must not touch real noise: --set noise=simulated, and "
            "take `ledger` out of the file"
        )
    return CachedRun(experiment, changed, file.parent)


def _method(method: str) -> tuple[str, list[str]]:
    """A method's name, which may hold colons of its own (`python:mine:Mine`), and its parameters."""
    parts = split_outside(method, ":")
    names = [part for part in parts if "=" not in part]
    if parts[: len(names)] != names or any(part.split("=")[0] in ("", "name") for part in parts[len(names) :]):
        raise LimbeckError(f"--with {method}: write a name, then its parameters, such as fedkt:partitions=1:subsets=2")
    return ":".join(names), parts[len(names) :]


def split_outside(text: str, mark: str) -> list[str]:
    """Split at a mark, but not within quotes or brackets."""
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
