"""FedGEN (Zhu, Hong & Zhou 2021): a generator learns at the server which latents parties' last layers take for a class.

Parties train on its latents beside their own rows: they see something of classes that they do not hold. In every round
but the first, half of a party's rows are latents of random classes (`alpha` times their loss), and its own rows are
told apart as the latents of their class are (`beta` times the KL); both fade by `fade` a round.

Other than the authors' code: a round's latents are drawn once, at its start, and so is what the network says of them.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.algorithms.fedavg import FedAvg, Improve, Improved, Memory, Updates, averaged, row_of
from limbeck.errors import LimbeckError
from limbeck.knowledge.averages import Values, bytes_of, values_of
from limbeck.knowledge.scores import class_shares, softmax
from limbeck.models.jobs import ForwardPass, InitialWeights, Refit
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site

GENERATOR = "generator."


@dataclass(frozen=True, slots=True)
class ImprovedAndCounted(Improved):
    """With a party's rows by class."""

    counts: Array


@dataclass(frozen=True, slots=True)
class ImproveBeside(Improve):
    """With a generator of latents (safetensors; none in the first round), and the classes that anybody holds."""

    generator: bytes
    round: int
    held: Array

    @classmethod
    def reply(cls) -> type[Reply]:
        return ImprovedAndCounted


@dataclass(frozen=True, slots=True)
class FedGEN(FedAvg):
    """FedAvg with latents from a generator that all teach."""

    name: ClassVar[str] = "fedgen"

    alpha: float = 10.0
    beta: float = 10.0
    fade: float = 0.98
    eta: float = 1.0  # of diversity
    drawn: int = 6400  # latents that the generator is taught on in a round
    generate: Recipe = Recipe(epochs=1, batch=32, learning_rate=3e-4, weight_decay=1e-2)

    def __post_init__(self) -> None:
        FedAvg.__post_init__(self)
        for key in ("alpha", "beta", "eta"):
            if not getattr(self, key) >= 0:
                raise LimbeckError(f"{key} must be at least 0, not {getattr(self, key)}")
        if not 0 < self.fade <= 1:
            raise LimbeckError(f"fade must be above 0, up to 1, not {self.fade}")
        if self.drawn < 2:
            raise LimbeckError(f"drawn must be at least 2, not {self.drawn}")
        if self.local.augmentation != "none":
            raise LimbeckError("local.augmentation: fedgen trains on images and latents in one batch, unaugmented")

    def _request(self, weights: bytes, site: Site, memory: Memory) -> Improve:
        from limbeck.models.latents import head_of

        if "round" not in memory:  # refused before anyone trains
            head_of(cast(Any, site.model), row_of(site), site.classes)
        number = memory["round"] = memory.get("round", -1) + 1
        return ImproveBeside(weights, memory.get("generator", b""), number, memory.get("held", np.empty(0, np.int64)))

    def _improved(self, request: Improve, silo: Silo) -> Improved:
        told = cast(ImproveBeside, request)
        counts = np.bincount(silo.private.y, minlength=silo.classes)
        plain = not told.generator
        found = FedAvg._improved(self, request, silo).weights if plain else self._taught(told, silo)
        return ImprovedAndCounted(found, len(silo.private), counts)

    def _taught(self, told: ImproveBeside, silo: Silo) -> bytes:
        """Training on own rows and on latents, half and half."""
        from limbeck.models.latents import head_of, with_latents

        model, (x, y), row = cast(Any, silo.model), (silo.private.x, silo.private.y), silo.private.x.shape[1:]
        head, faded = head_of(model, row, silo.classes), self.fade**told.round
        drawn = silo.rng.choice(told.held, len(y))
        latents = self._latents(told.generator, np.concatenate([y, drawn]), head.latents, silo)
        weights = values_of(told.weights)
        bias = weights[head.bias] if head.bias else 0.0
        said = softmax(latents[: len(y)] @ weights[head.weight].T + bias)
        sure = np.eye(silo.classes, dtype=np.float32)
        beta, alpha = self.beta * faded, self.alpha * faded
        targets = np.concatenate([(sure[y] + beta * said) / (1 + beta), sure[drawn]]).astype(np.float32)
        sizes = np.repeat([2 * (1 + beta), -2 * alpha], len(y)).astype(np.float32)  # a mean over twice the rows
        values = x.reshape(len(x), -1).astype(np.float32)
        rows = np.hstack([np.tile(values, (2, 1)), latents, sizes[:, None]])
        recipe = replace(self.local, batch=2 * self.local.batch, loss="soft-cross-entropy")
        [found] = silo.train([Refit(with_latents(model, row), rows, targets, told.weights, recipe)])
        return found

    def _latents(self, weights: bytes, labels: Array, latents: int, site: Site) -> Array:
        from limbeck.models.latents import generator

        asked = asked_of(labels, site)
        [found] = site.train([ForwardPass(generator(site.classes, latents), weights, asked)])
        return found

    def _merged(self, weights: Values, updates: Updates, site: Site, memory: Memory) -> bytes:
        if memory["round"] + 1 < self.rounds:
            self._teach(updates, site, memory)
        return bytes_of(averaged(updates), weights)

    def _teach(self, updates: Updates, site: Site, memory: Memory) -> None:
        """Teach the generator by the parties' last layers."""
        from limbeck.models.latents import head_of, taught_generator

        head = head_of(cast(Any, site.model), row_of(site), site.classes)
        parties = [values_of(update.weights) for update in updates.values()]
        counts = np.stack([counted(update.counts, site.classes) for update in updates.values()])
        held = np.flatnonzero(counts.sum(axis=0))
        memory["held"] = held if len(held) else np.arange(site.classes)
        model = taught_generator(site.classes, head.latents, len(parties), self.eta)
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
        kept = {n.removeprefix(GENERATOR): v for n, v in values_of(found).items() if n.startswith(GENERATOR)}
        memory["generator"] = bytes_of(kept, kept)


def asked_of(labels: Array, site: Site) -> Array:
    """What a generator is asked: classes, one-hot, and chance."""
    from limbeck.models.latents import CHANCE

    chance = site.rng.normal(size=(len(labels), CHANCE))
    return np.hstack([np.eye(site.classes)[labels], chance]).astype(np.float32)


def counted(counts: Array, classes: int) -> Array:
    """A party's counts; none where they are no counts."""
    right = counts.shape == (classes,) and counts.dtype.kind in "iu" and (counts >= 0).all()
    return counts if right else np.zeros(classes, np.int64)
