"""SCAFFOLD (Karimireddy et al. 2020, option II): control variates correct the drift between parties."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.algorithms.fedavg import FedAvg, Memory, TrainRequest, Update, Updates, averaged, row_shape, zeros
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, are_like, bytes_of, values_of
from limbeck.models.jobs import Refit
from limbeck.models.schedule import BatchSchedule
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.site import Silo, Site

CONTROL = "scaffold.control"


@dataclass(frozen=True, slots=True)
class ControlledUpdate(Update):
    """An update with the change of the party's control variate.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    rows : int
        The party's number of rows.
    change : bytes
        The change of the control variate, as safetensors.
    """

    change: bytes

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        Update.check(self, request, site, algorithm)
        if not are_like(self.change, values_of(request.control)):
            raise LimbeckError("control variates of another network, or control variates that are not finite")


@dataclass(frozen=True, slots=True)
class ControlledTrainRequest(TrainRequest):
    """A request to train with a control variate.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    control : bytes
        The server's control variate c, as safetensors.
    """

    control: bytes

    @classmethod
    def reply(cls) -> type[Reply]:
        return ControlledUpdate


@dataclass(frozen=True, slots=True)
class Scaffold(FedAvg):
    """SCAFFOLD: FedAvg with plain SGD, whose gradients are corrected by control variates.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round.
    local : Recipe
        How a party trains in a round, by SGD without momentum.

    Notes
    -----
    Party i adds c - c_i to every gradient (Equation 3). After K steps of rate eta from x to y_i, option II of
    Equation 4 sets c_i to c_i - c + (x - y_i) / (K eta). With a schedule, the sum of all rates replaces K eta. Weights
    are averaged by rows, as in FedAvg; control variates are averaged over all parties, as in Equation 5.

    References
    ----------
    Karimireddy et al. 2020, SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, Algorithm 1, option II.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.Scaffold(rounds=10).local.optimizer
    'sgd'
    """

    name: ClassVar[str] = "scaffold"

    local: Recipe = Recipe(epochs=10, batch=32, optimizer="sgd", momentum=0.0, learning_rate=0.01, weight_decay=1e-6)

    def check(self) -> None:
        if self.local.optimizer != "sgd" or self.local.momentum or self.local.patience or self.local.proximal:
            raise LimbeckError('local: scaffold needs optimizer = "sgd", momentum = 0.0, proximal = 0.0, no patience')

    def request(self, weights: bytes, site: Site, memory: Memory) -> TrainRequest:
        if "control" not in memory:
            model: Any = site.model
            trained = model.trained_names(row_shape(site), site.classes)
            memory["control"] = zeros({n: values for n, values in values_of(weights).items() if n in trained})
        control = memory["control"]
        return ControlledTrainRequest(weights, bytes_of(control, control))

    def update(self, request: TrainRequest, silo: Silo) -> Update:
        given, control = values_of(request.weights), values_of(cast(ControlledTrainRequest, request).control)
        own = values_of(cast(bytes, silo.memory[CONTROL])) if CONTROL in silo.memory else zeros(control)
        correction = bytes_of({name: control[name] - own[name] for name in control}, control)
        model: Any = silo.model
        x, y, weight = silo.private.x, silo.private.y, silo.private.weight
        job = Refit(model, x, y, request.weights, self.local, correction, weight)
        [found] = silo.train([job])
        steps = BatchSchedule(len(job.rows) or len(x), self.local, 0)
        moved = {name: values.astype(np.float64) for name, values in values_of(found).items()}
        rate = float(steps.rates(0, steps.total).sum())
        change = bytes_of({name: (given[name] - moved[name]) / rate - control[name] for name in control}, control)
        silo.memory[CONTROL] = bytes_of(_plus(own, values_of(change)), control)
        return ControlledUpdate(found, len(silo.private), change)

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        control = memory["control"]
        for update in updates:
            control = _plus(control, values_of(update.change), 1 / site.parties)
        memory["control"] = values_of(bytes_of(control, memory["control"]))
        return bytes_of(averaged(updates), weights)


def _plus(values: Values, change: Values, share: float = 1.0) -> Values:
    return {name: values[name] + share * change[name] for name in values}
