"""What can go wrong in a way that a person can put right."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class LimbeckError(ValueError):
    """One line that names what is wrong, where, and what would be right."""


class LimbeckWarning(UserWarning):
    """One line about something that is allowed but probably not meant."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within it, a file that cannot be read, or is not the text it should be, is told in one line."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise LimbeckError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror or error}") from error


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The nearest right word as a question, or the list of right words when none is near."""
    known = sorted(choices)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(known)}" if known else "there are none"
