"""Training of one network, which can be interrupted after any window of steps and continue elsewhere.

Training runs share the slots of a stack. The longest run first, and a slot that becomes free is filled at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from safetensors.torch import load

from limbeck.models.schedule import ABSENT, ADAM_BETAS, BatchSchedule, EarlyStopping
from limbeck.models.stacked.stack import CORRECTION, WINDOW, Stack, State, Window
from limbeck.models.torch import TorchModel, alone, moments_in
from limbeck.models.weights import STEP_COUNT
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array


@dataclass(slots=True)
class TrainingRun:
    """Training of one network in a stack.

    Parameters
    ----------
    index : int
        Number of its job.
    seed : int
        Seed of the initial weights.
    schedule : BatchSchedule
        Its steps.
    offsets : (int, int)
        Positions of its first row and of its first target in the stack's data.
    start : bytes or None
        Initial weights (safetensors).
    correction : bytes or None
        Added to every gradient (safetensors).
    name : str
        Hash of all that the training depends on, for checkpoints; `index` can differ from run to run.
    done : int
        Steps taken so far.
    state : dict
        Weights; empty before the first step, final after the last one.
    best : dict
        Weights with the lowest loss on the held-out rows so far.

    Attributes
    ----------
    early_stopping : EarlyStopping
        When to stop.
    moments : dict or None
        Optimizer moments to start with; None if no other training continues this one.
    """

    index: int
    seed: int
    schedule: BatchSchedule
    offsets: tuple[int, int]
    start: bytes | None = None
    correction: bytes | None = None
    name: str = ""
    done: int = 0
    state: State = field(default_factory=dict)
    best: State = field(default_factory=dict)
    early_stopping: EarlyStopping = field(init=False)
    moments: State | None = field(init=False)

    def __post_init__(self) -> None:
        self.early_stopping = EarlyStopping(self.schedule.recipe.patience)
        self.moments = moments_in(self.start)

    @property
    def taken(self) -> int:
        """Number of steps behind the initial moments."""
        return int(self.moments[STEP_COUNT]) if self.moments else 0

    @property
    def final_moments(self) -> State | None:
        """Moments with which another training continues, or None."""
        if self.moments is None:
            return None
        found = {name: values for name, values in self.state.items() if name.partition("#")[2].isdecimal()}
        return {**found, STEP_COUNT: torch.tensor([self.taken + self.done])}

    @property
    def remaining(self) -> int:
        """Number of steps that remain."""
        return 0 if self.early_stopping.spent else self.schedule.total - self.done

    @property
    def until_look(self) -> int:
        """Steps until the next check: to the end of the epoch with early stopping, else to the end."""
        if self.schedule.recipe.patience is None:
            return self.remaining
        return self.schedule.per_epoch - self.done % self.schedule.per_epoch

    def begin(self, model: TorchModel, row: tuple[int, ...], classes: int) -> State:
        """Current state; at the beginning with fresh weights, as for a network that is trained alone."""
        if not self.state:
            correction = load(self.correction) if self.correction else {}
            with alone(self.seed):
                self.state = {
                    **model.started(row, classes, self.start).state_dict(),
                    **(self.moments or {}),
                    **{f"{name}{CORRECTION}": values for name, values in correction.items()},
                }
        return self.state


def take(
    stack: Stack,
    trainings: Sequence[TrainingRun],
    begin: Callable[[TrainingRun], State],
    is_due: Callable[[], bool] = lambda: False,
    keep: Callable[[], None] = lambda: None,
) -> Iterator[float]:
    """Train all networks to the end.

    Parameters
    ----------
    stack : Stack
        The stack; its depth is the number of networks that train at once.
    trainings : sequence of TrainingRun
        The trainings; their final weights are in `state` afterwards.
    begin : callable
        Gives the current state of a training.
    is_due : callable
        Whether a checkpoint is due; then every training's `state` is brought up to date.
    keep : callable
        Saves a checkpoint; also called at the end.

    Yields
    ------
    float
        Share of all steps that are done, after each window.
    """
    waiting = sorted((c for c in trainings if c.remaining), key=lambda c: (-c.remaining, c.seed, c.index))
    slots: list[TrainingRun | None] = [None] * stack.depth
    total = sum(training.schedule.total for training in trainings)
    while waiting or any(slots):
        for slot in [slot for slot, training in enumerate(slots) if training is None][: len(waiting)]:
            slots[slot] = beginner = waiting.pop(0)
            stack.load(slot, begin(beginner))
        active = [(slot, training) for slot, training in enumerate(slots) if training is not None]
        steps = min(WINDOW, *(training.until_look for _, training in active))
        stack.advance(window(slots, steps, stack.recipe, stack.device.dtype))
        for slot, training in active:
            training.done += steps
            _look(stack, slot, training)
            if not training.remaining:
                training.state = {**stack.read(slot, training.moments is not None), **training.best}
                training.best = {}
                slots[slot] = None
        if is_due():
            for slot, training in active:
                if training.remaining:
                    training.state = stack.read(slot, moments=True)
            keep()
        yield sum(training.schedule.total - training.remaining for training in trainings) / total
    keep()


def _look(stack: Stack, slot: int, training: TrainingRun) -> None:
    """At the end of an epoch with early stopping: compute the loss on the held-out rows."""
    held_out = training.schedule.held_out
    if not len(held_out) or training.done % training.schedule.per_epoch:
        return
    rows, targets = (held_out + at for at in training.offsets)
    if training.early_stopping.sees(stack.loss(slot, rows, targets)):
        training.best = stack.read(slot)


def window(trainings: list[TrainingRun | None], steps: int, recipe: Recipe, dtype: torch.dtype) -> Window:
    """Next steps of all trainings.

    Parameters
    ----------
    trainings : list of TrainingRun or None
        The training in each slot; an empty slot has no rows.
    steps : int
        Number of steps.
    recipe : Recipe
        Recipe of all trainings.
    dtype : torch.dtype
        Precision of the stack.

    Returns
    -------
    Window
        The steps.
    """
    precise = np.float64 if dtype == torch.float64 else np.float32
    rows, targets = (np.full((steps, len(trainings), recipe.batch), ABSENT, np.int32) for _ in range(2))
    rates, scales = (np.zeros((steps, len(trainings)), precise) for _ in range(2))
    keys = np.zeros((steps, len(trainings)), np.int64)
    for slot, training in enumerate(trainings):
        if training is None:
            continue
        first, last = training.done, training.done + steps
        local = training.schedule.between(first, last)
        rows[:, slot], targets[:, slot] = (np.where(local < 0, ABSENT, local + at) for at in training.offsets)
        keys[:, slot] = training.schedule.keys(first, last)
        rates[:, slot], scales[:, slot] = bias_corrected(
            training.schedule.rates(first, last), training.taken + first, recipe
        )
    return Window(rows, targets, rates, scales, keys)


def bias_corrected(rates: Array, first: int, recipe: Recipe) -> tuple[Array, Array]:
    """Learning rates and scales that contain Adam's bias corrections.

    Parameters
    ----------
    rates : array of shape (steps,)
        Learning rates.
    first : int
        Number of steps before these.
    recipe : Recipe
        Recipe; with SGD there is nothing to correct.

    Returns
    -------
    rates : array of shape (steps,)
        Rate / (1 - beta1^t) in step t = first + 1, ...
    scales : array of shape (steps,)
        1 / sqrt(1 - beta2^t), the factor of the root of the second moment.

    Notes
    -----
    Kingma & Ba 2015, Algorithm 1. The corrections are close to 1 in late steps, but must be exact in early ones.

    Examples
    --------
    >>> rates, scales = bias_corrected(np.array([0.001]), 0, Recipe())
    >>> rates.round(3), scales.round(2)
    (array([0.01]), array([31.62]))
    """
    if recipe.optimizer == "sgd":
        return rates, np.ones_like(rates)
    steps = np.arange(first + 1, first + 1 + len(rates))
    return rates / (1 - ADAM_BETAS[0] ** steps), 1 / np.sqrt(1 - ADAM_BETAS[1] ** steps)
