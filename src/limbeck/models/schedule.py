"""The steps of a training: which rows, at what rate, by which chance; the same for a network alone and in a stack."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

ABSENT = -1  # in place of a row that a short batch lacks
ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class BatchSchedule:
    """What each step of one training does. Every epoch has chance of its own, so that one can begin anywhere."""

    rows: int
    recipe: Recipe
    seed: int

    @property
    def held_out(self) -> Array:
        """Numbers of the rows that early stopping looks at; nothing is learned from them."""
        return self._order[: self._held]

    @cached_property
    def per_epoch(self) -> int:
        """A single row left over is passed over: batch norm has no variance of one row."""
        training_rows, batch = self.rows - self._held, self.recipe.batch
        passed_over = training_rows % batch == 1 < min(batch, training_rows)
        return math.ceil(training_rows / batch) - passed_over

    @property
    def total(self) -> int:
        return self.recipe.epochs * self.per_epoch

    def epoch(self, number: int) -> Array:
        """[steps, batch] row numbers, `ABSENT` where a batch is short."""
        training_rows = self._order[self._held :]
        shuffled = training_rows[stream(self.seed, "epoch", number).permutation(len(training_rows))]
        batches = np.full(self.per_epoch * self.recipe.batch, ABSENT, np.int32)
        batches[: len(training_rows)] = shuffled[: len(batches)]
        return batches.reshape(self.per_epoch, self.recipe.batch)

    def between(self, first: int, last: int) -> Array:
        """The same for steps `first` up to `last`, through all epochs."""
        begun, ended = first // self.per_epoch, math.ceil(last / self.per_epoch)
        epochs = np.concatenate([self.epoch(number) for number in range(begun, ended)])
        return epochs[first - begun * self.per_epoch :][: last - first]

    def rates(self, first: int, last: int) -> Array:
        """The learning rate of each step."""
        epochs = np.arange(first, last) // self.per_epoch
        return np.array([rate(self.recipe, number) for number in range(self.recipe.epochs)])[epochs]

    def keys(self, first: int, last: int) -> Array:
        """Chance of each step, for dropout and augmentation."""
        first_key = stream(self.seed, "chance").integers(2**62)
        with np.errstate(over="ignore"):
            return first_key + np.arange(first, last, dtype=np.int64) * np.int64(0x2545F4914F6CDD1D)

    @cached_property
    def _held(self) -> int:
        if self.recipe.patience is None:
            return 0
        return min(max(1, int(self.rows * self.recipe.held_out)), max(0, self.rows - 2))

    @cached_property
    def _order(self) -> Array:
        return stream(self.seed, "rows").permutation(self.rows).astype(np.int32)


@dataclass(slots=True)
class EarlyStopping:
    """Early stopping: how long ago the loss was lowest."""

    limit: int | None
    best: float = field(default=math.inf)
    waited: int = 0

    def sees(self, loss: float) -> bool:
        """Whether this loss is the lowest so far."""
        better = loss < self.best
        self.best, self.waited = (loss, 0) if better else (self.best, self.waited + 1)
        return better

    @property
    def spent(self) -> bool:
        return self.waited == self.limit


def rate(recipe: Recipe, epoch: int) -> float:
    """The learning rate of an epoch: constant, or half a cosine from the first to the final rate."""
    if recipe.schedule == "constant":
        return recipe.learning_rate
    span = recipe.learning_rate - recipe.final_learning_rate
    return recipe.final_learning_rate + span * (1 + math.cos(math.pi * epoch / recipe.epochs)) / 2
