"""The run record: everything that is needed to judge a run and to run it again.

The record of a real run holds public facts, released values and what is computed from them alone, so that it can be
passed on. Everything else stands in the owner's record, for those who hold the rows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any

from limbeck._version import __version__
from limbeck.engines.engine import Engine
from limbeck.errors import LimbeckError
from limbeck.experiments.metrics import Metrics
from limbeck.privacy.guarantees import delta_of_subsets, epsilon_by_observer, guarantees
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.release import Release

FORMAT = 2
VERSIONED = ("numpy", "scikit-learn", "onnx", "onnxruntime", "skl2onnx", "xgboost", "xgboost-cpu", "lightgbm", "torch")
SERVER = "server"


@dataclass(frozen=True, slots=True)
class PartyRecord:
    """One party: `classes` counts its rows of each class; `metrics` are there where it ends with its own model.

    `rows` and `metrics` are None, `classes` is empty and `bytes` hold None where they are unknown or withheld. Of a
    party elsewhere the model is unknown: the party's name takes its place.
    """

    index: int
    rows: int | None
    classes: Sequence[int]
    model: Mapping[str, Any]
    bytes: Mapping[str, Any]
    metrics: Metrics | None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a run, as JSON."""

    def to_json(self) -> str:
        return json.dumps(finite(asdict(self)), indent=2, allow_nan=False, default=str) + "\n"


@dataclass(frozen=True, slots=True)
class RunRecord(Record):
    """A finished run. All that differs between two runs of one experiment is in `timing`.

    That is what depends on the clock or the machine, the run's random identifier (`run`), and the `date` on which it
    started (UTC); a resumed run keeps both.

    `curve` has the accuracy of each party's own model after each exchange that changed one, or of the network that all
    train (`server`) before the first round and after each, `bounds` what the models would reach otherwise; `remarks`
    are deviations from the plan, `figures` what the algorithm computed. Epsilon is for a person with at most
    `rows_per_person` rows. Of a `real` run None stands for what is withheld.
    """

    algorithm: str
    seed: int
    config: Mapping[str, Any]
    data: Mapping[str, Any]
    parties: Sequence[PartyRecord]
    rounds: int
    bytes: Mapping[str, Any]
    exchanges: Sequence[Mapping[str, Any]]
    missing: Sequence[int]
    ledger: Sequence[Mapping[str, Any]]
    epsilon: Mapping[str, float]
    delta: float
    privacy: Sequence[Mapping[str, Any]]
    noise: str
    metrics: Metrics | None
    constant: float | None
    versions: Mapping[str, str]
    timing: Mapping[str, Any]
    remarks: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[Mapping[str, Any]] = ()
    bounds: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    rows_per_person: int = 1
    real: bool = False
    format: int = FORMAT

    @property
    def worst_epsilon(self) -> float:
        """Epsilon towards whoever sees most; 0 when nobody sees anything."""
        return max(self.epsilon.values(), default=0.0)

    def summary(self, folder: str | None) -> dict[str, Any]:
        """What `--json` prints; None is what is withheld, or does not exist."""
        return {
            "algorithm": self.algorithm,
            "accuracy": self.metrics and self.metrics.accuracy,
            "balanced_accuracy": self.metrics and self.metrics.balanced_accuracy,
            "roc_auc": self.metrics and self.metrics.roc_auc,
            "constant": self.constant,
            "parties": [
                {
                    "index": party.index,
                    "rows": party.rows,
                    "model": party.model["name"],
                    "accuracy": party.metrics and party.metrics.accuracy,
                }
                for party in self.parties
            ],
            "missing": list(self.missing),
            "bytes": dict(self.bytes),
            "rounds": self.rounds,
            "seconds": self.timing.get("seconds"),
            "epsilon": finite(self.worst_epsilon),
            "delta": self.delta,
            "rows_per_person": self.rows_per_person,
            "run": folder,
        }


@dataclass(frozen=True, slots=True)
class OwnerRecord(Record):
    """What a real run's record withholds: for those who hold the rows, and for nobody else.

    `private` is the number of all private rows; `parties`, `bytes`, `exchanges`, `metrics`, `constant`, `curve` and
    `timing` are as in a record from which nothing is withheld. `remarks` are what parties wrote to the server.
    """

    private: int | None
    parties: Sequence[PartyRecord]
    bytes: Mapping[str, Any]
    exchanges: Sequence[Mapping[str, Any]]
    metrics: Metrics | None
    constant: float | None
    curve: Sequence[Mapping[str, Any]]
    timing: Mapping[str, Any]
    remarks: Sequence[str] = ()
    format: int = FORMAT


