"""Texts in tables and in files of arrays: the column `text` of a schema, and the setting `data.text`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from limbeck.data.table import Table
from limbeck.data.tokens import LENGTH, MAX_LENGTH, Kind, Tokens, check_vocabulary, decoded, read_vocabulary
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array
from limbeck.tables import check_fields, from_table

BYTES, ENDS = "text_{}.bytes", "text_{}.ends"  # arrays of an NPZ file, for `train` and `test`
COLUMN = "text"  # name of the column of texts that are no table
EXAMPLE = 'text = "review" (the name of a column) or text = { column = "review", length = 64 }'


@dataclass(frozen=True, slots=True)
class Text:
    """Column of texts. It becomes a row of token numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    tokens : {"words", "wordpiece", "wordpiece-cased"}
        Kind of the tokens.
    length : int
        Numbers in a row.
    vocabulary : tuple of str
        Vocabulary of `wordpiece`.
    kind : "text"
        Kind of the column in a schema file.
    """

    name: str
    tokens: Kind = "words"
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = LENGTH
    vocabulary: tuple[str, ...] = ()
    kind: Literal["text"] = "text"

    def __post_init__(self) -> None:
        check_vocabulary(self.tokens, self.vocabulary)

    @property
    def treatment(self) -> str:
        """What becomes of it, in words."""
        return f"a text: {self.length} token numbers"

    @property
    def rule(self) -> Tokens:
        """Rule that turns a text into numbers."""
        return Tokens(self.tokens, self.length, self.vocabulary)

    def check_encoder(self, encoder: Tokens | None) -> None:
        """Raise LimbeckError if a sentence encoder needs other tokens than those of a schema file."""
        if encoder and (self.tokens, self.vocabulary) != (encoder.tokens, encoder.vocabulary):
            raise LimbeckError(
                f"data.schema: the texts of {self.name!r} have other tokens than the sentence encoder features.path; "
                "name the column by data.text instead"
            )

    def encode(self, table: Table) -> Array:
        """Token numbers of the column, of shape (rows, length)."""
        values = table.column(self.name)
        texts = values.tolist()
        if values.dtype != object:  # a column of numbers
            texts = [f"{value:.15g}" if value == value else None for value in texts]
        return self.rule.encode(texts)


@dataclass(frozen=True, slots=True)
class TextSettings:
    """Setting `data.text`: the column of texts, and how they become numbers.

    Parameters
    ----------
    column : str
        Column of a table; not for a named set and NPZ files.
    tokens : {"words", "wordpiece", "wordpiece-cased"}, optional
        Kind of the tokens; by default `words`, or those of the sentence encoder.
    length : int
        Numbers in a row.
    vocabulary : str
        File with the vocabulary of `wordpiece`.
    """

    column: str = ""
    tokens: Kind | None = None
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = LENGTH
    vocabulary: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def rule(self, folder: Path) -> Tokens:
        """Rule of the texts; `folder` is what the path of the vocabulary is relative to."""
        lines = read_vocabulary(folder / self.vocabulary) if self.vocabulary else ()
        try:
            return Tokens(self.tokens or "words", self.length, lines)
        except LimbeckError as error:
            raise LimbeckError(f"data.text: {error}") from error


def text_settings(value: Any) -> TextSettings:
    """Setting `data.text` from a column's name or a table.

    Parameters
    ----------
    value : str or dict
        The value in the file.

    Returns
    -------
    TextSettings
        The setting.

    Examples
    --------
    >>> text_settings("review").column
    'review'
    """
    if isinstance(value, str) and value:
        return TextSettings(value)
    if not isinstance(value, dict):
        raise LimbeckError(f"write {EXAMPLE}")
    return from_table(TextSettings, value)


def column_of(public: Table, labels: Sequence[str], name: str, rule: Tokens) -> Text:
    """Column of texts of a table, which must be the only one beside the labels.

    Parameters
    ----------
    public : Table
        Public rows.
    labels : sequence of str
        Names of the label columns.
    name : str
        Name of the column of texts.
    rule : Tokens
        Rule of the texts.

    Returns
    -------
    Text
        The column.
    """
    if not name:
        raise LimbeckError(f"data.text names no column of {public.where}: write {EXAMPLE}")
    public.column(name)
    check_alone(public.where, name, list(public.without(*labels).columns))
    return Text(name, rule.tokens, rule.length, rule.vocabulary)


def check_alone(where: str, name: str, columns: Sequence[str]) -> None:
    """Raise LimbeckError if a column of texts is not the only one.

    Parameters
    ----------
    where : str
        The file, for the error message.
    name : str
        Name of the column of texts.
    columns : sequence of str
        Names of all columns, without the label.
    """
    if others := [other for other in columns if other != name]:
        raise LimbeckError(
            f"{where}: the column of texts {name!r} must be the only one beside the label, but there is "
            f"{others[0]!r} too; remove that column"
        )


def holds_texts(arrays: Any) -> bool:
    """Whether an NPZ file, or its arrays by name, holds texts."""
    return BYTES.format("train") in arrays


def texts_in(arrays: Any, part: str, length: int, where: str) -> list[str]:
    """Texts of one part of an NPZ file.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays of the file: `text_train.bytes` has all texts in UTF-8, `text_train.ends` where each ends.
    part : {"train", "test"}
        Part.
    length : int
        Tokens in a row.
    where : str
        The file, for error messages.

    Returns
    -------
    list of str
        First part of each text.
    """
    names = BYTES.format(part), ENDS.format(part)
    if names[1] not in arrays:
        raise LimbeckError(f"{where} has no array {names[1]}: where each text of {names[0]} ends")
    data, ends = (np.asarray(arrays[name]) for name in names)
    whole = data.dtype == np.uint8 and data.ndim == 1 and ends.ndim == 1 and ends.dtype.kind in "iu" and ends.size
    if not whole or (np.diff(ends.astype(np.int64), prepend=0) < 0).any() or ends[-1] > len(data):
        raise LimbeckError(
            f"{where}: {names[0]} must be bytes (uint8), and {names[1]} rising positions in it, one for each text"
        )
    return decoded(data, ends.astype(np.int64), length)


def with_tokens(arrays: dict[str, Array], rule: Tokens, where: str) -> dict[str, Array]:
    """Arrays of an NPZ file with token numbers, `x_train` and `x_test`, in place of texts.

    Parameters
    ----------
    arrays : dict of str to array
        Arrays of the file.
    rule : Tokens
        Rule of the texts.
    where : str
        The file, for error messages.

    Returns
    -------
    dict of str to array
        Arrays without texts.
    """
    found = {name: array for name, array in arrays.items() if not name.startswith("text_")}
    for part in ("train", "test"):
        if f"x_{part}" in arrays:
            raise LimbeckError(f"{where} holds texts and x_{part}; it must hold one of them")
        if BYTES.format(part) in arrays:
            found[f"x_{part}"] = rule.encode(texts_in(arrays, part, rule.length, where))
    return found
