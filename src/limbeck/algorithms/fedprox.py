"""FedProx (Li et al. 2020): FedAvg whose parties are held near the weights that they were sent."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from limbeck.algorithms.fedavg import FedAvg
from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Recipe


@dataclass(frozen=True, slots=True)
class FedProx(FedAvg):
    """The local loss has mu/2 times the squared distance to the global weights beside it."""

    name: ClassVar[str] = "fedprox"

    mu: float = 0.1

    def __post_init__(self) -> None:
        FedAvg.__post_init__(self)
        if not 0 <= self.mu < math.inf:
            raise LimbeckError(f"mu must be at least 0 and finite, not {self.mu}")
        if self.local.proximal:
            raise LimbeckError("local.proximal: fedprox says it as mu")

    def _recipe(self) -> Recipe:
        return replace(self.local, proximal=self.mu)