def record_of(
    algorithm: Algorithm,
    engine: Engine,
    outcome: Outcome,
    releases: Sequence[Release],
    parties: Sequence[PartyRecord],
    from_elsewhere: bool = False,
    **details: Any,
) -> RunRecord:
    """The whole record of a run under any engine; `details` are the fields that depend on where its rows lie.

    Ledger rows that come `from_elsewhere` may not go together: then the record says so, and has no epsilon.
    """
    traffic, is_real = engine.traffic, algorithm.is_private and (from_elsewhere or details["noise"] == "secure")
    remarks = (*outcome.remarks, *([] if is_real else engine.rejections))
    try:
        delta = delta_of(algorithm, releases)
        found = guarantees(releases, delta, algorithm.rows_per_person)
    except (LimbeckError, ArithmeticError, TypeError, ValueError) as error:
        if not from_elsewhere:
            raise
        remarks = (*remarks, f"no epsilon can be computed from the parties' ledger rows: {error}")
        delta, found = algorithm.effective_delta, []
    return RunRecord(
        algorithm=algorithm.name,
        parties=parties,
        rounds=traffic.rounds,
        bytes={"up": traffic.up(), "down": traffic.down()},
        exchanges=[{"request": e.request, "up": e.up, "down": e.down, "missing": e.missing} for e in traffic.exchanges],
        missing=traffic.missing,
        ledger=[asdict(row) for row in releases],
        epsilon=epsilon_by_observer(found),
        delta=delta,
        privacy=[asdict(each) for each in found],
        versions=versions(),
        remarks=remarks,
        figures=outcome.figures,
        rows_per_person=algorithm.rows_per_person,
        **details,
    )


def delta_of(algorithm: Algorithm, releases: Sequence[Release]) -> float:
    """The algorithm's delta, and never less than that of the subsets that parties learn from."""
    return max(algorithm.effective_delta, delta_of_subsets(releases, algorithm.rows_per_person))


def owner_part(record: RunRecord, remarks: Sequence[str] = ()) -> OwnerRecord:
    """What `published` leaves out of a whole record."""
    return OwnerRecord(
        private=record.data["private"],
        parties=record.parties,
        bytes=record.bytes,
        exchanges=record.exchanges,
        metrics=record.metrics,
        constant=record.constant,
        curve=record.curve,
        timing=record.timing,
        remarks=remarks,
    )


def published(record: RunRecord, tests_private_rows: bool = False) -> RunRecord:
    """A whole record without what depends on private rows other than through a mechanism.

    The size of a message that left unprotected is withheld, and then the total is too: a sum would give it away. Where
    the test rows are private ones, so are the metrics on them and their number.
    """
    turns = _unprotected_turns(record.ledger, len(record.exchanges))
    hidden = {way: bool(turns[way] & set(range(len(record.exchanges)))) for way in turns}
    return replace(
        record,
        data={**record.data, "private": None, **({"test": None} if tests_private_rows else {})},
        parties=[
            replace(party, rows=None, classes=(), metrics=None, bytes=_without(party.bytes, hidden))
            for party in record.parties
        ],
        bytes=_without(record.bytes, hidden),
        exchanges=[
            _without(exchange, {way: turn in turns[way] for way in turns})
            for turn, exchange in enumerate(record.exchanges)
        ],
        metrics=record.metrics if _ends_protected(record) and not tests_private_rows else None,
        constant=None,
        curve=(),
        timing={key: record.timing.get(key) for key in ("engine", "run", "date")},
        real=True,
    )


def _unprotected_turns(ledger: Sequence[Mapping[str, Any]], turns: int) -> dict[str, set[int]]:
    """The turns in which something may have left unprotected: up from a party, or down from the server.

    A party's rows are written before it trains, so that what they announce may leave in any later turn.
    """
    rows = [row for row in ledger if row["mechanism"] == "unprotected"]
    first = min((row["turn"] for row in rows if row["site"] != SERVER), default=turns)
    return {
        "up": set(range(first, turns)),
        "down": {row["turn"] for row in rows if row["site"] == SERVER},
    }


def _ends_protected(record: RunRecord) -> bool:
    """Whether the run ends with one model that is post-processing of what was released with protection."""
    own = any(party.metrics for party in record.parties)
    return not own and not any(row["site"] == SERVER and row["mechanism"] == "unprotected" for row in record.ledger)


def _without(sizes: Mapping[str, Any], hidden: Mapping[str, bool]) -> dict[str, Any]:
    return {key: None if hidden.get(key) else value for key, value in sizes.items()}


def versions() -> dict[str, str]:
    """Limbeck, Python and the libraries that decide results, as they are installed here."""
    found = {"limbeck": __version__, "python": python_version()}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def finite(value: Any) -> Any:
    """The same for JSON, which has no infinity: None stands for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
