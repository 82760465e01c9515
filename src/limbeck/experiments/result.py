"""What a run gives back to its user."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import RunRecord
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array


class Classifier:
    """A final model that speaks the users' own class names."""

    def __init__(self, onnx: bytes, classes: Array) -> None:
        self.classes_ = classes
        self.packed = PackedModel(onnx)

    @property
    def onnx(self) -> bytes:
        return self.packed.data

    def predict(self, x: Any) -> Array:
        names: Array = self.classes_[self.packed.vote(np.asarray(x))]
        return names

    def predict_proba(self, x: Any) -> Array:
        if not self.packed.has_probabilities:
            raise LimbeckError("this model votes, but has no probabilities")
        return self.packed.scores(np.asarray(x))

    def save(self, path: str | Path) -> None:
        Path(path).write_bytes(self.onnx)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gives: one `model`, or one in `models` for each party that has its own; and the record."""

    model: Classifier | None
    models: Mapping[int, Classifier]
    record: RunRecord

    @property
    def metrics(self) -> Metrics | None:
        return self.record.metrics

    @property
    def accuracy(self) -> float | None:
        return self.metrics.accuracy if self.metrics else None

    def files(self) -> dict[str, bytes]:
        """The run's folder: the models as ONNX and the record."""
        own = {f"models/party-{party}.onnx": model.onnx for party, model in self.models.items()}
        final = {"model.onnx": self.model.onnx} if self.model else own
        return {**final, "record.json": self.record.to_json().encode()}
