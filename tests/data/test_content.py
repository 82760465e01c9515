"""Equal content, equal words; a changed value, others."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from limbeck.data.content import content_of_file, content_of_set
from limbeck.errors import LimbeckError

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2


def test_an_npz_file_is_its_arrays_however_compressed(save: Callable[..., Path], tmp_path: Path) -> None:
    plain = content_of_file(save("a", x_train=X, y_train=Y))
    packed = tmp_path / "b.npz"
    np.savez_compressed(packed, y_train=Y, x_train=X)
    assert content_of_file(packed) == plain == content_of_set("a")
    assert content_of_file(save("c", x_train=X + 1e-9, y_train=Y)) != plain


def test_a_table_is_its_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("a,b\n1,2\n")
    two.write_text("a,b\n1,3\n")
    assert content_of_file(one) != content_of_file(two)


def test_what_is_not_there_or_broken_is_reported(tmp_path: Path, data_folder: Path) -> None:
    with pytest.raises(LimbeckError, match="unknown data set 'nothing'"):
        content_of_set("nothing")
    with pytest.raises(LimbeckError, match=r"cannot read .*no\.csv"):
        content_of_file(tmp_path / "no.csv")
    (tmp_path / "bad.npz").write_text("no")
    with pytest.raises(LimbeckError, match="not an NPZ file"):
        content_of_file(tmp_path / "bad.npz")


def test_embedded_sets_and_views_have_their_names() -> None:
    assert content_of_set("iris") != content_of_set("digits")
