"""Learning curves: accuracy of each party's own model, or of the global model, after each exchange."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from joblib import cpu_count

from limbeck.algorithms.local_training import WEIGHTS
from limbeck.engines.engine import Engine
from limbeck.experiments.metrics import Metrics, metrics_of_numbers, metrics_of_several, score
from limbeck.models.jobs import ForwardPass
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Site
from limbeck.protocol.task import MULTICLASS, Task


class Curve:
    """Learning curve of a run, on test rows.

    Parameters
    ----------
    test : Rows
        Test rows. Each model is evaluated on them once.
    task : Task
        Kind of the labels. The points of a curve are accuracies, mean areas under the ROC curve, or R2.
    """

    def __init__(self, test: Rows, task: Task = MULTICLASS) -> None:
        self.test, self.task = test, task
        self.points: list[dict[str, Any]] = []
        self._known: dict[bytes, Metrics] = {}
        self._seen: set[bytes | None] = set()
        self._progress: bytes | None = None

    def look(self, engine: Engine) -> None:
        """Add a point after an exchange, if a model changed."""
        if engine.server.progress != self._progress:
            self._look_at_server(engine.server)
        if engine.server.progress is None:
            self._look_at_parties(engine)

    def _look_at_server(self, server: Site) -> None:
        """Evaluate the global model as it was before the exchange, on the device that trains it."""
        self._progress = server.progress
        ask = ForwardPass(cast(Any, server.model), cast(bytes, server.progress), self.test.x)
        [logits] = server.trainer.run([ask], server.classes, [0])
        self.points.append({"round": len(self.points), "server": self._accuracy(logits)})

    def _look_at_parties(self, engine: Engine) -> None:
        models = [silo.installed for silo in engine.silos]
        new = set(models) - self._seen - {None}
        if not new:
            return
        self._seen = set(models)
        on_a_gpu = engine.server.trainer.description.get("device") == "cuda"
        accuracy = self._asked(engine) if on_a_gpu else {}
        accuracy |= self._scored({p: model for p, model in enumerate(models) if model and p not in accuracy})
        exchange = len(engine.traffic.exchanges) - 1
        self.points.append({"exchange": exchange, "accuracy": [accuracy.get(party) for party in range(len(models))]})

    def _asked(self, engine: Engine) -> dict[int, float | None]:
        """Accuracy of each party that has a network, on the device that trains it: much faster than ONNX models."""
        asks = {
            silo.party: ForwardPass(cast(Any, silo.model), cast(bytes, silo.memory[WEIGHTS]), self.test.x)
            for silo in engine.silos
            if WEIGHTS in silo.memory
        }
        answers = engine.server.trainer.run(list(asks.values()), engine.server.classes, [0] * len(asks))
        return {party: self._accuracy(logits) for party, logits in zip(asks, answers, strict=True)}

    def _accuracy(self, logits: Array) -> float | None:
        """The headline metric; None if the test rows do not define it, for example R2 if all targets are the same."""
        if self.task.kind == "regression":
            numbers = self.task.unscaled(np.clip(logits[:, 0], 0, 1))
            return metrics_of_numbers(numbers, self.task.unscaled(self.test.y)).r2
        if self.task.kind == "multilabel":
            return metrics_of_several(1 / (1 + np.exp(-logits.astype(np.float64))), self.test.y).roc_auc
        return float((logits.argmax(axis=1) == self.test.y).mean())

    def _scored(self, models: dict[int, bytes]) -> dict[int, float | None]:
        there = list(dict.fromkeys(models.values()))
        with ThreadPoolExecutor(cpu_count()) as side_by_side:
            self._known = dict(zip(there, side_by_side.map(self.metrics, there), strict=True))
        return {party: self._known[model].headline(self.task.kind) for party, model in models.items()}

    def metrics(self, model: bytes) -> Metrics:
        """Metrics of a model (ONNX) on the test rows."""
        return self._known.get(model) or score(PackedModel(model), self.test, self.task)
