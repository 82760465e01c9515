"""Learning curves: how good every party's own model is after each exchange that changed one."""

from typing import Any

from limbeck.engines.engine import Engine
from limbeck.experiments.metrics import Metrics, score
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Rows


class Curve:
    """Scores models on test rows as they come; the same model is scored once."""

    def __init__(self, test: Rows | None) -> None:
        self.test = test
        self.points: list[dict[str, Any]] = []
        self._known: dict[bytes, Metrics] = {}

    def look(self, engine: Engine) -> None:
        """After an exchange: a point of the curve, where a party has another model than before."""
        models = [silo.adopted for silo in engine.silos]
        if self.test is None or all(model is None or model in self._known for model in models):
            return
        self._known = {model: self.metrics(model) for model in models if model is not None}
        exchange = len(engine.traffic.exchanges) - 1
        accuracy = [None if model is None else self._known[model].accuracy for model in models]
        self.points.append({"exchange": exchange, "accuracy": accuracy})

    def metrics(self, model: bytes) -> Metrics:
        assert self.test is not None
        return self._known.get(model) or score(PackedModel(model), self.test)
