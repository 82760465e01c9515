"""A training: one network's way through its training, which can be interrupted anywhere and go on elsewhere.

Trainings take slots of a stack: the longest first, and a slot that becomes free is filled again, so that nobody waits.
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
    """`index` says which job it is; `offsets` where its rows and its targets begin among those of all.

    `name` is a hash of all that it depends on: places change with the order in which parties hand in their jobs.
    """

    index: int
    seed: int
    schedule: BatchSchedule
    offsets: tuple[int, int]
    start: bytes | None = None
    correction: bytes | None = None
    name: str = ""
    done: int = 0
    state: State = field(default_factory=dict)  # empty until it has begun, final once it is finished
    best: State = field(default_factory=dict)
    early_stopping: EarlyStopping = field(init=False)
    moments: State | None = field(init=False)  # that it goes on with, and gives back

    def __post_init__(self) -> None:
        self.early_stopping = EarlyStopping(self.schedule.recipe.patience)
        self.moments = moments_in(self.start)

    @property
    def taken(self) -> int:
        """Steps that its moments come from."""
        return int(self.moments[STEP_COUNT]) if self.moments else 0

    @property
    def final_moments(self) -> State | None:
        """What another training goes on with; None where none is to."""
        if self.moments is None:
            return None
        found = {name: values for name, values in self.state.items() if name.partition("#")[2].isdecimal()}
        return {**found, STEP_COUNT: torch.tensor([self.taken + self.done])}

    @property
    def remaining(self) -> int:
        return 0 if self.early_stopping.spent else self.schedule.total - self.done

    @property
    def until_look(self) -> int:
        """Steps until somebody must look: the end of the epoch where training may stop early, or of it all."""
        if self.schedule.recipe.patience is None:
            return self.remaining
        return self.schedule.per_epoch - self.done % self.schedule.per_epoch

    def begin(self, model: TorchModel, row: tuple[int, ...], classes: int) -> State:
        """Its weights of the moment: fresh ones, made as for a network that is trained alone, if it has none."""
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
    """Take every training to its end; yields the share of all work that is done, after each window of steps.

    `begin` gives a training's weights of the moment. When a checkpoint is due, every training gets its state and `keep`
    is called; so it is at the end.
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
    """At the end of an epoch, where training may stop early."""
    held_out = training.schedule.held_out
    if not len(held_out) or training.done % training.schedule.per_epoch:
        return
    rows, targets = (held_out + at for at in training.offsets)
    if training.early_stopping.sees(stack.loss(slot, rows, targets)):
        training.best = stack.read(slot)


def window(trainings: list[TrainingRun | None], steps: int, recipe: Recipe, dtype: torch.dtype) -> Window:
    """The next steps of all trainings; an empty slot learns nothing."""
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
    """Rates and scales with Adam's bias corrections in them, which are close to 1 late and must be exact early."""
    if recipe.optimizer == "sgd":
        return rates, np.ones_like(rates)
    steps = np.arange(first + 1, first + 1 + len(rates))
    return rates / (1 - ADAM_BETAS[0] ** steps), 1 / np.sqrt(1 - ADAM_BETAS[1] ** steps)
