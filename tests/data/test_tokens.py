"""Texts as token numbers: the same at every site, and no text causes an error."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.data.tokens import Tokens, as_texts, decoded, read_vocabulary
from limbeck.errors import LimbeckError

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "film", "##s", "bad", "!", "é", "e")
ODD: list[Any] = [
    *("", " \n\t", "\x00\x01\x7f", "\ud800", "مرحبا بالعالم", "你好世界", "😀👍", "हिन्दी में", "ภาษาไทย", "e\u0301"),
    *("[SEP] [PAD]", "a" * 10**6, "a b " * 250_000, "\u200b" * 5000, None, float("nan"), 7, b"\xff\xfe bytes"),
]


def test_words_have_the_same_numbers_everywhere() -> None:
    """Golden numbers: another version that gave others could not read models of this one."""
    found = Tokens(length=6).encode(["Good film, GOOD!", "日本 go", "don't"])
    assert found.dtype == np.float32
    assert found.tolist() == [
        [49991, 21544, 49991, 0, 0, 0],
        [55909, 59997, 37365, 0, 0, 0],
        [43194, 35318, 0, 0, 0, 0],
    ]


def test_another_process_gives_the_same_numbers() -> None:
    """Python's own hash of a text differs from process to process."""
    program = "from limbeck.data.tokens import Tokens; print(Tokens(length=3).encode(['a fine day']).tolist())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(Tokens(length=3).encode(["a fine day"]).tolist())


@pytest.mark.parametrize("rule", [Tokens(length=16), Tokens("wordpiece", 16, PIECES)], ids=["words", "wordpiece"])
def test_no_text_causes_an_error_or_takes_long(rule: Tokens) -> None:
    start = time.perf_counter()
    found = rule.encode(ODD)
    assert time.perf_counter() - start < 1
    assert found.shape == (len(ODD), 16)
    assert (found == np.floor(found)).all()
    assert found.min() >= 0
    assert found.max() < 2**16
    assert not found[[0, 14, 15]].any()


def test_one_character_is_a_token_in_scripts_without_spaces() -> None:
    def count(text: str) -> int:
        return int((Tokens(length=20).encode([text]) > 0).sum())

    assert [count(text) for text in ("你好世界", "😀👍", "مرحبا بالعالم", "हिन्दी में", "one-two", "你a好")] == [
        4,
        2,
        2,
        2,
        2,
        3,
    ]


def test_an_accent_is_read_alike_in_both_forms() -> None:
    one, other = Tokens(length=4).encode(["caf\u00e9", "cafe\u0301"])
    assert np.array_equal(one, other)


def test_pieces_have_the_numbers_of_the_vocabulary() -> None:
    found = Tokens("wordpiece", 7, PIECES).encode(["Good FILMS!", "strange", "", "good good good good good good"])
    assert found.tolist() == [
        [2, 4, 5, 6, 8, 3, 0],
        [2, 1, 3, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [2, 4, 4, 4, 4, 4, 3],
    ]
    cased = Tokens("wordpiece-cased", 4, PIECES).encode(["good Good"])
    assert cased.tolist() == [[2, 4, 1, 3]]


def test_wordpiece_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(LimbeckError, match="needs the extra `text`"):
        Tokens("wordpiece", 4, (*PIECES, "another")).encode(["good"])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tokens": "letters"}, "tokens = 'letters'"),
        ({"length": 0}, "length = 0"),
        ({"length": 5000}, "length = 5000"),
        ({"vocabulary": PIECES}, 'vocabulary is for tokens = "wordpiece"'),
        ({"tokens": "wordpiece"}, "needs a vocabulary"),
        ({"tokens": "wordpiece", "vocabulary": ("a", "b")}, r"\[PAD\] in the first line"),
    ],
)
def test_wrong_rules_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        Tokens(**settings)


def test_a_vocabulary_has_one_piece_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("[PAD]\r\n\u2028\r\né\r\n".encode())
    assert read_vocabulary(tmp_path / "vocab.txt") == ("[PAD]", "\u2028", "é")


def test_bytes_in_a_file_are_read_as_the_texts_are() -> None:
    texts = ["good é 你", "", "😀" * 3000, "z" * 9000]
    parts = [text.encode() for text in texts] + [b"\xff\xfe good"]
    data, ends = np.frombuffer(b"".join(parts), np.uint8), np.cumsum([len(part) for part in parts])
    rule = Tokens(length=8)
    assert np.array_equal(rule.encode(decoded(data, ends, 8)), rule.encode([*texts, "\ufffd\ufffd good"]))


@pytest.mark.parametrize(
    "rows", [["a", None], np.array(["a", "b"]), np.array([None, "b"], object), ("a", "b"), [float("nan"), "a"]]
)
def test_texts_are_recognised(rows: Any) -> None:
    assert as_texts(rows) is not None


@pytest.mark.parametrize(
    "rows", ["a", [[1.0, 2.0]], np.zeros((2, 2)), [["a", "b"]], np.array([["a"]]), [1.0], [], None]
)
def test_other_rows_are_no_texts(rows: Any) -> None:
    assert as_texts(rows) is None
