"""FedAvg (McMahan et al. 2017): all train one network on their own rows, and the server averages its weights.

The round loop of every iterative method: what they differ in is what is asked, how a party trains, and how the server
merges. Optimisers begin anew in every round. Weights leave bare: nothing bounds what they tell of a party's rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, are_like, bytes_of, mean, values_of
from limbeck.models.jobs import InitialWeights, Pack, Refit
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.release import Asked, Noise, Release, release_row
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields

Updates = Mapping[int, Any]  # replies by party
Memory = dict[str, Any]  # what a method remembers between rounds; `parties` is how many there are


@dataclass(frozen=True, slots=True)
class Improved(Reply):
    """The weights after a party's training (safetensors), and how many rows it holds."""

    weights: bytes
    rows: int

    largest: ClassVar[int] = 2**30

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        if self.rows < 1:
            raise LimbeckError(f"weights from {self.rows} rows")


@dataclass(frozen=True, slots=True)
class Improve(Request[Improved]):
    """Train the network on from these weights (safetensors) on your rows."""

    weights: bytes


@dataclass(frozen=True, slots=True)
class FedAvg:
    """Rounds of local training and averaging, weighted by rows."""

    name: ClassVar[str] = "fedavg"
    needs_public_rows: ClassVar[bool] = False
    needs_public_labels: ClassVar[bool] = False
    one_network: ClassVar[bool] = True

    rounds: int = 50
    sampled: float = 1.0  # share of the parties, drawn anew in every round
    local: Recipe = Recipe(epochs=10, batch=32, weight_decay=1e-6)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rounds < 1:
            raise LimbeckError(f"rounds must be at least 1, not {self.rounds}")
        if not 0 < self.sampled <= 1:
            raise LimbeckError(f"sampled must be a share of the parties above 0, up to 1, not {self.sampled}")

    def lead(self, parties: Parties, site: Site) -> Outcome:
        [first] = site.train([InitialWeights(cast(Any, site.model), row_of(site))])
        return self.go_on(first, PostProcessing(), parties, site)

    def go_on(self, weights: bytes, seen: Any, parties: Parties, site: Site) -> Outcome:
        """All rounds, from weights that are protected as `seen` says."""
        memory: Memory = {"parties": len(parties.everyone)}
        remarks: list[str] = []
        for number in range(self.rounds):
            site.progress = weights
            request = site.release(self._request(weights, site, memory), seen, observer="parties")
            replies = parties.ask(request, self._drawn(parties, site)).at_least(1)
            there = self._usable(replies, values_of(weights), memory)
            remarks += [
                f"round {number}: party {party} gave no finite weights of the network and was left out"
                for party in sorted(replies.by_party.keys() - there.keys())
            ]
            if not there:
                raise LimbeckError(f"round {number}: no party gave finite weights of the network")
            weights = self._merged(values_of(weights), there, site, memory)
            seen = Unprotected()
        site.progress = weights
        [final] = site.train([Pack(cast(Any, site.model), weights, row_of(site))])
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        return Outcome(final, tuple(remarks))

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case Improve():
                improved: Reply = silo.release(self._improved(request, silo), Unprotected(), observer="server")
                return improved
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        """What a run will release: all of it bare."""
        told = [
            release_row(f"party {party}", 0, 0, "Improved", Unprotected(), "server", Asked())
            for party in range(len(rows))
        ]
        return [*told, release_row("server", 1, 0, "Adopt", Unprotected(), "parties", Asked())]

    def _request(self, weights: bytes, site: Site, memory: Memory) -> Improve:
        return Improve(weights)

    def _improved(self, request: Improve, silo: Silo) -> Improved:
        model: Any = silo.model
        [found] = silo.train([Refit(model, silo.private.x, silo.private.y, request.weights, self._recipe())])
        return Improved(found, len(silo.private))

    def _recipe(self) -> Recipe:
        return self.local

    def _merged(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        """The next weights."""
        return bytes_of(averaged(updates), weights)

    def _is_usable(self, reply: Any, like: Values, memory: Memory) -> bool:
        return isinstance(reply.rows, int) and reply.rows >= 1 and are_like(reply.weights, like)

    def _usable(self, replies: Replies[Improved], like: Values, memory: Memory) -> dict[int, Any]:
        """Updates by party, without those that are none."""
        every = sorted(replies.by_party.items())
        return {party: reply for party, reply in every if self._is_usable(reply, like, memory)}

    def _drawn(self, parties: Parties, site: Site) -> Sequence[int]:
        count = max(1, round(self.sampled * len(parties.everyone)))
        if count == len(parties.everyone):
            return parties.everyone
        return sorted(site.rng.choice(parties.everyone, count, replace=False).tolist())


def averaged(updates: Updates) -> Values:
    """The mean of all updates, weighted by rows."""
    return mean([values_of(each.weights) for each in updates.values()], [each.rows for each in updates.values()])


def row_of(site: Site) -> tuple[int, ...]:
    """The shape of a row."""
    return site.public.x.shape[1:]


def zeros(like: Mapping[str, Array]) -> Values:
    return {name: np.zeros(values.shape, values.dtype) for name, values in like.items()}
