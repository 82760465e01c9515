"""Which task labels are for, and how they become the labels that algorithms learn."""

from typing import Any

import numpy as np
import pytest

from limbeck.data.labels import (
    check_numbers,
    check_several,
    classes_for_split,
    columns_into,
    kind_of,
    range_of,
    task_in,
)
from limbeck.errors import LimbeckError
from limbeck.protocol.task import MULTICLASS, Task


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array(["a", "b"]), "multiclass"),
        (np.array([True, False]), "multiclass"),
        (np.array([3, 1, 2]), "multiclass"),
        (np.array([3.0, 1.0, 2.0]), "multiclass"),
        (np.arange(100), "multiclass"),
        (np.arange(20.0), "multiclass"),
        (np.arange(21.0), "regression"),
        (np.array([0.5, 1.0]), "regression"),
        (np.random.default_rng(0).normal(size=500), "regression"),
        (np.arange(300) % 100, "multiclass"),
        (np.arange(3000) % 200, "multiclass"),
        (np.zeros((3, 2), int), "multilabel"),
        (np.zeros((3, 1)), "multilabel"),
    ],
)
def test_the_kind_of_labels(y: Any, kind: str) -> None:
    assert kind_of(y, "y") == kind


@pytest.mark.parametrize("kind", [np.int64, np.uint16, np.int8])
def test_hundreds_of_whole_numbers_are_asked_about(kind: Any) -> None:
    y = np.arange(256).astype(kind)
    with pytest.raises(LimbeckError, match=r'party 0: y holds \d+ different whole numbers: give task = "regression"'):
        kind_of(y, "party 0: y")


def test_several_labels_are_1_0_and_unknown() -> None:
    given = np.array([[1.0, np.nan], [0.0, -1.0]])
    found = check_several(given, "y")
    assert found.dtype == np.int8
    assert found.tolist() == [[1, -1], [0, -1]]
    assert check_several(np.array([[True, False]]), "y").tolist() == [[1, 0]]


@pytest.mark.parametrize("wrong", [2, -2, 0.5, np.inf])
def test_other_labels_are_refused(wrong: float) -> None:
    with pytest.raises(LimbeckError, match=r"y: with several labels a row, every label is 1 .*0 .* or -1 \(unknown\)"):
        check_several(np.array([[0, wrong]]), "y")
    with pytest.raises(LimbeckError, match="every label is 1"):
        check_several(np.array([["yes"]]), "y")


def test_numbers_are_finite_and_one_a_row() -> None:
    assert check_numbers(np.array([1, 2]), "y").tolist() == [1.0, 2.0]
    with pytest.raises(LimbeckError, match=r"a\.csv: row 1 has no finite number as target"):
        check_numbers(np.array([1.0, np.nan, np.inf]), "a.csv")
    for wrong in (np.zeros((2, 1)), np.array(["1", "2"])):
        with pytest.raises(LimbeckError, match=r"a\.csv: a numeric target has one finite number for each row"):
            check_numbers(wrong, "a.csv")


def test_the_range_of_a_simulation_is_that_of_all_targets() -> None:
    assert range_of([np.array([1.0, 2.0]), np.array([-3.0])]) == Task("regression", -3.0, 2.0)
    assert range_of([np.array([5.0])]) == Task("regression", 5.0, 6.0), "a constant target has a range too"


def test_a_given_range_wins() -> None:
    assert task_in("regression", (0, 1), [np.array([5.0])]) == Task("regression", 0.0, 1.0)
    assert task_in("multiclass", None, []) == MULTICLASS
    assert task_in("multilabel", None, []) == Task("multilabel")
    with pytest.raises(LimbeckError, match='range is for task = "regression", not "multilabel"'):
        task_in("multilabel", (0, 1), [])
    for wrong in ((0, 1, 2), ("low", 1), (None, None), (0,)):
        with pytest.raises(LimbeckError, match="give two numbers, the lowest and the highest target"):
            task_in("regression", wrong, [])  # type: ignore[arg-type]


def test_splits_go_by_the_rarest_class_and_by_tenths() -> None:
    y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [-1, -1, -1], [1, 0, 0]])
    found = classes_for_split(y, "multilabel")
    assert found.tolist()[:2] == [1, 0], "of several labels, the one with the fewest rows"
    assert found.tolist()[2:4] == [3, 3], "no positive label is a class of its own"
    numbers = classes_for_split(np.random.default_rng(0).normal(size=200), "regression")
    assert np.bincount(numbers).tolist() == [20] * 10
    assert classes_for_split(np.full(30, 2.5), "regression").max() == 9, "equal numbers are spread"
    assert classes_for_split(np.array([1.0]), "regression").tolist() == [0]


def test_columns_of_a_union_are_unknown_where_a_set_lacks_them() -> None:
    assert columns_into(np.array([[1, 0]], np.int8), np.array([2, 0]), 3).tolist() == [[0, -1, 1]]
