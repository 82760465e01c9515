"""Dates in tables: the forms in which they are written, and the column kind `date` of a schema."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from limbeck.data.table import Table
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

ISO = "%Y-%m-%d"
CLEAR = ("%d.%m.%Y", "%Y/%m/%d", "%d %b %Y", "%d-%b-%Y")  # forms that cannot mean another day
FORMS = (ISO, "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%d.%m.%y")
TIMES = ("", " %H:%M", " %H:%M:%S")
SAMPLE = 100  # texts that are tried with every form
SECONDS_OF_A_DAY = 86400.0
EPOCH = datetime(1970, 1, 1)


def day_of(text: str, form: str) -> float | None:
    """Days since 1970-01-01 of a date, with the time of day as a fraction; None if the text is no such date.

    Examples
    --------
    >>> day_of("2.1.1970 12:00", "%d.%m.%Y"), day_of("1970-01-03T06:00:00", ISO), day_of("soon", ISO)
    (1.5, 2.25, None)
    """
    if form == ISO:
        try:
            day = datetime.fromisoformat(text)
            day = day.astimezone(UTC).replace(tzinfo=None) if day.tzinfo else day
        except (ValueError, OverflowError):
            return None
        return (day - EPOCH).total_seconds() / SECONDS_OF_A_DAY if len(text) >= len("2000-01-01") else None
    for time in TIMES:
        try:
            return (datetime.strptime(text, form + time) - EPOCH).total_seconds() / SECONDS_OF_A_DAY
        except ValueError:
            continue
    return None


def days_of(values: Array, form: str) -> tuple[Array, dict[str, int]]:
    """Days of a column of texts, NaN where one is missing; and the texts that are no dates, with their first rows."""
    known: dict[str | None, float] = {None: np.nan}
    others: dict[str, int] = {}
    days = np.empty(len(values))
    for row, text in enumerate(values):
        if text not in known:
            day = next((found for each in (form, ISO, *CLEAR) if (found := day_of(text, each)) is not None), None)
            known[text] = np.nan if day is None else day
            if day is None:
                others[text] = row
        days[row] = known[text]
    return days, others


def _hits(texts: Sequence[str], form: str) -> int:
    return sum(day_of(text, form) is not None for text in texts)


def form_of(values: Array, stated: str | None, where: str) -> str | None:
    """Find the form of a column of public dates: most of its texts are dates in this form.

    Parameters
    ----------
    values : object array of shape (rows,)
        Texts, None where one is missing.
    stated : str or None
        The form that the user states.
    where : str
        File and column, for error messages.

    Returns
    -------
    str or None
        The form; None if the texts are no dates.

    Examples
    --------
    >>> form_of(np.array(["31.1.2020", None, "1.2.2020"], object), None, "a.csv")
    '%d.%m.%Y'
    """
    texts = sorted({text for text in values if text is not None})
    forms = (*([stated] if stated else []), *FORMS)
    some = texts[:: max(1, len(texts) // SAMPLE)]
    hits = {form: _hits(texts, form) for form in forms if _hits(some, form) > len(some) / 3}
    most = max(hits.values(), default=0)
    possible = [form for form, count in hits.items() if count == most and count > len(texts) / 2]
    if not stated and possible[:2] == ["%d/%m/%Y", "%m/%d/%Y"]:
        raise LimbeckError(
            f"{where} holds dates such as {min(texts)!r}, whose day and month cannot be distinguished: "
            'set dates = "%d/%m/%Y" or "%m/%d/%Y" in [data.reading]'
        )
    return possible[0] if possible else None


@dataclass(frozen=True, slots=True)
class Date:
    """Column of dates. It becomes the days since a public date, the month from 1 and the weekday from 0 (Monday).

    Parameters
    ----------
    name : str
        Name of the column.
    origin : str
        The public date.
    missing : str
        Replacement for missing dates.
    form : str
        How dates are written in tables that do not state another form.
    kind : "date"
        Kind of the column in a schema file.
    marks : tuple of str
        Texts that stand for a missing date.
    """

    name: str
    origin: str
    missing: str
    form: str = ISO
    kind: Literal["date"] = "date"
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("origin", "missing"):
            if day_of(getattr(self, key), ISO) is None:
                raise LimbeckError(f"{key} = {getattr(self, key)!r}: write a date such as 2020-01-31")

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        return (f"{self.name} (days)", f"{self.name} (month)", f"{self.name} (weekday)")

    @property
    def treatment(self) -> str:
        """What becomes of it, in words."""
        return f"a date: days since {self.origin}, month, weekday"

    def encode(self, table: Table) -> Array:
        """Numbers of the column, of shape (rows, 3)."""
        days, others = days_of(table.texts(self.name), table.reading.dates or self.form)
        for text, row in others.items():
            if text in self.marks:
                continue
            raise LimbeckError(
                f"{table.where}: the column {self.name!r} holds {text!r} in row {row + 1}, not a date such as "
                f"{datetime.fromisoformat(self.origin).strftime(table.reading.dates or self.form)}; "
                "mend it, or set dates in [data.reading]"
            )
        whole = np.where(np.isnan(days), _day(self.missing), days)
        return np.stack([whole - _day(self.origin), _months(whole), (np.floor(whole) + 3) % 7], axis=1)

    @staticmethod
    def learned(name: str, values: Array, form: str) -> "Date":
        """The column of public dates: the first one is the origin, the median replaces missing ones."""
        days, others = days_of(values, form)
        middle = np.floor(np.nanmedian(days))
        return Date(name, _text(np.floor(np.nanmin(days))), _text(middle), form, marks=tuple(others))


def _day(text: str) -> float:
    day = day_of(text, ISO)
    assert day is not None
    return day


def _months(days: Array) -> Array:
    months: Any = np.floor(days).astype("datetime64[D]").astype("datetime64[M]")
    return np.asarray(months.astype(np.int64) % 12 + 1, np.float64)


def _text(day: Any) -> str:
    return str(np.datetime64(int(day), "D"))
