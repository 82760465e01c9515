"""Run records: everything that is needed to assess a run and to repeat it.

The record of a real run has only public facts, released values, and what is computed from them, so it may be shared.
Everything else is in the owner's record, for those who hold the rows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from limbeck.engines.engine import Engine
from limbeck.errors import LimbeckError
from limbeck.experiments.metrics import HEADLINES, Metrics
from limbeck.privacy.guarantees import delta_of_subsets, epsilon_by_observer, guarantees
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.release import Release
from limbeck.protocol.task import Kind, Task
from limbeck.versions import versions

FORMAT = 2
SERVER = "server"
NAMES = (  # of metrics that every summary has
    *("accuracy", "balanced_accuracy", "roc_auc", "pr_auc", "f1"),
    *("sensitivity", "specificity", "brier", "calibration_error"),
)


@dataclass(frozen=True, slots=True)
class PartyRecord:
    """One party in a record. What is unknown or withheld is None or empty.

    Parameters
    ----------
    index : int
        Number of the party.
    rows : int or None
        Number of private rows.
    classes : sequence of int
        Rows of each class.
    model : mapping
        Description of the model; the name of the party in a run between organisations.
    bytes : mapping
        Bytes of its messages: "up" to the server, "down" from it.
    metrics : Metrics or None
        Metrics of the party's own model, if it ends with one.
    name : str, optional
        Name of the party.
    tested : int or None
        Number of test rows of the party's own.
    own_test : Metrics or None
        Metrics on these rows: of the final model, or of the party's own if there is none.
    """

    index: int
    rows: int | None
    classes: Sequence[int]
    model: Mapping[str, Any]
    bytes: Mapping[str, Any]
    metrics: Metrics | None
    name: str | None = None
    tested: int | None = 0
    own_test: Metrics | None = None

    def headline(self, task: Kind) -> float | None:
        """Return the metric of the party's own model by which runs of a task are compared."""
        return self.metrics.headline(task) if self.metrics else None


@dataclass(frozen=True, slots=True)
class Record:
    """Base class of records, which are stored as JSON."""

    def to_json(self) -> str:
        """Text of the record's file."""
        return json.dumps(finite(asdict(self)), indent=2, allow_nan=False, default=str) + "\n"


@dataclass(frozen=True, slots=True, repr=False)
class RunRecord(Record):
    """Record of a finished run. Two runs of the same experiment differ only in `timing`.

    Parameters
    ----------
    algorithm : str
        Name of the algorithm.
    seed : int
        Seed of the experiment.
    config : mapping
        The experiment as a TOML table.
    data : mapping
        Classes, numbers of rows, and hash of the public rows.
    parties : sequence of PartyRecord
        One record for each party.
    rounds : int
        Number of rounds.
    bytes : mapping
        Total bytes "up" to the server and "down" from it.
    exchanges : sequence of mapping
        Request, bytes and silent parties of each exchange.
    missing : sequence of int
        Parties that were silent at least once.
    ledger : sequence of mapping
        All releases.
    epsilon : mapping of str to float
        Epsilon towards each observer, for a person with at most `rows_per_person` rows.
    delta : float
        Delta of epsilon.
    privacy : sequence of mapping
        All guarantees.
    noise : {"secure", "simulated"}
        Noise of private releases.
    metrics : Metrics or None
        Metrics of the final model.
    constant : float or None
        Accuracy of the constant predictor.
    versions : mapping of str to str
        Versions of Limbeck, Python and the libraries.
    timing : mapping
        What depends on the clock or the machine; the run's random identifier (`run`) and `date` of its start in UTC,
        which a resumed run keeps.
    remarks : sequence of str
        Deviations from the plan.
    figures : mapping of str to float
        Figures that the algorithm computed.
    curve : sequence of mapping
        Accuracy of each party's own model after each exchange that changed one; or accuracy of the global model
        (`server`) before the first round and after each round.
    bounds : mapping
        What each party's model would reach with the rows of all parties.
    rows_per_person : int
        Largest number of rows of one person.
    real : bool
        Whether the run is real; what is withheld is then None.
    amends : mapping
        Between organisations, of a run that repeats another with or without a party: the `run`, the party that was
        `added` or `removed`, and epsilon towards each observer over all runs that count the same replies
        (`epsilon_of_others`, `epsilon_of_party`).
    format : int
        Version of the format.
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
    amends: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __repr__(self) -> str:
        from limbeck.experiments.brief import facts_of, line_of

        return line_of("RunRecord", facts_of(self, self.metrics))

    def _repr_html_(self) -> str:
        from limbeck.experiments.brief import facts_of, html_of

        return html_of(f"Record of a run, seed {self.seed}", facts_of(self, self.metrics))

    @property
    def worst_epsilon(self) -> float:
        """Largest epsilon towards any observer; 0 if nothing was released."""
        return max(self.epsilon.values(), default=0.0)

    @property
    def task(self) -> Kind:
        """Kind of the labels."""
        return self.data.get("task", "multiclass")  # type: ignore[no-any-return]

    @property
    def _numbers(self) -> tuple[str, ...]:
        return {"multilabel": ("class_auc",), "regression": HEADLINES["regression"]}.get(self.task, ())

    def summary(self, folder: str | None) -> dict[str, Any]:
        """Output of `--json`; None for what is withheld or does not exist."""
        return {
            "algorithm": self.algorithm,
            **{name: self.metrics and getattr(self.metrics, name) for name in (*NAMES, *self._numbers)},
            "constant": self.constant,
            "parties": [
                {
                    "index": party.index,
                    "rows": party.rows,
                    "model": party.model["name"],
                    HEADLINES[self.task][0]: party.headline(self.task),
                    **({"tested": party.tested, "own_test": asdict(party.own_test)} if party.own_test else {}),
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


@dataclass(frozen=True, slots=True, repr=False)
class OwnerRecord(Record):
    """What the record of a real run withholds, only for those who hold the rows.

    All fields but `private` and `remarks` are as in a record from which nothing is withheld.

    Parameters
    ----------
    private : int or None
        Number of all private rows.
    parties : sequence of PartyRecord
        One record for each party.
    bytes : mapping
        Total bytes "up" to the server and "down" from it.
    exchanges : sequence of mapping
        Request, bytes and silent parties of each exchange.
    metrics : Metrics or None
        Metrics of the final model.
    constant : float or None
        Accuracy of the constant predictor.
    curve : sequence of mapping
        Learning curve.
    timing : mapping
        Duration of the run and its phases.
    remarks : sequence of str
        What parties wrote to the server, and what went wrong.
    format : int
        Version of the format.
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

    def __repr__(self) -> str:
        return f"<OwnerRecord: {len(self.parties)} parties, {self.private} private rows>"


