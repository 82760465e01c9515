"""The run record: everything that is needed to judge a run and to run it again."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any

from limbeck._version import __version__
from limbeck.experiments.metrics import Metrics

FORMAT = 1
VERSIONED = ("numpy", "scikit-learn", "onnx", "onnxruntime", "skl2onnx", "xgboost", "xgboost-cpu", "lightgbm", "torch")


@dataclass(frozen=True, slots=True)
class PartyRecord:
    """One party: `classes` counts its rows of each class; `metrics` are there where it ends with its own model.

    Of a party elsewhere nobody knows how many rows it has; its `model` is its name.
    """

    index: int
    rows: int | None
    classes: Sequence[int]
    model: Mapping[str, Any]
    bytes: Mapping[str, int]
    metrics: Metrics | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A finished run. All that depends on the clock or the machine's width is in `timing`.

    `curve` has the accuracy of each party's own model after each exchange that changed one, or of the network that all
    train (`server`) before the first round and after each, `bounds` what the models would reach otherwise; `remarks`
    tell what went otherwise than planned, `figures` what the algorithm reckoned.
    """

    algorithm: str
    seed: int
    config: Mapping[str, Any]
    data: Mapping[str, Any]
    parties: Sequence[PartyRecord]
    rounds: int
    bytes: Mapping[str, int]
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
    format: int = FORMAT

    @property
    def worst_epsilon(self) -> float:
        """Epsilon towards whoever sees most; 0 when nobody sees anything."""
        return max(self.epsilon.values(), default=0.0)

    def to_json(self) -> str:
        return json.dumps(finite(asdict(self)), indent=2, allow_nan=False, default=str) + "\n"

    def summary(self, folder: str | None) -> dict[str, Any]:
        """What `--json` prints."""
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
            "seconds": self.timing["seconds"],
            "epsilon": finite(self.worst_epsilon),
            "delta": self.delta,
            "run": folder,
        }


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
