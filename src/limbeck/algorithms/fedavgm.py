"""FedAvgM (Hsu, Qi & Brown 2019): FedAvg with momentum at the server."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field

from limbeck.algorithms.fedavg import FedAvg, Memory, Updates, averaged, row_shape
from limbeck.knowledge.averages import Values, bytes_of, values_of
from limbeck.protocol.site import Site


@dataclass(frozen=True, slots=True)
class FedAvgM(FedAvg):
    """FedAvgM: FedAvg with momentum at the server.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round.
    local : Recipe
        How a party trains in a round.
    momentum : float
        Momentum of the server's step, beta in the paper; at least 0 and below 1.

    Notes
    -----
    With weights w, their mean m over the parties and the velocity v: v = momentum v + (w - m), then w = w - v. Values
    that are not trained, such as the running averages of batch norm, are averaged as in FedAvg.

    References
    ----------
    Hsu, Qi & Brown 2019, Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedAvgM(rounds=10).momentum
    0.9
    """

    name: ClassVar[str] = "fedavgm"

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        model = cast(Any, site.model)
        trained = model.trained_names(row_shape(site), site.classes)
        before = memory.get("velocity", {})
        pushed = {
            name: values - self.momentum * before.get(name, 0.0) if name in trained else values
            for name, values in averaged(updates).items()
        }
        found = bytes_of(pushed, weights)
        memory["velocity"] = {name: weights[name] - values for name, values in values_of(found).items()}
        return found
