"""Steps of a training: rows, learning rates and random keys; the same for a network alone and in a stack."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

ABSENT = -1  # in place of the rows that a short batch lacks
ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class BatchSchedule:
    """Rows, learning rate and random key of each step of one training.

    Every epoch has its own random numbers, so that training can continue at any epoch.

    Parameters
    ----------
    rows : int
        Number of training rows.
    recipe : Recipe
        How the network is trained.
    seed : int
        Seed of the training.

    Examples
    --------
    >>> schedule = BatchSchedule(rows=6, recipe=Recipe(epochs=2, batch=4), seed=0)
    >>> schedule.per_epoch, schedule.total
    (2, 4)
    >>> (schedule.epoch(0) == ABSENT).sum(axis=1)
    array([0, 2])
    """

    rows: int
    recipe: Recipe
    seed: int

    @property
    def held_out(self) -> Array:
        """Numbers of the rows on which early stopping computes the loss; they are not trained on."""
        return self._order[: self._held]

    @cached_property
    def per_epoch(self) -> int:
        """Steps of an epoch; a single row left over is skipped, because one row has no variance for batch norm."""
        training_rows, batch = self.rows - self._held, self.recipe.batch
        passed_over = training_rows % batch == 1 < min(batch, training_rows)
        return math.ceil(training_rows / batch) - passed_over

    @property
    def total(self) -> int:
        """Steps of all epochs."""
        return self.recipe.epochs * self.per_epoch

    def epoch(self, number: int) -> Array:
        """Row numbers of an epoch, of shape (steps, batch); `ABSENT` where a batch is short."""
        training_rows = self._order[self._held :]
        shuffled = training_rows[stream(self.seed, "epoch", number).permutation(len(training_rows))]
        batches = np.full(self.per_epoch * self.recipe.batch, ABSENT, np.int32)
        batches[: len(training_rows)] = shuffled[: len(batches)]
        return batches.reshape(self.per_epoch, self.recipe.batch)

    def between(self, first: int, last: int) -> Array:
        """Row numbers of the steps from `first` up to `last`, exclusive, through all epochs."""
        begun, ended = first // self.per_epoch, math.ceil(last / self.per_epoch)
        epochs = np.concatenate([self.epoch(number) for number in range(begun, ended)])
        return epochs[first - begun * self.per_epoch :][: last - first]

    def rates(self, first: int, last: int) -> Array:
        """Learning rates of the steps from `first` up to `last`, exclusive."""
        epochs = np.arange(first, last) // self.per_epoch
        return np.array([rate(self.recipe, number) for number in range(self.recipe.epochs)])[epochs]

    def keys(self, first: int, last: int) -> Array:
        """Random keys of the steps from `first` up to `last`, exclusive, for dropout and augmentation."""
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
    """Early stopping after some epochs without a lower loss.

    Parameters
    ----------
    limit : int or None
        Number of these epochs; None means never.
    best : float
        Lowest loss so far.
    waited : int
        Epochs since the lowest loss.

    Examples
    --------
    >>> stopping = EarlyStopping(limit=1)
    >>> stopping.sees(0.5), stopping.sees(0.6), stopping.spent
    (True, False, True)
    """

    limit: int | None
    best: float = field(default=math.inf)
    waited: int = 0

    def sees(self, loss: float) -> bool:
        """Record the loss of an epoch; returns whether it is the lowest so far."""
        better = loss < self.best
        self.best, self.waited = (loss, 0) if better else (self.best, self.waited + 1)
        return better

    @property
    def spent(self) -> bool:
        """Whether training must stop."""
        return self.waited == self.limit


def rate(recipe: Recipe, epoch: int) -> float:
    """Learning rate of an epoch: constant, or half a cosine from the first to the final rate.

    Parameters
    ----------
    recipe : Recipe
        The recipe.
    epoch : int
        Number of the epoch, from 0.

    Returns
    -------
    float
        Learning rate.

    Examples
    --------
    >>> rate(Recipe(epochs=10, learning_rate=0.1, schedule="cosine"), 5)
    0.05
    """
    if recipe.schedule == "constant":
        return recipe.learning_rate
    span = recipe.learning_rate - recipe.final_learning_rate
    return recipe.final_learning_rate + span * (1 + math.cos(math.pi * epoch / recipe.epochs)) / 2
