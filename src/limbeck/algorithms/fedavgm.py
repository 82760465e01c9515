"""FedAvgM (Hsu, Qi & Brown 2019): FedAvg with momentum at the server."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from limbeck.algorithms.fedavg import FedAvg, Memory, Updates, averaged, row_of
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, bytes_of, values_of
from limbeck.protocol.site import Site


@dataclass(frozen=True, slots=True)
class FedAvgM(FedAvg):
    """v = momentum v + (w - mean), w = w - v. What is not trained, such as batch norm's averages, is averaged."""

    name: ClassVar[str] = "fedavgm"

    momentum: float = 0.9

    def __post_init__(self) -> None:
        FedAvg.__post_init__(self)
        if not 0 <= self.momentum < 1:
            raise LimbeckError(f"momentum must be at least 0 and below 1, not {self.momentum}")

    def _merged(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        model = cast(Any, site.model)
        trained = model.trained_names(row_of(site), site.classes)
        before = memory.get("velocity", {})
        pushed = {
            name: values - self.momentum * before.get(name, 0.0) if name in trained else values
            for name, values in averaged(updates).items()
        }
        found = bytes_of(pushed, weights)
        memory["velocity"] = {name: weights[name] - values for name, values in values_of(found).items()}
        return found
