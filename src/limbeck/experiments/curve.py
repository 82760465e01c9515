"""Learning curves: how good every party's own model is after each exchange that changed one."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joblib import cpu_count

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
        there = list(dict.fromkeys(model for model in models if model is not None))
        with ThreadPoolExecutor(cpu_count()) as side_by_side:
            self._known = dict(zip(there, side_by_side.map(self.metrics, there), strict=True))
        exchange = len(engine.traffic.exchanges) - 1
        accuracy = [None if model is None else self._known[model].accuracy for model in models]
        self.points.append({"exchange": exchange, "accuracy": accuracy})

    def metrics(self, model: bytes) -> Metrics:
        assert self.test is not None
        return self._known.get(model) or score(PackedModel(model), self.test)
