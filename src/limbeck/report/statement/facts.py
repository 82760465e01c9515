"""Which run a privacy statement is about: when, with which data, and who took part."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from limbeck.algorithms.evaluation import COUNTS
from limbeck.experiments.record import RunRecord
from limbeck.report.statement.words import NETWORK, count, listed, table

MAX_NAMES_LISTED = 30  # of parties or classes; more are counted only


def facts(record: RunRecord) -> str:
    """Return the facts of a run as a table; all of them are public."""
    data = record.data
    lines = [
        ["Method", f"`{record.algorithm}`"],
        ["Run identifier", f"`{run}`" if (run := record.timing.get("run")) else "none: the run kept no ledger"],
        ["Date of the run", f"{record.timing.get('date') or 'unknown'} (UTC, start of the run)"],
        ["Where it ran", _place(record)],
        ["Parties", _parties(record)],
        ["Private rows", f"{_private_source(record.config)}. No hash is given: it would itself reveal something"],
        ["Public rows", _public_rows(record)],
        ["Test rows", _own_test_rows(record) or _test_rows(data["test"])],
        _labels(data),
        ["Software", f"Limbeck {record.versions['limbeck']}, Python {record.versions['python']}"],
    ]
    if record.missing:
        silent = listed([_name(record, party) for party in record.missing])
        lines.insert(5, ["Did not answer at least once", silent])
    if evaluated := record.config.get("evaluates"):
        lines.insert(1, ["Evaluates", f"the model of `{evaluated}`. What that run revealed comes in addition"])
    if amends := record.amends:
        change = f"without {amends['removed']}" if "removed" in amends else f"with {amends['added']}"
        lines.insert(2, ["Repeats", f"the run `{amends['run']}`, {change}; the replies of the others are copies"])
    return table(["Fact", "Value"], lines)


def _place(record: RunRecord) -> str:
    if record.timing.get("engine") == NETWORK:
        return "over a network: each party computed at its own site, and the server at another"
    return "in one program on one machine. Whoever ran this program had access to the rows of all parties"


def _name(record: RunRecord, party: int) -> str:
    known = next((each.name for each in record.parties if each.index == party), None)
    return known or f"party {party}"


def _parties(record: RunRecord) -> str:
    number = count(len(record.parties), "party", "parties")
    if not any(party.name for party in record.parties):
        return f"{number}, numbered from 0, without names"
    return f"{number}: {_some([_name(record, party.index) for party in record.parties])}"


def _private_source(config: Mapping[str, Any]) -> str:
    """Return the names of the private data sets, as far as the configuration knows them."""
    data = config.get("data", {})
    own = sorted({PurePath(str(party["data"])).name for party in config.get("party", []) if party.get("data")})
    if own:
        return f"files of the parties: {_some(own)}"
    if name := data.get("name") or (data.get("path") and PurePath(str(data["path"])).name):
        return f"data set `{name}`" if isinstance(name, str) else f"data sets {listed([f'`{each}`' for each in name])}"
    return "held by the parties; the run's configuration names no data set"


def _public_rows(record: RunRecord) -> str:
    if not record.data["public"]:
        return "none"
    return f"{count(record.data['public'], 'row')}{_public_source(record.config)}, hash `{record.data['public_hash']}`"


def _public_source(config: Mapping[str, Any]) -> str:
    data = config.get("data", {})
    public = data.get("public")
    if isinstance(public, str):
        return f" of the file `{PurePath(public).name}`"
    if isinstance(public, Mapping):
        if path := public.get("path"):
            return f" of the file `{PurePath(str(path)).name}`"
        if name := public.get("name"):
            return f" of the data set `{name}`"
        return " of the official test rows of the same data set"
    return "" if public is None else " drawn from the same data set as the private rows"


def _own_test_rows(record: RunRecord) -> str:
    """Return whose they are if parties counted test rows of their own; these take the place of their private rows."""
    counted = any(row["what"] == COUNTS for row in record.ledger)
    return "the parties' own. In this run the private rows are these" if counted else ""


def _test_rows(rows: int | None) -> str:
    if rows is None:
        return "taken from the private file; their number is withheld"
    return f"{count(rows, 'row')}, used only to measure how good the models are" if rows else "none"


def _some(names: Sequence[str]) -> str:
    if len(names) > MAX_NAMES_LISTED:
        return f"{', '.join(names[:MAX_NAMES_LISTED])} and {len(names) - MAX_NAMES_LISTED} more"
    return ", ".join(names)


def _labels(data: Mapping[str, Any]) -> list[str]:
    """The line about the labels: classes, several labels a row, or a number with its range."""
    names = _some([str(name) for name in data["classes"]])
    if data.get("task") == "regression":
        low, high = data["range"]
        return ["Target", f"{names}, a number from {low:g} to {high:g}; numbers outside count as the nearest of these"]
    return ["Classes", names + ("; a row may have several" if data.get("task") == "multilabel" else "")]