def record_of(
    algorithm: Algorithm,
    engine: Engine,
    outcome: Outcome,
    releases: Sequence[Release],
    parties: Sequence[PartyRecord],
    from_elsewhere: bool = False,
    **details: Any,
) -> RunRecord:
    """Make the full record of a run under any engine.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    engine : Engine
        The engine that ran it.
    outcome : Outcome
        Result of the algorithm.
    releases : sequence of Release
        All ledger rows.
    parties : sequence of PartyRecord
        One record for each party.
    from_elsewhere : bool
        Whether ledger rows come from other organisations. If they contradict each other, a remark says so, and the
        record has no epsilon.
    **details : Any
        Other fields of the record, which depend on where the rows are.

    Returns
    -------
    RunRecord
        A record from which nothing is withheld.
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


def task_facts(task: Task) -> dict[str, Any]:
    """What a record says about the labels, unless each row has one class."""
    if task.is_multiclass:
        return {}
    return {"task": task.kind, **({"range": [task.low, task.high]} if task.kind == "regression" else {})}


def delta_of(algorithm: Algorithm, releases: Sequence[Release]) -> float:
    """Delta of a run: the algorithm's, and at least that of the random subsets that parties train on."""
    return max(algorithm.effective_delta, delta_of_subsets(releases, algorithm.rows_per_person))


def owner_part(record: RunRecord, remarks: Sequence[str] = ()) -> OwnerRecord:
    """What `published` withholds from a full record."""
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
    """Record without anything that depends on private rows other than through a mechanism.

    The size of an unprotected message is withheld. The total is then withheld too, because it would reveal the size.

    Parameters
    ----------
    record : RunRecord
        Full record.
    tests_private_rows : bool
        Whether test rows are private; their number and the metrics are then withheld.

    Returns
    -------
    RunRecord
        Record that may be shared.
    """
    unknown: dict[str, Any] = {"rows": None, "classes": (), "metrics": None, "tested": None, "own_test": None}
    turns = _unprotected_turns(record.ledger, len(record.exchanges))
    hidden = {way: bool(turns[way] & set(range(len(record.exchanges)))) for way in turns}
    return replace(
        record,
        data={**record.data, "private": None, **({"test": None} if tests_private_rows else {})},
        parties=[replace(party, **unknown, bytes=_without(party.bytes, hidden)) for party in record.parties],
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
    """Turns in which something may have left unprotected: up from a party, or down from the server.

    A party writes its ledger rows before it trains. The values that they announce may therefore leave in a later turn.
    """
    rows = [row for row in ledger if row["mechanism"] == "unprotected"]
    first = min((row["turn"] for row in rows if row["site"] != SERVER), default=turns)
    return {
        "up": set(range(first, turns)),
        "down": {row["turn"] for row in rows if row["site"] == SERVER},
    }


def _ends_protected(record: RunRecord) -> bool:
    """Whether the run ends with one model that is post-processing of protected releases."""
    own = any(party.metrics for party in record.parties)
    return not own and not any(row["site"] == SERVER and row["mechanism"] == "unprotected" for row in record.ledger)


def _without(sizes: Mapping[str, Any], hidden: Mapping[str, bool]) -> dict[str, Any]:
    return {key: None if hidden.get(key) else value for key, value in sizes.items()}


def finite(value: Any) -> Any:
    """Replace infinity and NaN by None, because JSON has neither.

    Parameters
    ----------
    value : Any
        A value for JSON.

    Returns
    -------
    Any
        A copy.

    Examples
    --------
    >>> finite({"epsilon": math.inf, "delta": 1e-5})
    {'epsilon': None, 'delta': 1e-05}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
