"""FedDF (Lin et al. 2020): after every average, the parties' networks teach it what they predict together.

The average learns their mean logits on public rows by KL, until it agrees no better on public rows that are held out
(the authors stop by labelled validation rows).
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.algorithms.fedavg import FedAvg, Memory, Updates, averaged
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, bytes_of
from limbeck.models.jobs import ForwardPass, Refit
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.site import Site


@dataclass(frozen=True, slots=True)
class FedDF(FedAvg):
    """FedAvg with distillation at the server; without `distil` it is FedAvg."""

    name: ClassVar[str] = "feddf"
    needs_public_rows: ClassVar[bool] = True

    distil: Recipe | None = Recipe(epochs=20, batch=128, schedule="cosine", patience=3)  # its loss is KL

    def check(self) -> None:
        if self.distil is not None and self.distil.loss not in (Recipe().loss, "kl"):
            raise LimbeckError(f'distil.loss: feddf distils by "kl", not "{self.distil.loss}"')

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        mean = bytes_of(averaged(updates), weights)
        if self.distil is None:
            return mean
        model, rows = cast(Any, site.model), site.public.x
        logits = site.train([ForwardPass(model, update.weights, rows) for update in updates])
        together = np.asarray(np.mean(logits, axis=0, dtype=np.float64), np.float32)
        [found] = site.train([Refit(model, rows, together, mean, replace(self.distil, loss="kl"))])
        return found
