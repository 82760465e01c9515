"""FedProx (Li et al. 2020): FedAvg with a proximal term in the local loss."""

from dataclasses import dataclass, replace
from typing import ClassVar

from limbeck.algorithms.fedavg import FedAvg
from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Recipe
from limbeck.tables import NotNegative


@dataclass(frozen=True, slots=True)
class FedProx(FedAvg):
    """FedProx: FedAvg in which the parties' weights stay near the weights that the server sent.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round.
    local : Recipe
        How a party trains in a round.
    mu : float
        Strength of the proximal term; 0 is FedAvg.

    Notes
    -----
    A party minimizes its loss plus mu/2 times the squared distance between its weights and those that the server sent.

    References
    ----------
    Li et al. 2020, Federated Optimization in Heterogeneous Networks, Algorithm 2.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedProx(mu=0.01).recipe().proximal
    0.01
    """

    name: ClassVar[str] = "fedprox"

    mu: NotNegative = 0.1

    def check(self) -> None:
        if self.local.proximal:
            raise LimbeckError("local.proximal: fedprox sets it from mu; set mu instead")

    def recipe(self) -> Recipe:
        return replace(self.local, proximal=self.mu)
