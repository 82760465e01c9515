"""Courses in slots: the longest first, and a slot that becomes free is filled again, so that nobody waits."""

from collections.abc import Callable, Iterator, Sequence

from limbeck.models.stacked.course import Course, window
from limbeck.models.stacked.stack import WINDOW, Stack, State


def take(
    stack: Stack,
    courses: Sequence[Course],
    begin: Callable[[Course], State],
    is_due: Callable[[], bool] = lambda: False,
    keep: Callable[[], None] = lambda: None,
) -> Iterator[float]:
    """Take every course to its end; yields the share of all work that is done, after each window of steps.

    `begin` gives a course's weights of the moment. When a checkpoint is due, every course gets its state and `keep`
    is called; so it is at the end.
    """
    waiting = sorted((c for c in courses if c.remaining), key=lambda c: (-c.remaining, c.seed, c.place))
    slots: list[Course | None] = [None] * stack.depth
    total = sum(course.steps.total for course in courses)
    while waiting or any(slots):
        for slot in [slot for slot, course in enumerate(slots) if course is None][: len(waiting)]:
            slots[slot] = beginner = waiting.pop(0)
            stack.load(slot, begin(beginner))
        active = [(slot, course) for slot, course in enumerate(slots) if course is not None]
        steps = min(WINDOW, *(course.until_look for _, course in active))
        stack.advance(window(slots, steps, stack.recipe, stack.place.dtype))
        for slot, course in active:
            course.done += steps
            _look(stack, slot, course)
            if not course.remaining:
                course.state, course.best = {**stack.read(slot, course.moments is not None), **course.best}, {}
                slots[slot] = None
        if is_due():
            for slot, course in active:
                if course.remaining:
                    course.state = stack.read(slot, moments=True)
            keep()
        yield sum(course.steps.total - course.remaining for course in courses) / total
    keep()


def _look(stack: Stack, slot: int, course: Course) -> None:
    """At the end of an epoch, where training may stop early."""
    held_out = course.steps.held_out
    if not len(held_out) or course.done % course.steps.per_epoch:
        return
    rows, targets = (held_out + at for at in course.offsets)
    if course.patience.sees(stack.loss(slot, rows, targets)):
        course.best = stack.read(slot)
