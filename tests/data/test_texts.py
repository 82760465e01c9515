"""Columns of texts, and NPZ files of texts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.data.files import read_table
from limbeck.data.own import private_rows, public_rows
from limbeck.data.schema import Schema, schema_of, schema_of_texts
from limbeck.data.sets import file_of_texts, is_file_of_texts, joined, load, load_file
from limbeck.data.table import Table
from limbeck.data.texts import Text, column_of, text_settings
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError, LimbeckWarning
from text_sets import SHORT, npz_of

RULE = Tokens(length=8)


def table(**columns: Any) -> Table:
    return Table("a.csv", {name: np.array(values, object) for name, values in columns.items()})


def test_a_column_of_texts_is_a_row_of_numbers() -> None:
    schema = schema_of(table(review=["good", "bad"]), "y", ("no", "yes"), Text("review", length=8))
    found = schema.encode(table(review=["Good film", None], y=["no", "yes"]))
    assert np.array_equal(found, RULE.encode(["good film", ""]))
    again = Schema.from_json(schema.to_json(), "the schema")
    assert again == schema
    assert again.text is not None
    assert again.text.rule == RULE


def test_numbers_in_a_column_of_texts_are_texts() -> None:
    numbers = Table("a.parquet", {"review": np.array([3.0, np.nan])})
    assert np.array_equal(Text("review", length=8).encode(numbers), RULE.encode(["3", None]))


@pytest.mark.parametrize(
    ("columns", "name", "complaint"),
    [
        ({"review": ["a"], "age": ["3"]}, "review", "a.csv: the column of texts 'review' .* there is 'age' too"),
        ({"review": ["a"]}, "reviews", "a.csv has no column 'reviews'; did you mean 'review'?"),
        ({"review": ["a"]}, "", 'data.text names no column of a.csv: write text = "review"'),
    ],
)
def test_a_column_of_texts_is_the_only_one(columns: Any, name: str, complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        column_of(table(**columns), "y", name, RULE)


def test_a_schema_has_no_other_column_beside_texts() -> None:
    text = schema_of_texts(RULE, ("a", "b")).to_json().replace('"columns": [', '"columns": [{"kind":"number","name":"age","missing":0},')  # fmt: skip
    with pytest.raises(LimbeckError, match="there is 'age' too"):
        Schema.from_json(text, "schema.json")


def test_many_different_texts_suggest_the_setting() -> None:
    with pytest.warns(LimbeckWarning), pytest.raises(LimbeckError, match=r"set data\.text = 'review'"):
        schema_of(table(review=[f"text {i}" for i in range(1001)]), "y", ("a", "b"))


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (3, 'write text = "review"'),
        ("", 'write text = "review"'),
        ({"lenght": 3}, "unknown key 'lenght'; did you mean 'length'?"),
        ({"length": 0}, "length = 0"),
        ({"tokens": "letters"}, "tokens = 'letters'"),
    ],
)
def test_wrong_settings_are_refused(value: Any, complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        text_settings(value)


def test_a_vocabulary_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\n")
    rule = text_settings({"tokens": "wordpiece", "length": 4, "vocabulary": "vocab.txt"}).rule(tmp_path)
    assert rule.encode(["good"]).tolist() == [[2, 4, 3, 0]]
    with pytest.raises(LimbeckError, match=r"data.text: tokens = \"wordpiece\" needs a vocabulary"):
        text_settings({"tokens": "wordpiece"}).rule(tmp_path)


def test_a_long_text_and_one_of_several_lines_are_read_from_csv(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('review,y\n"one\n\ntwo",a\n' + "word " * 500_000 + ",b\n\n", encoding="utf-8")
    read = read_table(file)
    assert read.columns["review"][0] == "one\n\ntwo"
    assert (Text("review", length=8).encode(read)[1] > 0).all()


def test_an_npz_file_of_texts_is_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npz_of(tmp_path / "short.npz", SHORT, ["bad", ""])
    monkeypatch.setenv("LIMBECK_DATA", str(tmp_path))
    data = load("short", RULE)
    assert np.array_equal(data.x, RULE.encode(SHORT))
    assert data.classes == ("0", "1")
    assert data.official_test == 2
    assert data.tokens == RULE
    assert load("short").x.shape[1] == 128
    assert is_file_of_texts(tmp_path / "short.npz")
    assert file_of_texts(tmp_path / "short.npz", 8) == SHORT


def test_texts_and_numbers_are_not_joined(tmp_path: Path) -> None:
    npz_of(tmp_path / "short.npz", SHORT)
    np.savez(tmp_path / "numbers.npz", x_train=np.ones((4, 8)), y_train=np.arange(4) % 2)
    texts, numbers = (load_file(tmp_path / f"{name}.npz", RULE) for name in ("short", "numbers"))
    for pair in ([texts, numbers], [numbers, texts]):
        with pytest.raises(LimbeckError, match=r"short.npz are texts, those of .*numbers.npz are not"):
            joined(pair, "shared")
    npz_of(tmp_path / "other.npz", SHORT[::-1])
    both = joined([texts, load_file(tmp_path / "other.npz", RULE)], "own")
    assert both.tokens == RULE
    assert len(both.x) == 2 * len(SHORT)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"text_train.ends": None}, "has no array text_train.ends"),
        ({"text_train.ends": np.array([2, 1, 3, 3])}, "rising positions"),
        ({"text_train.ends": np.array([1, 2, 3, 10**6])}, "rising positions"),
        ({"text_train.ends": np.array([-1, 2, 3, 4])}, "rising positions"),
        ({"text_train.bytes": np.zeros(9)}, r"must be bytes \(uint8\)"),
        ({"x_train": np.ones((4, 2))}, "holds texts and x_train"),
        ({"y_train": np.zeros(3, int)}, r"y_train is of shape \(3,\)"),
    ],
)
def test_wrong_files_of_texts_are_refused(tmp_path: Path, changes: Any, complaint: str) -> None:
    npz_of(tmp_path / "a.npz", SHORT)
    arrays = {**np.load(tmp_path / "a.npz"), **changes}
    np.savez(tmp_path / "a.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(LimbeckError, match=complaint):
        load_file(tmp_path / "a.npz")


def test_a_consortium_reads_texts_from_tables_and_arrays(tmp_path: Path) -> None:
    schema = schema_of_texts(RULE, ("0", "1"))
    npz_of(tmp_path / "a.npz", SHORT)
    lines = [f'"{text}",{i % 2}' for i, text in enumerate(SHORT)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    own = [private_rows(tmp_path / name, ("0", "1"), schema) for name in ("a.npz", "a.csv")]
    assert np.array_equal(own[0].x, own[1].x)
    assert np.array_equal(own[0].y, own[1].y)
    assert np.array_equal(public_rows(tmp_path / "a.npz", schema).x, own[0].x)
    np.savez(tmp_path / "n.npz", x_train=np.ones((4, 8)), y_train=np.arange(4) % 2)
    with pytest.raises(LimbeckError, match="holds no texts"):
        private_rows(tmp_path / "n.npz", ("0", "1"), schema)
