"""What can go wrong in a way that a person can put right."""

from collections.abc import Iterable
from difflib import get_close_matches


class LimbeckError(ValueError):
    """One line that names what is wrong, where, and what would be right."""


class LimbeckWarning(UserWarning):
    """One line about something that is allowed but probably not meant."""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The nearest right word as a question, or the list of right words when none is near."""
    known = sorted(choices)
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(known)}" if known else "there are none"
