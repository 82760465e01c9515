"""FedDF (Lin et al. 2020): FedAvg with ensemble distillation on public rows at the server."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.algorithms.fedavg import FedAvg, Memory, Updates, averaged
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, bytes_of
from limbeck.models.jobs import ForwardPass, Refit
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.site import Site
from limbeck.protocol.task import Kind


@dataclass(frozen=True, slots=True)
class FedDF(FedAvg):
    """FedDF: FedAvg in which the average also learns the mean logits of the parties' networks on public rows.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round.
    local : Recipe
        How a party trains in a round.
    distil : Recipe or None
        How the server distils; its loss is the Kullback-Leibler divergence (`"kl"`). None gives FedAvg.

    Notes
    -----
    Distillation stops when the average comes no closer to the mean logits on held-out public rows. The authors stop by
    labelled validation rows.

    References
    ----------
    Lin et al. 2020, Ensemble Distillation for Robust Model Fusion in Federated Learning, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedDF(distil=lb.Recipe(epochs=5, patience=2)).needs_public_rows
    True
    """

    name: ClassVar[str] = "feddf"
    tasks: ClassVar[tuple[Kind, ...]] = ("multiclass",)
    needs_public_rows: ClassVar[bool] = True

    distil: Recipe | None = Recipe(epochs=20, batch=128, schedule="cosine", patience=3)

    def check(self) -> None:
        if self.distil is not None and self.distil.loss not in (Recipe().loss, "kl"):
            raise LimbeckError(f'distil.loss = "{self.distil.loss}": feddf distils with "kl"; leave the key out')

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        mean = bytes_of(averaged(updates), weights)
        if self.distil is None:
            return mean
        model, rows = cast(Any, site.model), site.public.x
        logits = site.train([ForwardPass(model, update.weights, rows) for update in updates])
        together = np.asarray(np.mean(logits, axis=0, dtype=np.float64), np.float32)
        [found] = site.train([Refit(model, rows, together, mean, replace(self.distil, loss="kl"))])
        return found
