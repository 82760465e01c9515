"""A cell: one configuration at one seed, known by its content, and what came of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from pydantic import TypeAdapter

from limbeck.data.content import content_of_file, content_of_set
from limbeck.data.draw import Draw, FromFile
from limbeck.data.splits import Split, Within
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import RunRecord, finite
from limbeck.imports import code_beside, is_own, name_of, source_of
from limbeck.protocol.learning import Model
from limbeck.tables import default_of

FORMAT = 4  # of cached results: raised when the same configuration would give another result


@dataclass(frozen=True)
class CachedRun:
    """An experiment to be run; `base` is where its paths start."""

    experiment: Experiment
    table: Mapping[str, Any]
    base: Path

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """All that decides the result. Parameters at their defaults are left out: they may be written or not."""
        experiment = self.experiment
        models = [experiment.model_of(party) for party in range(experiment.parties)]
        others = {str(party): model for party, model in enumerate(models) if model != experiment.model}
        configuration = {
            "format": FORMAT,
            "seed": experiment.seed,
            "data": self._data(),
            "model": dict(experiment.model.description),
            "parties": {party: dict(model.description) for party, model in others.items()},
            "server": dict(experiment.server_model.description),
            "algorithm": {"name": experiment.algorithm.name, **_chosen(experiment.algorithm)},
            "code": self._own_code([*models, experiment.server_model]),
        }
        if experiment.noise_source == "secure" and experiment.algorithm.is_private:
            configuration["noise"] = "secure"
        if experiment.training.precision != "float32":
            configuration["precision"] = experiment.training.precision
        return cast(dict[str, Any], json.loads(json.dumps(configuration, default=str)))

    @cached_property
    def key(self) -> str:
        return key_of(self.configuration)

    @property
    def rows_key(self) -> str:
        """Equal for cells whose parties hold the same rows."""
        return json.dumps([self.configuration["seed"], self.configuration["data"]], sort_keys=True)

    def _data(self) -> dict[str, Any]:
        data = self.experiment.data
        files = [*self.experiment.files, *filter(None, [data.path, data.schema_file])]
        several = [data.labels, *map(content_of_set, data.name)] if isinstance(data.name, list) else None
        drawn = {"public": data.public, "test": data.test}
        return {
            "name": data.name or (Path(data.path).name if data.path else None),
            "content": content_of_set(data.name) if isinstance(data.name, str) else several,
            "files": [content_of_file(self.base / file) for file in files],
            "label": data.label,
            "parties": self.experiment.parties,
            "split": _split(data.split),
            **{part: self._drawn(draw) for part, draw in drawn.items()},
        }

    def _drawn(self, draw: Draw | FromFile | None) -> Any:
        if isinstance(draw, FromFile):
            return content_of_file(self.base / draw.path)
        return draw and {**asdict(draw), "content": content_of_set(draw.name) if draw.name else None}

    def _own_code(self, models: list[Model]) -> dict[str, str]:
        """The user's own models and algorithm by what stands in the Python files of their folders."""
        names = {model.name for model in models} | {name_of(type(self.experiment.algorithm))}
        own = sorted(name for name in names if is_own(name) and not name.startswith("python:limbeck."))
        return {name: code_beside(source_of(name)) for name in own}


@dataclass(frozen=True, slots=True)
class CachedResult:
    """What came of a cell. `seconds` are its fits' on one core, whether it did them or shared another cell's."""

    configuration: Mapping[str, Any]
    metrics: Metrics | None
    constant: float | None
    rounds: int
    up: int
    down: int
    epsilon: Mapping[str, float | None]  # towards each observer; None is infinite
    delta: float
    seconds: float
    missing: list[int]
    versions: Mapping[str, str]
    curve: list[float] = field(default_factory=list)  # accuracy round by round, of all parties on average

    @property
    def key(self) -> str:
        return key_of(self.configuration)

    def to_json(self) -> str:
        return json.dumps({"key": self.key, **asdict(self)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, key: str, where: str) -> "CachedResult":
        """What stands in a file; `key` is the file's name."""
        try:
            table = json.loads(text)
            stored_key = table.pop("key")
            result = _adapter().validate_json(json.dumps(table), strict=True, extra="forbid")
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise LimbeckError(f"{where} is not a kept result; delete it, and its cell is run again") from error
        if not stored_key == key == result.key:
            raise LimbeckError(f"{where} holds another configuration than its name says; delete it")
        return result


@cache
def _adapter() -> TypeAdapter[CachedResult]:
    return TypeAdapter(CachedResult)


def cached_result(cached: CachedRun, record: RunRecord, seconds: float) -> CachedResult:
    return CachedResult(
        configuration=cached.configuration,
        metrics=record.metrics,
        constant=record.constant,
        rounds=record.rounds,
        up=record.bytes["up"],
        down=record.bytes["down"],
        epsilon=finite(dict(record.epsilon)),
        delta=record.delta,
        seconds=seconds,
        missing=list(record.missing),
        versions=dict(record.versions),
        curve=_curve(record),
    )


def _curve(record: RunRecord) -> list[float]:
    """Accuracy round by round: of the network that all train, or the parties' mean; none where it is but one."""
    heights = []
    for point in record.curve:
        values = [point["server"]] if "server" in point else [each for each in point["accuracy"] if each is not None]
        heights.append(fmean(values))
    return heights if len(heights) > 1 else []


def key_of(configuration: Mapping[str, Any]) -> str:
    """The content key of a cell."""
    return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()


def _chosen(parameters: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    values = {part: getattr(parameters, part.name) for part in fields(parameters)}
    chosen = {part.name: value for part, value in values.items() if value != default_of(part)}
    return {name: _chosen(value) if is_dataclass(value) else value for name, value in chosen.items()}


def _split(split: Split) -> dict[str, Any]:
    if isinstance(split, Within):
        return {"within": split.group, **_split(split.split)}
    return {"kind": split.kind, **_chosen(split)}
