"""FedAvg (McMahan et al. 2017): all train one network on their own rows, and the server averages its weights.

The round loop of every iterative method. They differ in what is sent, how a party trains, and how the server merges
updates. Optimizers start anew in every round. Weights leave unprotected: nothing bounds what they tell of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from pydantic import Field

from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, are_like, bytes_of, mean, values_of
from limbeck.models.jobs import InitialWeights, Pack, Refit
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive

Updates = Sequence[Any]  # valid replies, in party order
Memory = dict[str, Any]  # what a method remembers between rounds


@dataclass(frozen=True, slots=True)
class Update(Reply):
    """The weights after a party's training (safetensors), and how many rows it holds."""

    weights: bytes
    rows: int
    max_bytes: ClassVar[int] = 2**30

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        if self.rows < 1:
            raise LimbeckError(f"weights from {self.rows} rows")
        if not are_like(self.weights, values_of(request.weights)):
            raise LimbeckError("weights of another network, or such as are not finite")


@dataclass(frozen=True, slots=True)
class TrainRequest(Request[Update]):
    """Train the network on your rows, from these weights (safetensors)."""

    weights: bytes


@dataclass(frozen=True, slots=True)
class FedAvg(Algorithm):
    """Rounds of local training and averaging, weighted by rows."""

    name: ClassVar[str] = "fedavg"
    needs_one_network: ClassVar[bool] = True

    rounds: Positive = 50
    sampled: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the parties, drawn anew in every round
    local: Recipe = Recipe(epochs=10, batch=32, weight_decay=1e-6)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "update", Unprotected(), "server", times=self.rounds),
            Disclosure("server", "initial weights", PostProcessing(), "parties"),
            Disclosure("server", "weights", Unprotected(), "parties", times=self.rounds),
            Disclosure("server", "model", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        [first] = site.train([InitialWeights(cast(Any, site.model), row_shape(site))])
        return self.train_from(first, "initial weights", parties, site)

    def train_from(self, weights: bytes, what: str, parties: Parties, site: Site) -> Outcome:
        """All rounds, from weights that are disclosed as `what`."""
        memory: Memory = {}
        for _ in range(self.rounds):
            site.progress = weights
            request = site.disclose(what, self.request(weights, site, memory))
            updates = list(parties.ask(request, self._sampled(parties, site)).at_least(1))
            weights = self.merge(values_of(weights), updates, site, memory)
            what = "weights"
        site.progress = weights
        [final] = site.train([Pack(cast(Any, site.model), weights, row_shape(site))])
        return hand_out(final, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case TrainRequest():
                return silo.disclose("update", self.update(request, silo))
        return Algorithm.answer(self, request, silo)

    def request(self, weights: bytes, site: Site, memory: Memory) -> TrainRequest:
        return TrainRequest(weights)

    def update(self, request: TrainRequest, silo: Silo) -> Update:
        model: Any = silo.model
        [found] = silo.train([Refit(model, silo.private.x, silo.private.y, request.weights, self.recipe())])
        return Update(found, len(silo.private))

    def recipe(self) -> Recipe:
        """How a party trains."""
        return self.local

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        """The next weights."""
        return bytes_of(averaged(updates), weights)

    def _sampled(self, parties: Parties, site: Site) -> Sequence[int]:
        count = max(1, round(self.sampled * len(parties.everyone)))
        if count == len(parties.everyone):
            return parties.everyone
        return sorted(site.rng.choice(parties.everyone, count, replace=False).tolist())


def averaged(updates: Updates) -> Values:
    """The mean of all updates, weighted by rows."""
    return mean([values_of(each.weights) for each in updates], [each.rows for each in updates])


def row_shape(site: Site) -> tuple[int, ...]:
    return site.public.x.shape[1:]


def zeros(like: Mapping[str, Array]) -> Values:
    return {name: np.zeros(values.shape, values.dtype) for name, values in like.items()}
