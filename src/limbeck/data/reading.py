"""How a file of text is read: encoding, separator, decimal mark, and so on. What the user does not state is found.

A file of private rows is read by what its first line and the public rows show, and never by its other rows. Each value
and each line is decoded by itself. One private row then cannot change how another row is read.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from limbeck.data.numbers import decimals_of
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array
from limbeck.tables import check_fields, from_table

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BINARY = {b"PK\x03\x04": "an Excel file or an archive", b"\xd0\xcf\x11\xe0": "an Excel file", b"PAR1": "a Parquet file"}
STATED = re.compile(r'"?sep=(.)"?\s*')  # the first line of files for Excel
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"})


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: the table `[data.reading]`. What is None is found for each file.

    Parameters
    ----------
    separator : str, optional
        The mark between the columns of a CSV file.
    decimal : {".", ","}, optional
        The decimal mark.
    thousands : str, optional
        The mark between groups of three digits.
    encoding : str, optional
        The encoding of a CSV file.
    missing : tuple of str
        Values that count as missing, besides empty ones, `NA`, `N/A`, `NaN` and `null`.
    dates : str, optional
        The form of dates, such as `%d/%m/%Y`.
    sheet : str, optional
        The sheet of an Excel file; by default the first.
    """

    separator: str | None = None
    decimal: Literal[".", ","] | None = None
    thousands: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    dates: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for key in ("separator", "thousands"):
            mark = getattr(self, key)
            if mark is not None and (
                len(mark) != 1 or (key == "separator" and (not mark.isascii() or mark in '"\r\n'))
            ):
                raise LimbeckError(f"{key} = {mark!r}: give one character")
        if self.decimal is not None and self.decimal == self.thousands:
            raise LimbeckError(f"decimal = {self.decimal!r}: thousands must be another character")
        if self.dates is not None and not _is_form(self.dates):
            raise LimbeckError(f'dates = {self.dates!r}: give a form such as "%d/%m/%Y"')
        try:
            "".encode(self.encoding or "utf-8")
        except LookupError as error:
            raise LimbeckError(f"encoding = {self.encoding!r} is not known; try utf-8 or cp1252") from error

    def with_decimal(self, columns: Mapping[str, Array], like: "Reading | None", where: str) -> "Reading":
        """Return it with the decimal mark of a table.

        Parameters
        ----------
        columns : mapping of str to array
            The columns of the table; those of texts have dtype object.
        like : Reading or None
            The reading of the public rows. If it is given, the values decide nothing.
        where : str
            The file, for error messages.

        Returns
        -------
        Reading
            With a decimal mark.
        """
        if self.decimal is not None:
            return self
        usual: Literal[".", ","] = "," if self.separator == ";" else "."
        if like is not None:
            same = self.separator in (None, like.separator)
            return replace(self, decimal=like.decimal if same and like.decimal else usual)
        found = decimals_of(column for column in columns.values() if column.dtype == object)
        if len(found) > 1 and self.separator is None:  # values of other files than CSV may be either
            return replace(self, decimal=",")
        if len(found) > 1:
            names = [name for name, column in columns.items() if column.dtype == object]
            raise LimbeckError(
                f"{where}: the column {names[found[',']]!r} has decimal commas and {names[found['.']]!r} decimal "
                'points; set decimal = "," or "." in [data.reading], or mend one column'
            )
        mark: Any = next(iter(found), usual)
        return replace(self, decimal=mark)

    def in_words(self) -> str:
        """Describe it in one line.

        Examples
        --------
        >>> Reading(";", ",", encoding="utf-8").in_words()
        'semicolons between columns, decimal comma, utf-8'
        """
        return ", ".join(
            [
                *([f"{_named(self.separator)} between columns"] if self.separator else []),
                *([f"decimal {'comma' if self.decimal == ',' else 'point'}"] if self.decimal else []),
                *([f"{self.thousands!r} between thousands"] if self.thousands is not None else []),
                *([self.encoding] if self.encoding else []),
                *([f"dates {self.dates}"] if self.dates else []),
                *([f"missing: {', '.join(self.missing)}"] if self.missing else []),
            ]
        )


