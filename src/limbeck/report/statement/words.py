"""Words, numbers and tables that all parts of the privacy statement share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

WHO = {"server": "the server", "parties": "the other parties", "public": "the public"}
RELATIONS = {"replace": "replaced", "add-remove": "added or removed"}
WITHOUT_NOISE = ("unprotected", "post-processing")
NETWORK = "flower"  # the engine of a run between organisations


def count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(3, "party", "parties")
    ('1 row', '3 parties')
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration.

    Examples
    --------
    >>> listed(["the server", "the other parties", "the public"])
    'the server, the other parties and the public'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def number(epsilon: float) -> str:
    """Return an epsilon as text.

    Examples
    --------
    >>> number(1.91423), number(float("inf"))
    ('1.914', '∞')
    """
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"


def is_are(guarantee: Mapping[str, Any]) -> str:
    """Return the verb that fits `unit_of`."""
    return "is" if unit_of(guarantee) == "one row" else "are"


def plain(value: float) -> str:
    """Return a probability without an exponent.

    Examples
    --------
    >>> plain(1e-5), plain(0.25)
    ('0.00001', '0.25')
    """
    return f"{value:.10f}".rstrip("0").rstrip(".") if value >= 1e-9 else f"{value:g}"


def one_in(value: float) -> str:
    """Return a probability, if it is small also as one in so many.

    Examples
    --------
    >>> one_in(1e-5), one_in(0.25)
    ('0.00001 (1 in 100,000)', '0.25')
    """
    return f"{plain(value)} (1 in {round(1 / value):,})" if 0 < value < 0.01 else plain(value)


def percent(probability: float) -> str:
    """Return a probability in percent, rounded up, so that a limit stays a limit.

    Examples
    --------
    >>> percent(0.88079), percent(0.99966), percent(0.999999)
    ('88.1 %', '99.97 %', '100 %')
    """
    digits = 1 if probability <= 0.999 else 2
    return f"{math.ceil(probability * 10 ** (2 + digits) - 1e-9) / 10**digits:g} %"


def unit_of(guarantee: Mapping[str, Any]) -> str:
    """Return who is protected by a guarantee."""
    if guarantee["unit"] == "party":
        return "all rows of one party"
    rows = guarantee.get("rows", 1)
    return "one row" if rows == 1 else f"up to {rows} rows of one person"


def table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [heading, ["---"] * len(heading), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def bullets(lines: Sequence[str]) -> str:
    """Return a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)
