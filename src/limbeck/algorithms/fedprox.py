"""FedProx (Li et al. 2020): FedAvg whose parties are held near the weights that they were sent."""

from dataclasses import dataclass, replace
from typing import ClassVar

from limbeck.algorithms.fedavg import FedAvg
from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Recipe
from limbeck.tables import NotNegative


@dataclass(frozen=True, slots=True)
class FedProx(FedAvg):
    """The local loss has mu/2 times the squared distance to the global weights beside it."""

    name: ClassVar[str] = "fedprox"

    mu: NotNegative = 0.1

    def check(self) -> None:
        if self.local.proximal:
            raise LimbeckError("local.proximal: fedprox has mu for it")

    def recipe(self) -> Recipe:
        return replace(self.local, proximal=self.mu)
