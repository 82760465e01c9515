"""Numbers as people write them: decimal commas, thousands, percent signs, and bounds such as `<5`.

Every value is read by itself, so that no row of a file changes how another row is read.
"""

import math
import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from limbeck.protocol.rows import Array

DECIMALS = (".", ",")
BLANKS = " \u00a0\u202f"  # as thousands separators, too
BOUND = "<>\u2264\u2265"  # <5 is read as 5
MINUS = "\u2212"
NONE = frozenset({"-", "--", "\u2013", ".", "..", "?", "n/a", "na", "n.a.", "none", "None"})  # missing, among numbers
NO_DIGIT = re.compile(r"[^0-9]")


def number_in(text: str, decimal: str = ".", thousands: str | None = None) -> float | None:
    """Read a number.

    Parameters
    ----------
    text : str
        A value of a table.
    decimal : {".", ","}
        The decimal mark.
    thousands : str, optional
        The mark between groups of three digits; by default a blank, an apostrophe, or that of comma and point which is
        not the decimal mark.

    Returns
    -------
    float or None
        The number; None if the text is not one. A percentage is divided by 100, and a bound such as `<5` is its number.

    Examples
    --------
    >>> [number_in(text, ",") for text in ("1.234,5", "<5", "12 %", "12.5", "n/a")]
    [1234.5, 5.0, 0.12, None, None]
    """
    found = _pattern(decimal, thousands).fullmatch(text.strip().replace(MINUS, "-"))
    if found is None:
        return None
    digits = f"{re.sub(NO_DIGIT, '', found['whole'])}.{found['part'] or '0'}"
    value = float(f"{found['sign']}{digits}{found['power'] or ''}")
    return value / 100 if found["percent"] else value


@lru_cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    between = re.escape(thousands if thousands is not None else f"{BLANKS}'\u2019" + ".,".replace(decimal, ""))
    grouped = rf"[1-9][0-9]{{0,2}}(?:[{between}][0-9]{{3}})+(?![0-9])" if between else r"(?!)"
    point = re.escape(decimal)
    return re.compile(
        rf"[{BOUND}]?=?\s*(?P<sign>[+-]?)(?={point}?[0-9])(?P<whole>{grouped}|[0-9]*)(?:{point}(?P<part>[0-9]*))?"
        rf"(?P<power>[eE][+-]?[0-9]+)?\s*(?P<percent>%?)"
    )


def numbers_in(
    values: Array, decimal: str = ".", thousands: str | None = None, either: bool = False
) -> tuple[Array, dict[str, int]]:
    """Read a column of texts.

    Parameters
    ----------
    values : object array of shape (rows,)
        Texts, None where one is missing.
    decimal : {".", ","}
        The decimal mark.
    thousands : str, optional
        The mark between groups of three digits.
    either : bool
        Whether numbers may also have the other decimal mark, as in an Excel file, whose own numbers have a point.

    Returns
    -------
    float64 array of shape (rows,)
        The numbers; NaN for a missing value, for a dash and the like, and for a text that is not a number.
    dict of str to int
        The texts that are not numbers, each with the index of its first row.
    """
    known: dict[str | None, float] = {None: math.nan, **dict.fromkeys(NONE, math.nan)}
    others: dict[str, int] = {}
    numbers = np.empty(len(values))
    for row, text in enumerate(values):
        value = known.get(text)
        if value is None:
            value = known[text] = _read_either(text, decimal, thousands) if either else _read(text, decimal, thousands)
            if value != value:
                others[text] = row
        numbers[row] = value
    return numbers, others


def _read_either(text: str, decimal: str, thousands: str | None) -> float:
    """Read a number with the decimal mark, if the text has it; else with a point, and then with a comma."""
    first = "," if decimal == "," and "," in text else "."
    value = _read(text, first, thousands)
    return value if value == value else _read(text, "." if first == "," else ",", thousands)


def _read(text: str, decimal: str, thousands: str | None) -> float:
    if text.lower().lstrip("+-") in ("inf", "infinity"):
        return float(text)
    value = number_in(text, decimal, thousands)
    return math.nan if value is None else value


def decimals_of(columns: Iterable[Array]) -> dict[str, int]:
    """Find which decimal mark columns have.

    Parameters
    ----------
    columns : iterable of object array
        Columns of texts, None where one is missing.

    Returns
    -------
    dict of str to int
        Index of the first column that can be read with this mark alone, by mark.

    Examples
    --------
    >>> decimals_of([np.array(["1", "2"], object), np.array(["1,5", "2"], object)])
    {',': 1}
    """
    found: dict[str, int] = {}
    for index, column in enumerate(columns):
        texts = {text for text in column if text is not None} - NONE
        readable = [mark for mark in DECIMALS if texts and all(number_in(text, mark) is not None for text in texts)]
        if len(readable) == 1:
            found.setdefault(readable[0], index)
    return found
