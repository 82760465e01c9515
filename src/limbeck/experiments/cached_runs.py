"""Cached runs of a comparison: one configuration at one seed, identified by its content, and the result."""

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
from limbeck.features.sentences import rule_of_texts
from limbeck.features.settings import network_digest
from limbeck.imports import code_beside, is_own, name_of, source_of
from limbeck.protocol.learning import Model
from limbeck.protocol.task import Kind
from limbeck.tables import default_of

FORMAT = 6  # of cached results: increased when the same configuration gives a different result


@dataclass(frozen=True)
class CachedRun:
    """An experiment of a comparison.

    Parameters
    ----------
    experiment : Experiment
        The checked experiment.
    table : mapping
        The TOML table that it comes from.
    base : Path
        Folder that the experiment's paths are relative to.
    """

    experiment: Experiment
    table: Mapping[str, Any]
    base: Path

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Everything that determines the result, as JSON. Parameters with default values are left out."""
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
        if network := network_digest(experiment.algorithm, experiment.features, self.base):
            configuration["network"] = network
        if experiment.features:
            configuration["features"] = _chosen(experiment.features) | {"kind": experiment.features.kind}
        if experiment.training.precision != "float32":
            configuration["precision"] = experiment.training.precision
        return cast(dict[str, Any], json.loads(json.dumps(configuration, default=str)))

    @cached_property
    def key(self) -> str:
        """Content key of the run."""
        return key_of(self.configuration)

    @property
    def rows_key(self) -> str:
        """Key that is equal for runs whose parties hold the same rows, mapped to the same features."""
        found = self.configuration
        mapped = [found.get("features"), found.get("network")] if self.experiment.features else []
        return json.dumps([found["seed"], found["data"], *mapped], sort_keys=True)

    def _data(self) -> dict[str, Any]:
        data = self.experiment.data
        files = [*self.experiment.files, *filter(None, [data.path, data.schema_file])]
        several = [data.labels, *map(content_of_set, data.name)] if isinstance(data.name, list) else None
        tested = self.experiment.test_files
        drawn = {"public": data.public, "test": data.test}
        return {
            "name": data.name or (Path(data.path).name if data.path else None),
            "content": content_of_set(data.name) if isinstance(data.name, str) else several,
            "files": [content_of_file(self.base / file) for file in files],
            **({"tests": [path and content_of_file(self.base / path) for path in tested]} if tested else {}),
            "label": data.label,
            **({"task": data.task} if data.task else {}),
            **({"range": data.limits} if data.limits else {}),
            "parties": self.experiment.parties,
            "split": _split(data.split),
            **{part: self._drawn(draw) for part, draw in drawn.items()},
            **self._texts(),
        }

    def _texts(self) -> dict[str, Any]:
        """Rule of the texts, if the experiment says any."""
        text = self.experiment.data.text
        rule = rule_of_texts(text, self.experiment.algorithm, self.experiment.features, self.base)
        return {"text": {"column": text.column if text else "", **rule.facts}} if rule else {}

    def _drawn(self, draw: Draw | FromFile | None) -> Any:
        if isinstance(draw, FromFile):
            return content_of_file(self.base / draw.path)
        return draw and {**asdict(draw), "content": content_of_set(draw.name) if draw.name else None}

    def _own_code(self, models: list[Model]) -> dict[str, str]:
        """Digests of the Python files in the folders of the user's own models and algorithm."""
        names = {model.name for model in models} | {name_of(type(self.experiment.algorithm))}
        own = sorted(name for name in names if is_own(name) and not name.startswith("python:limbeck."))
        return {name: code_beside(source_of(name)) for name in own}


@dataclass(frozen=True, slots=True)
class CachedResult:
    """Result of a cached run.

    Parameters
    ----------
    configuration : mapping
        Everything that determines the result.
    metrics : Metrics or None
        Metrics of the final model, or the parties' mean.
    constant : float or None
        Accuracy of the constant predictor.
    rounds : int
        Number of rounds.
    up : int
        Bytes from the parties to the server.
    down : int
        Bytes from the server to the parties.
    epsilon : mapping of str to float or None
        Epsilon towards each observer; None if it is infinite.
    delta : float
        Delta of epsilon.
    seconds : float
        Training time on one core, including fits whose results came from another run of the comparison.
    missing : list of int
        Parties that were silent at least once.
    versions : mapping of str to str
        Versions of the libraries.
    curve : list of float
        Headline metric after each round, the mean over parties.
    task : str
        Kind of the labels.
    """

    configuration: Mapping[str, Any]
    metrics: Metrics | None
    constant: float | None
    rounds: int
    up: int
    down: int
    epsilon: Mapping[str, float | None]
    delta: float
    seconds: float
    missing: list[int]
    versions: Mapping[str, str]
    curve: list[float] = field(default_factory=list)
    task: Kind = "multiclass"

    @property
    def key(self) -> str:
        """Content key of the run."""
        return key_of(self.configuration)

    def to_json(self) -> str:
        """Text of the result's file."""
        return json.dumps({"key": self.key, **asdict(self)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, key: str, where: str) -> "CachedResult":
        """Result from the text of its file.

        Parameters
        ----------
        text : str
            Text of the file.
        key : str
            Stem of the file's name, which must be the key of the result.
        where : str
            Path of the file, for error messages.

        Returns
        -------
        CachedResult
            The result.
        """
        try:
            table = json.loads(text)
            stored_key = table.pop("key")
            result = _adapter().validate_json(json.dumps(table), strict=True, extra="forbid")
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise LimbeckError(f"{where} is not a cached result; delete it, and the run is repeated") from error
        if not stored_key == key == result.key:
            raise LimbeckError(f"{where} holds a different configuration than its name says; delete it")
        return result


@cache
def _adapter() -> TypeAdapter[CachedResult]:
    return TypeAdapter(CachedResult)


def cached_result(cached: CachedRun, record: RunRecord, seconds: float) -> CachedResult:
    """Result of a finished run; `seconds` is its training time."""
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
        task=record.task,
    )


def _curve(record: RunRecord) -> list[float]:
    """Accuracy after each round: of the global model, or the parties' mean; empty if there is only one point."""
    heights = []
    for point in record.curve:
        values = [point["server"]] if "server" in point else point["accuracy"]
        there = [each for each in values if each is not None]
        heights += [fmean(there)] if there else []
    return heights if len(heights) > 1 else []


def key_of(configuration: Mapping[str, Any]) -> str:
    """Content key of a configuration.

    Parameters
    ----------
    configuration : mapping
        Everything that determines a result, as JSON.

    Returns
    -------
    str
        SHA-256, 64 hexadecimal digits; the order of the keys does not matter.

    Examples
    --------
    >>> key_of({"seed": 0, "data": "digits"}) == key_of({"data": "digits", "seed": 0})
    True
    """
    return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()


def _chosen(parameters: Any) -> dict[str, Any]:
    """Fields of a dataclass that differ from their defaults."""
    values = {part: getattr(parameters, part.name) for part in fields(parameters)}
    chosen = {part.name: value for part, value in values.items() if value != default_of(part)}
    return {name: _chosen(value) if is_dataclass(value) else value for name, value in chosen.items()}


def _split(split: Split) -> dict[str, Any]:
    if isinstance(split, Within):
        return {"within": split.group, **_split(split.split)}
    return {"kind": split.kind, **_chosen(split)}
