"""FedAvg (McMahan et al. 2017), and the round loop of all methods that average weights.

A subclass changes what the server sends (`request`), how a party trains (`recipe`, `update`), or how the server merges
the updates (`merge`).
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
from limbeck.protocol.messages import MAX_COUNT, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind
from limbeck.tables import Positive

Updates = Sequence[Any]  # valid replies, in party order
Memory = dict[str, Any]  # what the server remembers between rounds


@dataclass(frozen=True, slots=True)
class Update(Reply):
    """The weights of a party after its training.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    rows : int
        The party's number of rows, which is its weight in the mean.
    """

    weights: bytes
    rows: int
    max_bytes: ClassVar[int] = 2**30

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        if not 1 <= self.rows <= MAX_COUNT:
            raise LimbeckError(f"rows = {self.rows}: weights must come from 1 to {MAX_COUNT} rows")
        if not are_like(self.weights, values_of(request.weights)):
            raise LimbeckError("weights of another network, or weights that are not finite")


@dataclass(frozen=True, slots=True)
class TrainRequest(Request[Update]):
    """Train the network on the private rows, starting from given weights.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    """

    weights: bytes


@dataclass(frozen=True, slots=True)
class FedAvg(Algorithm):
    """FedAvg: parties train one network in rounds, and the server averages its weights.

    In each round the server sends the weights, the parties train them on their own rows, and the server computes the
    mean, weighted by rows. Optimizers start anew in every round. Weights leave unprotected: nothing bounds what they
    reveal about the rows. All parties need the same network (extra `torch`).

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round, C in the paper. They are drawn anew in every round.
    local : Recipe
        How a party trains in a round; `epochs` is E and `batch` is B in the paper.

    References
    ----------
    McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> algorithm = lb.FedAvg(rounds=10, local=lb.Recipe(epochs=5))
    >>> algorithm.needs_one_network
    True
    """

    name: ClassVar[str] = "fedavg"
    uses_weights = "parties"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS
    needs_one_network: ClassVar[bool] = True

    rounds: Positive = 50
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    local: Recipe = Recipe(epochs=10, batch=32, weight_decay=1e-6)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        initial = Disclosure("server", "initial weights", PostProcessing(), "parties")
        return [initial, *self.disclosed(self.rounds - 1)]

    def disclosed(self, times: int) -> list[Disclosure]:
        """Declare what leaves a site after the first weights.

        Parameters
        ----------
        times : int
            Number of rounds in which the server sends weights that depend on private rows.

        Returns
        -------
        list of Disclosure
            The disclosures.
        """
        weights = [Disclosure("server", "weights", Unprotected(), "parties", times=times)] if times else []
        update = Disclosure("party", "update", Unprotected(), "server", times=self.rounds)
        return [update, *weights, Disclosure("server", "model", Unprotected(), "parties")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        [first] = site.train([InitialWeights(cast(Any, site.model), row_shape(site))])
        return self.train_from(first, "initial weights", parties, site)

    def train_from(self, weights: bytes, what: str, parties: Parties, site: Site) -> Outcome:
        """Run all rounds from given weights, and hand out the final model.

        Parameters
        ----------
        weights : bytes
            The weights of the first round, as safetensors.
        what : str
            The name of the disclosure under which they leave the server.
        parties : Parties
            The parties to ask.
        site : Site
            The server.

        Returns
        -------
        Outcome
            The final model.
        """
        memory: Memory = {}
        for _ in range(self.rounds):
            site.progress = weights
            request = site.disclose(what, self.request(weights, site, memory))
            updates = list(parties.ask(request, self._participants(parties, site)).at_least(1))
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
        """Make the request of a round (server).

        Parameters
        ----------
        weights : bytes
            The current weights, as safetensors.
        site : Site
            The server.
        memory : dict
            What the server keeps between rounds.

        Returns
        -------
        TrainRequest
            The request.
        """
        return TrainRequest(weights)

    def update(self, request: TrainRequest, silo: Silo) -> Update:
        """Train as requested, and make the reply (party).

        Parameters
        ----------
        request : TrainRequest
            The request of the round.
        silo : Silo
            The party.

        Returns
        -------
        Update
            The weights after training, and the number of rows.
        """
        model: Any = silo.model
        own = silo.private
        job = Refit(model, own.x, own.y, request.weights, self.recipe(), weight=own.weight)
        [found] = silo.train([job])
        return Update(found, len(silo.private))

    def recipe(self) -> Recipe:
        """How a party trains in a round."""
        return self.local

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        """Merge the updates of a round into the next weights (server).

        Parameters
        ----------
        weights : dict of str to array
            The weights that the parties started from.
        updates : sequence of Update
            The replies of the round, at least one.
        site : Site
            The server.
        memory : dict
            What the server keeps between rounds; it may be changed.

        Returns
        -------
        bytes
            The next weights, as safetensors.
        """
        return bytes_of(averaged(updates), weights)

    def _participants(self, parties: Parties, site: Site) -> Sequence[int]:
        count = max(1, round(self.participation * len(parties.everyone)))
        if count == len(parties.everyone):
            return parties.everyone
        return sorted(site.rng.choice(parties.everyone, count, replace=False).tolist())


def averaged(updates: Updates) -> Values:
    """Average the weights of all updates, weighted by rows."""
    return mean([values_of(each.weights) for each in updates], [each.rows for each in updates])


def row_shape(site: Site) -> tuple[int, ...]:
    """The shape of one row."""
    return site.public.x.shape[1:]


def zeros(like: Mapping[str, Array]) -> Values:
    """Arrays of zeros with the names, shapes and types of other arrays.

    Parameters
    ----------
    like : mapping of str to array
        The other arrays.

    Returns
    -------
    dict of str to array
        The zeros.

    Examples
    --------
    >>> zeros({"bias": np.ones(2, np.float32)})
    {'bias': array([0., 0.], dtype=float32)}
    """
    return {name: np.zeros(values.shape, values.dtype) for name, values in like.items()}
