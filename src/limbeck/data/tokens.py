"""Texts as rows of token numbers, by one public rule that all sites share.

A row has a fixed length. Its values are whole numbers in float32, and 0 stands for no token. No text causes an error:
whatever is not a word of any alphabet gives no number.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from limbeck.errors import LimbeckError, missing_extra, reading
from limbeck.protocol.rows import Array
from limbeck.tables import check_fields

LENGTH = 128
MAX_LENGTH = 512
CHARACTERS = 16  # of a text that are read, for each token of a row
WORDS = 2**16 - 1  # numbers of hashed words
MAX_VOCABULARY = 2**20
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
UNSPACED = (  # scripts without spaces, and pictures: every character is a token
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2600-\u27bf\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001f300-\U0001faff\U00020000-\U0003ffff"
)
MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff"  # parts of words that are not letters, such as Indic vowels
WORD = re.compile(f"[{UNSPACED}]|(?:(?![{UNSPACED}])[\\w{MARKS}])+")

Kind = Literal["words", "wordpiece", "wordpiece-cased"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Rule that turns a text into a row of token numbers.

    Parameters
    ----------
    tokens : {"words", "wordpiece", "wordpiece-cased"}
        `words`: words in lower case, hashed to 1 to 65535. `wordpiece`: parts of words from the vocabulary of an
        encoder such as BERT, in lower case; `wordpiece-cased` keeps the case.
    length : int
        Numbers in a row, at most 512. Longer texts are cut.
    vocabulary : tuple of str
        Lines of the encoder's `vocab.txt`, for `wordpiece`.

    Raises
    ------
    LimbeckError
        If a value is not valid, or a vocabulary is missing or not one of an encoder.

    Examples
    --------
    >>> Tokens(length=4).encode(["Good film", "good", None])
    array([[49991., 21544.,     0.,     0.],
           [49991.,     0.,     0.,     0.],
           [    0.,     0.,     0.,     0.]], dtype=float32)
    """

    tokens: Kind = "words"
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = LENGTH
    vocabulary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        check_vocabulary(self.tokens, self.vocabulary)

    def encode(self, texts: Sequence[Any]) -> Array:
        """Token numbers of texts.

        Parameters
        ----------
        texts : sequence of str or None
            Texts; None is an empty text.

        Returns
        -------
        float32 array of shape (rows, length)
            Whole numbers; 0 stands for no token.
        """
        cut = [_plain(text)[: CHARACTERS * self.length] for text in texts]
        numbers = self._hashed(cut) if self.tokens == "words" else self._pieces(cut)
        found = np.zeros((len(cut), self.length), np.float32)
        for row, own in enumerate(numbers):
            found[row, : len(own)] = own[: self.length]
        return found

    def _hashed(self, texts: list[str]) -> Iterable[list[int]]:
        for text in texts:
            words = WORD.findall(unicodedata.normalize("NFC", text).lower())
            yield [_number(word) for word in words[: self.length]]

    def _pieces(self, texts: list[str]) -> Iterable[list[int]]:
        tokenizer = _tokenizer(self.vocabulary, self.tokens == "wordpiece")
        first, last = map(self.vocabulary.index, ("[CLS]", "[SEP]"))
        for text in texts:
            valid = text.encode("utf-8", "replace").decode()  # no half of a surrogate pair
            pieces = tokenizer.encode(valid, add_special_tokens=False).ids[: max(0, self.length - 2)]
            yield [first, *pieces, last] if text else []

    @property
    def facts(self) -> dict[str, Any]:
        """What determines the numbers, with the hash of the vocabulary."""
        digest = hashlib.sha256("\n".join(self.vocabulary).encode()).hexdigest() if self.vocabulary else ""
        return {"tokens": self.tokens, "length": self.length, "vocabulary": digest}


def check_vocabulary(tokens: Kind, vocabulary: Sequence[str]) -> None:
    """Raise LimbeckError unless a kind of tokens has the vocabulary that it needs.

    Parameters
    ----------
    tokens : {"words", "wordpiece", "wordpiece-cased"}
        Kind of the tokens.
    vocabulary : sequence of str
        Lines of `vocab.txt`.
    """
    if tokens == "words":
        if vocabulary:
            raise LimbeckError('vocabulary is for tokens = "wordpiece", not "words"')
        return
    if not vocabulary:
        raise LimbeckError(f'tokens = "{tokens}" needs a vocabulary: the lines of the encoder\'s vocab.txt')
    if vocabulary[0] != "[PAD]" or not set(SPECIAL) <= set(vocabulary) or len(vocabulary) > MAX_VOCABULARY:
        raise LimbeckError(
            "vocabulary: it must be that of an encoder such as BERT: [PAD] in the first line, and lines with [UNK], "
            f"[CLS] and [SEP]; at most {MAX_VOCABULARY} lines"
        )


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """Read the lines of an encoder's `vocab.txt`."""
    with reading(path):
        lines = path.read_text(encoding="utf-8").split("\n")
    return tuple(line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1]))


def as_texts(x: Any) -> Sequence[Any] | None:
    """Rows as texts, if they are a list, a column or an array of texts; else None.

    Parameters
    ----------
    x : Any
        Rows that a user gave.

    Returns
    -------
    sequence or None
        The texts. A missing one is None or NaN.

    Examples
    --------
    >>> as_texts(["good", None]), as_texts([[1.0, 2.0]]) is None
    (['good', None], True)
    """
    if isinstance(x, str | bytes) or not hasattr(x, "__len__") or not hasattr(x, "__iter__"):
        return None
    if isinstance(x, np.ndarray) and (x.ndim != 1 or x.dtype.kind not in "OUST"):
        return None
    first = next((each for each in x if each is not None and each == each), None) if _is_flat(x) else None
    return list(x) if isinstance(first, str | bytes) else None


def decoded(data: Array, ends: Array, length: int) -> list[str]:
    """Texts that lie one after the other in UTF-8: the first part of each, as much as a row of tokens needs.

    Parameters
    ----------
    data : array of bytes
        All texts.
    ends : array of int
        End of each text.
    length : int
        Tokens in a row.

    Returns
    -------
    list of str
        Texts; invalid bytes are replaced.
    """
    most = 4 * CHARACTERS * length  # a character has at most 4 bytes
    starts = np.concatenate([[0], ends[:-1]]).tolist()
    parts = zip(starts, ends.tolist(), strict=True)
    return [data[a : min(b, a + most)].tobytes().decode("utf-8", "replace") for a, b in parts]


def _is_flat(x: Any) -> bool:
    return getattr(x, "ndim", 1) == 1


def _plain(text: Any) -> str:
    """Any value as a text that can be encoded."""
    if text is None or text != text:
        return ""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return str(text)


@lru_cache(maxsize=2**17)
def _number(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "little") % WORDS + 1


@lru_cache(maxsize=4)
def _tokenizer(vocabulary: tuple[str, ...], lower: bool) -> Any:
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError as error:
        raise missing_extra("tokens of the kind wordpiece", "text") from error
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
