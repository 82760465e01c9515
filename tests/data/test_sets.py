import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from limbeck.data.arrays import as_float
from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import EMBEDDED, joined, load, names
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("name", "rows", "classes"), [("digits", 1797, 10), ("breast-cancer", 569, 2), ("wine", 178, 3), ("iris", 150, 3)]
)
def test_embedded_sets(name: str, rows: int, classes: int) -> None:
    data = load(name)
    assert data.x.dtype == np.float32
    assert (len(data.x), len(data.y), len(data.classes)) == (rows, rows, classes)
    assert data.official_test == 0


def test_digits_are_images_between_0_and_1() -> None:
    x = load("digits").x
    assert x.shape[1:] == (8, 8)
    assert (x.min(), x.max()) == (0, 1)


def test_a_file_with_test_rows_and_groups(save: Callable[..., Path]) -> None:
    save("mine", x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2], writer_train=np.array([5, 5, 6, 6]))
    data = load("mine")
    assert data.official_test == 2
    assert data.groups["writer"].tolist() == [5, 5, 6, 6]
    assert names() == [*EMBEDDED, "mine"]


def test_sets_are_joined_by_the_names_of_their_classes_or_side_by_side(save: Callable[..., Path]) -> None:
    save("one", x_train=X, y_train=np.array(["no", "yes", "no", "yes"]), x_test=X[:1], y_test=np.array(["yes"]))
    save("two", x_train=X + 1, y_train=np.array(["yes", "maybe", "yes", "maybe"]))
    shared, own = (joined([load("one"), load("two")], labels) for labels in ("shared", "own"))
    assert shared.classes == ("no", "yes", "maybe")
    assert shared.y.tolist() == [0, 1, 0, 1, 1, 2, 1, 2]
    assert own.classes == ("one no", "one yes", "two maybe", "two yes")
    assert own.y.tolist() == [0, 1, 0, 1, 3, 2, 3, 2]
    assert shared.groups["domain"].tolist() == [0] * 4 + [1] * 4
    assert shared.test_y is not None
    assert shared.test_y.tolist() == [1]
    assert shared.shares_rows_with(load("two"))
    assert load("one").shares_rows_with(shared)
    assert not shared.shares_rows_with(load("iris"))


def test_what_does_not_fit_is_not_joined(save: Callable[..., Path]) -> None:
    save("one", x_train=X, y_train=Y)
    save("wide", x_train=np.ones((4, 5)), y_train=Y)
    with pytest.raises(LimbeckError, match=r"rows of wide have the shape \(5,\), those of one \(3,\)"):
        joined([load("one"), load("wide")], "own")
    for name in ("one", "iris"):
        with pytest.raises(LimbeckError, match=f"rows of {name} are rows of {name} too"):
            joined([load(name), load(name)], "own")


def test_labels_are_numbered_in_order_and_keep_their_names(save: Callable[..., Path]) -> None:
    save("text", x_train=X, y_train=np.array(["no", "yes", "no", "maybe"]))
    save("gaps", x_train=X, y_train=np.array([7, 3, 3, 9]))
    assert load("text").classes == ("maybe", "no", "yes")
    assert load("text").y.tolist() == [1, 2, 1, 0]
    assert load("gaps").y.tolist() == [1, 0, 0, 2]


def test_images_of_bytes_are_scaled_and_tables_of_bytes_are_not() -> None:
    assert as_float(np.full((2, 4, 4), 255, np.uint8)).max() == 1
    assert as_float(np.full((2, 4), 255, np.uint8)).max() == 255
    assert as_float(np.zeros((2, 4), np.float64)).dtype == np.float32


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x_train": X}, "has no array y_train"),
        ({"x_train": X, "y_train": Y[:3]}, "y_train is of shape (3,)"),
        ({"x_train": X[:, 0], "y_train": Y}, "at least two dimensions"),
        ({"x_train": X, "y_train": Y * 1j}, "numbers or text"),
        ({"x_train": X, "y_train": np.array([0.5, 1.0, np.nan, 2.0])}, "row 2 has no finite number"),
        ({"x_train": X, "y_train": np.array([[0, 1], [1, 2], [0, 0], [1, 1]])}, "1 (positive), 0 (negative) or -1"),
        (
            {"x_train": np.where(X == 4, np.nan, X), "y_train": Y},
            "1 of 4 rows hold NaN or infinity, the first is row 1",
        ),
        ({"x_train": np.where(X == 9, np.inf, X), "y_train": Y}, "the first is row 3"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "y_test is missing"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :2], "y_test": Y}, "x_test has rows of (2,), x_train of (3,)"),
        ({"x_train": np.float32(3), "y_train": Y}, "at least two dimensions"),
        ({"x_train": X * 1e300, "y_train": Y}, "too large for float32"),
        ({"x_train": np.array([["a"]]), "y_train": Y[:1]}, "must hold numbers"),
    ],
)
def test_bad_files_are_reported(save: Callable[..., Path], arrays: dict[str, Array], complaint: str) -> None:
    path = save("bad", **arrays)
    with pytest.raises(LimbeckError, match=re.escape(complaint)) as refusal:
        load("bad")
    assert str(path) in str(refusal.value)


def test_files_that_are_no_npz(data_folder: Path) -> None:
    (data_folder / "noise.npz").write_text("hello")
    np.save(data_folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (data_folder / "objects.npy").rename(data_folder / "objects.npz")
    (data_folder / "empty.npz").write_bytes(b"")
    for name in ("noise", "objects", "empty"):
        with pytest.raises(LimbeckError, match=f"{name}.npz is not an NPZ file of plain arrays"):
            load(name)
    with (data_folder / "single.npz").open("wb") as file:
        np.save(file, X)
    with pytest.raises(LimbeckError, match=r"single.npz is one array"):
        load("single")


def test_an_unknown_name_gets_the_nearest(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimbeckError, match="unknown data set 'digitz'; did you mean 'digits'"):
        load("digitz")
    monkeypatch.delenv("LIMBECK_DATA")
    with pytest.raises(LimbeckError, match="LIMBECK_DATA is not set"):
        load("adult")
    monkeypatch.setenv("LIMBECK_DATA", str(data_folder / "nowhere"))
    with pytest.raises(LimbeckError, match="which is not a folder"):
        load("adult")


def test_a_part_of_a_set_shares_rows_with_the_whole(save: Callable[..., Path]) -> None:
    images = np.zeros((3, 28, 28), np.uint8)
    save("femnist", x_train=images, y_train=np.array([3, 11, 36]))
    whole, digits, letters = (load(name) for name in ("femnist", "femnist-digits", "femnist-letters"))
    assert letters.classes == ("a", "b")
    assert (letters.y.tolist(), letters.groups["subclass"].tolist()) == ([1, 0], [1, 2])
    assert whole.shares_rows_with(letters)
    assert letters.shares_rows_with(whole)
    assert not letters.shares_rows_with(digits)
    with pytest.raises(LimbeckError, match="rows of femnist are rows of femnist a to b too"):
        draw_parts(letters, Draw(1.0, name="femnist", labels="own"), None, 0)
