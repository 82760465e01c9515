"""Private, public and test rows never overlap, wherever they come from."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import DataSet, load
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Rows

TRAIN, TEST = 100, 40


def numbered(test: bool = True) -> DataSet:
    """Every row is its own number; official test rows count on from 1000."""
    x = np.arange(TRAIN, dtype=float)[:, None]
    test_x = 1000 + np.arange(TEST, dtype=float)[:, None]
    y, test_y = np.arange(TRAIN) % 2, np.arange(TEST) % 2
    return DataSet("numbered", x, y, ("a", "b"), test_x if test else None, test_y if test else None)


def numbers(rows: Rows | None) -> set[float]:
    return set() if rows is None else set(rows.x[:, 0].tolist())


draws = st.one_of(
    st.none(),
    st.builds(Draw, st.integers(1, 20), st.sampled_from(["train", "test"])),
    st.builds(Draw, st.floats(0.05, 0.4), st.sampled_from(["train", "test"])),
)


@given(draws, draws, st.integers(0, 2**32))
def test_disjoint_and_complete(public: Draw | None, test: Draw | None, seed: int) -> None:
    data = numbered()
    parts = draw_parts(data, public, test, seed)
    private = set(parts.private.astype(float).tolist())
    assert not private & numbers(parts.public)
    assert not private & numbers(parts.test)
    assert not numbers(parts.public) & numbers(parts.test)
    from_train = {n for n in numbers(parts.public) | numbers(parts.test) if n < 1000}
    assert private | from_train == set(map(float, range(TRAIN)))


def test_numbers_and_shares() -> None:
    parts = draw_parts(numbered(), Draw(0.125), Draw(7), 0)
    assert (len(parts.public or ()), len(parts.test or ()), len(parts.private)) == (12, 7, 81)


def test_without_test_the_official_test_rows_that_are_left_serve() -> None:
    assert len(draw_parts(numbered(), Draw(5), None, 0).test or ()) == TEST
    parts = draw_parts(numbered(), Draw(0.5, "test"), None, 0)
    assert len(parts.test or ()) == len(parts.public or ()) == TEST / 2
    assert len(parts.private) == TRAIN
    assert draw_parts(numbered(test=False), Draw(5), None, 0).test is None


def test_the_adult_cut_of_the_fedkt_paper() -> None:
    """75 / 12.5 / 12.5 % of 32 561 rows are 24 421, 4 070 and 4 070 (Table 3)."""
    data = DataSet("a9a", np.zeros((32_561, 1)), np.zeros(32_561, int), ("a",))
    parts = draw_parts(data, Draw(0.125), Draw(0.125), 0)
    assert (len(parts.private), len(parts.public or ()), len(parts.test or ())) == (24_421, 4_070, 4_070)


def test_naming_the_data_set_itself_still_keeps_rows_separate() -> None:
    parts = draw_parts(numbered(), Draw(30, name="numbered"), Draw(20), 0)
    assert len(parts.private) == 50
    assert not numbers(parts.public) & numbers(parts.test)


def test_rows_of_another_data_set(save: Callable[..., Path]) -> None:
    save("other", x_train=np.full((9, 1), -1.0), y_train=np.arange(9) % 2)
    parts = draw_parts(numbered(), Draw(6, name="other"), Draw(10), 0)
    assert numbers(parts.public) == {-1.0}
    assert len(parts.private) == 90


@pytest.mark.parametrize(
    ("public", "test", "complaint"),
    [
        (Draw(5000), None, "data.public = 5000 is 5000 rows: numbered has 100 train rows"),
        (Draw(1.5), None, "use 1 to 100"),
        (Draw(float("nan")), None, "use 1 to 100"),
        (Draw(float("inf")), None, "use 1 to 100"),
        (Draw(-1), None, "use 1 to 100"),
        (Draw(0.001), None, "is 0 rows"),
        (Draw(60), Draw(60), "data.test = 60 .* 40 of them left"),
        (Draw(60), Draw(40), "leave some for the parties"),
        (Draw(10, name="iris"), None, "rows of iris have the shape"),
        (Draw(10, name="nothing"), None, "unknown data set 'nothing'"),
        (None, Draw(3, name="column"), "have different classes"),
    ],
)
def test_the_impossible_is_reported(
    save: Callable[..., Path], public: Draw | None, test: Draw | None, complaint: str
) -> None:
    save("column", x_train=np.zeros((9, 1)), y_train=np.arange(9) % 3)
    with pytest.raises(LimbeckError, match=complaint):
        draw_parts(numbered(), public, test, 0)


def test_a_set_without_official_test_rows_reports_it() -> None:
    with pytest.raises(LimbeckError, match="no test rows of digits are left"):
        draw_parts(load("digits"), Draw(10, "test"), Draw(10), 0)


def other() -> DataSet:
    return DataSet("other", np.ones((30, 1)), np.arange(30) % 3, ("b", "c", "a"))


def test_public_classes_of_their_own_come_before_the_private_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limbeck.data.draw.load", lambda name, tokens: other())
    parts = draw_parts(numbered(), Draw(12, name="other", labels="own"), None, 0)
    assert parts.classes == ("other b", "other c", "other a", "a", "b")
    assert parts.public is not None
    assert set(parts.public.y.tolist()) == {0, 1, 2}
    assert parts.test is not None
    assert set(parts.test.y.tolist()) == {3, 4}


def test_shared_classes_get_the_numbers_that_they_have_here(monkeypatch: pytest.MonkeyPatch) -> None:
    data = numbered()
    known = DataSet("other", np.ones((30, 1)), np.arange(30) % 2, ("b", "a"))
    monkeypatch.setattr("limbeck.data.draw.load", lambda name, tokens: known)
    parts = draw_parts(data, Draw(30, name="other", labels="shared"), None, 0)
    assert parts.classes == data.classes
    assert parts.public is not None
    assert sorted(parts.public.y.tolist()) == [0] * 15 + [1] * 15
    monkeypatch.setattr("limbeck.data.draw.load", lambda name, tokens: other())
    with pytest.raises(LimbeckError, match="other holds the class 'c', which numbered does not; use"):
        draw_parts(data, Draw(12, name="other", labels="shared"), None, 0)
