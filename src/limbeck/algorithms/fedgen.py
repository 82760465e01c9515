"""FedGEN (Zhu, Hong & Zhou 2021): FedAvg with a generator of latent vectors.

The server trains the generator so that the parties' last layers predict the requested class from its latents. Parties
train on such latents and on their own rows, and so learn about classes of which they have no rows.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from pydantic import Field

from limbeck.algorithms.fedavg import FedAvg, Memory, TrainRequest, Update, Updates, averaged, row_shape
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, bytes_of, values_of
from limbeck.knowledge.scores import class_shares, softmax
from limbeck.models.jobs import ForwardPass, InitialWeights, Refit
from limbeck.models.weighting import scaled
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.messages import MAX_COUNT, Reply, check_array
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Kind
from limbeck.tables import NotNegative

GENERATOR = "generator."


@dataclass(frozen=True, slots=True)
class CountedUpdate(Update):
    """An update with the party's class counts.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    rows : int
        The party's number of rows.
    counts : integer array of shape (classes,)
        The party's rows of each class.
    """

    counts: Array

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        Update.check(self, request, site, algorithm)
        check_array(self.counts, (site.classes,), 0, MAX_COUNT, "iu")


@dataclass(frozen=True, slots=True)
class LatentTrainRequest(TrainRequest):
    """A request to train with latents of a generator.

    Parameters
    ----------
    weights : bytes
        The weights as safetensors.
    generator : bytes
        The generator's weights as safetensors; empty in the first round.
    round : int
        The number of the round, from 0.
    held : integer array
        The classes of which any party has rows.
    """

    generator: bytes
    round: int
    held: Array

    @classmethod
    def reply(cls) -> type[Reply]:
        return CountedUpdate


@dataclass(frozen=True, slots=True)
class FedGEN(FedAvg):
    """FedGEN: FedAvg in which parties also train on latent vectors from a generator.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    participation : float
        Share of the parties that are asked in a round.
    local : Recipe
        How a party trains in a round.
    alpha : float
        Weight of the loss on latents of random classes.
    beta : float
        Weight of the Kullback-Leibler divergence between a row's prediction and that for a latent of its class.
    fade : float
        Factor by which `alpha` and `beta` shrink in each round.
    eta : float
        Weight of the generator's diversity loss.
    drawn : int
        Number of latents on which the generator is trained in a round.
    generate : Recipe
        How the generator is trained.

    Notes
    -----
    In every round except the first, a party trains on as many latents as it has rows. The latents of a round, and the
    predictions for them, are drawn once at its start; the authors' code draws them at every step.

    References
    ----------
    Zhu, Hong & Zhou 2021, Data-Free Knowledge Distillation for Heterogeneous Federated Learning, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedGEN(rounds=10, alpha=1.0).beta
    10.0
    """

    name: ClassVar[str] = "fedgen"
    tasks: ClassVar[tuple[Kind, ...]] = ("multiclass",)

    alpha: NotNegative = 10.0
    beta: NotNegative = 10.0
    fade: Annotated[float, Field(gt=0, le=1)] = 0.98
    eta: NotNegative = 1.0
    drawn: Annotated[int, Field(ge=2)] = 6400
    generate: Recipe = Recipe(epochs=1, batch=32, learning_rate=3e-4, weight_decay=1e-2)

    def check(self) -> None:
        if self.local.augmentation != "none":
            raise LimbeckError('local.augmentation: fedgen trains on images and latents in one batch; use "none"')

    def request(self, weights: bytes, site: Site, memory: Memory) -> TrainRequest:
        from limbeck.models.latents import head_of

        if "round" not in memory:  # raises before any training if the last layer is not linear
            head_of(cast(Any, site.model), row_shape(site), site.classes)
        number = memory["round"] = memory.get("round", -1) + 1
        held = memory.get("held", np.empty(0, np.int64))
        return LatentTrainRequest(weights, memory.get("generator", b""), number, held)

    def update(self, request: TrainRequest, silo: Silo) -> Update:
        asked = cast(LatentTrainRequest, request)
        counts = np.bincount(silo.private.y, minlength=silo.classes)
        found = self._taught(asked, silo) if asked.generator else FedAvg.update(self, request, silo).weights
        return CountedUpdate(found, len(silo.private), counts)

    def _taught(self, asked: LatentTrainRequest, silo: Silo) -> bytes:
        """Train on the private rows and on as many latents."""
        from limbeck.models.latents import generator, head_of, with_latents

        model, (x, y), row = cast(Any, silo.model), (silo.private.x, silo.private.y), silo.private.x.shape[1:]
        head, faded = head_of(model, row, silo.classes), self.fade**asked.round
        drawn = silo.rng.choice(asked.held, len(y))
        wanted = generator_input(np.concatenate([y, drawn]), silo)
        [latents] = silo.train([ForwardPass(generator(head.latents), asked.generator, wanted)])
        weights = values_of(asked.weights)
        bias = weights[head.bias] if head.bias else 0.0
        soft = softmax(latents[: len(y)] @ weights[head.weight].T + bias)
        onehot = np.eye(silo.classes, dtype=np.float32)
        beta, alpha = self.beta * faded, self.alpha * faded
        targets = np.concatenate([(onehot[y] + beta * soft) / (1 + beta), onehot[drawn]]).astype(np.float32)
        sizes = np.repeat([2 * (1 + beta), -2 * alpha], len(y)).astype(np.float32)  # a mean over twice the rows
        if silo.private.weight is not None:
            sizes[: len(y)] *= scaled(silo.private.weight)
        values = x.reshape(len(x), -1).astype(np.float32)
        rows = np.hstack([np.tile(values, (2, 1)), latents, sizes[:, None]])
        recipe = replace(self.local, batch=2 * self.local.batch, loss="soft-cross-entropy")
        [found] = silo.train([Refit(with_latents(model, row), rows, targets, asked.weights, recipe)])
        return found

    def merge(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        if memory["round"] + 1 < self.rounds:
            self._teach(updates, site, memory)
        return bytes_of(averaged(updates), weights)

    def _teach(self, updates: Updates, site: Site, memory: Memory) -> None:
        """Train the generator with the parties' last layers."""
        from limbeck.models.latents import head_of, taught_generator

        head = head_of(cast(Any, site.model), row_shape(site), site.classes)
        parties = [values_of(update.weights) for update in updates]
        counts = np.stack([update.counts for update in updates])
        held = np.flatnonzero(counts.sum(axis=0))
        memory["held"] = held if len(held) else np.arange(site.classes)
        model = taught_generator(head.latents, len(parties), self.eta)
        rows = generator_input(labels := site.rng.choice(memory["held"], self.drawn), site)
        [first] = site.train([InitialWeights(model, rows.shape[1:])])
        start = values_of(first)
        if "generator" in memory:
            start |= {f"{GENERATOR}{name}": values for name, values in values_of(memory["generator"]).items()}
        start["heads"] = np.stack([party[head.weight] for party in parties])
        if head.bias:
            start["biases"] = np.stack([party[head.bias] for party in parties])
        start["shares"] = class_shares(counts).astype(np.float32)
        [found] = site.train([Refit(model, rows, labels, bytes_of(start, start), self.generate)])
        generator = {n.removeprefix(GENERATOR): v for n, v in values_of(found).items() if n.startswith(GENERATOR)}
        memory["generator"] = bytes_of(generator, generator)


def generator_input(labels: Array, site: Site) -> Array:
    """Make the input of a generator: one-hot classes and Gaussian noise.

    Parameters
    ----------
    labels : integer array of shape (rows,)
        The requested classes.
    site : Site
        The site that draws the noise.

    Returns
    -------
    array of shape (rows, classes + NOISE_SIZE)
        The input.
    """
    from limbeck.models.latents import NOISE_SIZE

    noise = site.rng.normal(size=(len(labels), NOISE_SIZE))
    return np.hstack([np.eye(site.classes)[labels], noise]).astype(np.float32)
