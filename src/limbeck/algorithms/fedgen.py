"""FedGEN (Zhu, Hong & Zhou 2021): a generator learns at the server which latents parties' last layers take for a class.

Parties train on its latents beside their own rows: they see something of classes that they do not hold. In every round
but the first, half of a party's rows are latents of random classes (`alpha` times their loss), and its own rows learn
the predictions for latents of their class (`beta` times the KL); both fade by `fade` a round.

Other than the authors' code: a round's latents are drawn once, at its start, and so are the predictions for them.
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
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.messages import Reply, check_array
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import NotNegative

GENERATOR = "generator."


@dataclass(frozen=True, slots=True)
class CountedUpdate(Update):
    """With a party's rows by class."""

    counts: Array

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        Update.check(self, request, site, algorithm)
        check_array(self.counts, (site.classes,), 0, kinds="iu")


@dataclass(frozen=True, slots=True)
class LatentTrainRequest(TrainRequest):
    """With a generator of latents (safetensors; none in the first round), and the classes that anybody holds."""

    generator: bytes
    round: int
    held: Array

    @classmethod
    def reply(cls) -> type[Reply]:
        return CountedUpdate


@dataclass(frozen=True, slots=True)
class FedGEN(FedAvg):
    """FedAvg with latents from a generator that all teach."""

    name: ClassVar[str] = "fedgen"

    alpha: NotNegative = 10.0
    beta: NotNegative = 10.0
    fade: Annotated[float, Field(gt=0, le=1)] = 0.98
    eta: NotNegative = 1.0  # of diversity
    drawn: Annotated[int, Field(ge=2)] = 6400  # latents that the generator is taught on in a round
    generate: Recipe = Recipe(epochs=1, batch=32, learning_rate=3e-4, weight_decay=1e-2)

    def check(self) -> None:
        if self.local.augmentation != "none":
            raise LimbeckError("local.augmentation: fedgen trains on images and latents in one batch, unaugmented")

    def request(self, weights: bytes, site: Site, memory: Memory) -> TrainRequest:
        from limbeck.models.latents import head_of

        if "round" not in memory:  # refused before anyone trains
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
        """Training on own rows and on latents, half and half."""
        from limbeck.models.latents import generator, head_of, with_latents

        model, (x, y), row = cast(Any, silo.model), (silo.private.x, silo.private.y), silo.private.x.shape[1:]
        head, faded = head_of(model, row, silo.classes), self.fade**asked.round
        drawn = silo.rng.choice(asked.held, len(y))
        wanted = asked_of(np.concatenate([y, drawn]), silo)
        [latents] = silo.train([ForwardPass(generator(head.latents), asked.generator, wanted)])
        weights = values_of(asked.weights)
        bias = weights[head.bias] if head.bias else 0.0
        soft = softmax(latents[: len(y)] @ weights[head.weight].T + bias)
        onehot = np.eye(silo.classes, dtype=np.float32)
        beta, alpha = self.beta * faded, self.alpha * faded
        targets = np.concatenate([(onehot[y] + beta * soft) / (1 + beta), onehot[drawn]]).astype(np.float32)
        sizes = np.repeat([2 * (1 + beta), -2 * alpha], len(y)).astype(np.float32)  # a mean over twice the rows
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
        """Teach the generator by the parties' last layers."""
        from limbeck.models.latents import head_of, taught_generator

        head = head_of(cast(Any, site.model), row_shape(site), site.classes)
        parties = [values_of(update.weights) for update in updates]
        counts = np.stack([update.counts for update in updates])
        held = np.flatnonzero(counts.sum(axis=0))
        memory["held"] = held if len(held) else np.arange(site.classes)
        model = taught_generator(head.latents, len(parties), self.eta)
        rows = asked_of(labels := site.rng.choice(memory["held"], self.drawn), site)
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


def asked_of(labels: Array, site: Site) -> Array:
    """What a generator is asked: classes, one-hot, and chance."""
    from limbeck.models.latents import NOISE_SIZE

    noise = site.rng.normal(size=(len(labels), NOISE_SIZE))
    return np.hstack([np.eye(site.classes)[labels], noise]).astype(np.float32)
