"""What the table of an experiment file says, before libraries are imported, which takes a second."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError, reading

FORESTS = {"random-forest", "extra-trees"}
NETWORKS = {"cnn", "torch-mlp", "vgg-9", "resnet-8", "conv-net", "text-cnn", "bag-of-embeddings"}
DEFAULT_MODEL = "random-forest"


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an error names the file."""
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LimbeckError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise LimbeckError(f"{path} is not TOML: its tables are nested too deeply") from error


def headline(file: Path, table: Mapping[str, Any]) -> str:
    """One line about what a run will do. The table is not checked yet, so anything may be missing or wrong.

    Parameters
    ----------
    file : Path
        The experiment file.
    table : mapping
        Its table.

    Returns
    -------
    str
        The file, the method, the rows, and the models.

    Examples
    --------
    >>> headline(Path("my.toml"), {"data": {"name": "digits", "parties": 3}, "algorithm": {"name": "fedvote"}})
    'my.toml: fedvote on digits, 3 parties, random-forest'
    """
    data = _table(table, "data")
    files = [party for party in _parties(table) if "data" in party]
    rows = data.get("name") or data.get("path") or "files of the parties"
    count = len(files) or data.get("parties")
    parties = f", {count} parties" if count else ""
    method = _table(table, "algorithm").get("name", "a method that suits it")
    models = "".join(f", {names}" for names in [" and ".join(dict.fromkeys(models_in(table)))] if names)
    line = f"{file}: {method} on {rows}{parties}{models}"
    return "".join(each if each.isprintable() else "?" for each in line)


def models_in(table: Mapping[str, Any]) -> list[str]:
    """Names of all models in the table of an experiment file."""
    own = [party["model"] for party in _parties(table) if "model" in party]
    given = [table.get("model", {}), *own, *([table["server"].get("model")] if _table(table, "server") else [])]
    return [str(model.get("name", DEFAULT_MODEL)) for model in given if isinstance(model, Mapping)]


def has_only_forests(table: Mapping[str, Any]) -> bool:
    """Whether all models in the table of an experiment file are forests."""
    return set(models_in(table)) <= FORESTS


def has_networks(table: Mapping[str, Any]) -> bool:
    """Whether a model in the table of an experiment file is one of Limbeck's networks."""
    return not NETWORKS.isdisjoint(models_in(table))


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key)
    return found if isinstance(found, Mapping) else {}


def _parties(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = table.get("party")
    return [party for party in found if isinstance(party, Mapping)] if isinstance(found, list) else []