def _is_form(text: str) -> bool:
    """Whether a form of dates has a day, a month and a year, each once."""
    try:
        return datetime.strptime(datetime(1999, 12, 31).strftime(text), text) == datetime(1999, 12, 31)
    except (ValueError, re.error):
        return False


UNSTATED = Reading()


def reading_in(value: Any) -> Reading:
    """Reading that a table `[data.reading]` describes."""
    if not isinstance(value, Mapping):
        raise LimbeckError('write reading = { separator = ";", decimal = "," }')
    missing = value.get("missing", ())
    if not isinstance(missing, list | tuple) or not all(isinstance(mark, str) for mark in missing):
        raise LimbeckError('missing: give a list of strings, such as ["k.A.", "-999"]')
    return from_table(Reading, {**value, **({"missing": tuple(missing)} if missing else {})})


def decoded(data: bytes, path: Path, encoding: str | None) -> tuple[str, str]:
    """Decode the bytes of a text file.

    Parameters
    ----------
    data : bytes
        The file.
    path : Path
        Its path, for error messages.
    encoding : str or None
        The stated encoding; None finds it.

    Returns
    -------
    str
        The text.
    str
        The encoding. A line that is not UTF-8 is read as Windows-1252, by itself.
    """
    for start, kind in BINARY.items():
        if data.startswith(start):
            raise LimbeckError(f"{path} is {kind}, not text; give it the ending of its kind, such as .xlsx")
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    if encoding or marked:
        try:
            return data.decode(encoding or marked or ""), encoding or marked or ""
        except UnicodeDecodeError as error:
            raise LimbeckError(
                f"{path} is not {encoding or marked} text; set another encoding in [data.reading]"
            ) from error
    if b"\x00" in data:
        raise LimbeckError(f"{path} is not a text file: it holds zero bytes; set encoding in [data.reading]")
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return "".join(_line(line) for line in data.splitlines(keepends=True)), "Windows-1252"


def _line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def separator_of(text: str, stated: str | None) -> tuple[str, str]:
    """Find the separator of a CSV file in its first line.

    Parameters
    ----------
    text : str
        The file.
    stated : str or None
        The separator that the user states.

    Returns
    -------
    str
        The text without a first line `sep=;`.
    str
        The separator: as stated, else the most frequent mark of the first line outside quotes.

    Examples
    --------
    >>> separator_of('"a,b";c', None)
    ('"a,b";c', ';')
    """
    first, line, rest = text.partition("\n")
    if line and (found := STATED.fullmatch(first)):
        return rest, stated or found[1]
    if stated:
        return text, stated
    unquoted = re.sub(r'"[^"]*"', "", first)
    return text, max(SEPARATORS, key=unquoted.count)


def check_quotes(text: str, separator: str, path: Path) -> None:
    """Raise LimbeckError if a quotation mark neither begins nor ends a value, or is doubled within one.

    A value whose end mark is missing would swallow the rows that follow.

    Parameters
    ----------
    text : str
        A CSV file.
    separator : str
        Its separator.
    path : Path
        The file, for the error message.
    """
    if '"' not in text:
        return
    mark = re.escape(separator)
    rest = re.sub(rf'(?<![^{mark}\n])"[^"]*(?:""[^"]*)*"(?=[{mark}\n]|\Z)', "", text)
    if (place := rest.find('"')) >= 0:
        row = rest.count("\n", 0, place)
        raise LimbeckError(
            f"{path}: row {row} has a quotation mark within a value, or none at its end; put the value in quotation "
            "marks, and double those within it"
        )


def _named(separator: str) -> str:
    return SEPARATORS.get(separator, repr(separator))


def check_names(names: Iterable[str], where: str) -> None:
    """Raise LimbeckError if a column's name occurs twice."""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise LimbeckError(f"{where}: the column {name!r} occurs twice; rename one")
        seen.add(name)
