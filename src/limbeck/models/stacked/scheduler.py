"""Courses in slots: the longest first, and a slot that becomes free is filled again, so that nobody waits."""

from collections.abc import Callable, Iterator, Sequence

from limbeck.models.stacked.stack import WINDOW, Stack, State
from limbeck.models.stacked.training_run import TrainingRun, window


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
    waiting = sorted((c for c in trainings if c.remaining), key=lambda c: (-c.remaining, c.seed, c.place))
    slots: list[TrainingRun | None] = [None] * stack.depth
    total = sum(training.steps.total for training in trainings)
    while waiting or any(slots):
        for slot in [slot for slot, training in enumerate(slots) if training is None][: len(waiting)]:
            slots[slot] = beginner = waiting.pop(0)
            stack.load(slot, begin(beginner))
        active = [(slot, training) for slot, training in enumerate(slots) if training is not None]
        steps = min(WINDOW, *(training.until_look for _, training in active))
        stack.advance(window(slots, steps, stack.recipe, stack.place.dtype))
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
        yield sum(training.steps.total - training.remaining for training in trainings) / total
    keep()


def _look(stack: Stack, slot: int, training: TrainingRun) -> None:
    """At the end of an epoch, where training may stop early."""
    held_out = training.steps.held_out
    if not len(held_out) or training.done % training.steps.per_epoch:
        return
    rows, targets = (held_out + at for at in training.offsets)
    if training.patience.sees(stack.loss(slot, rows, targets)):
        training.best = stack.read(slot)
