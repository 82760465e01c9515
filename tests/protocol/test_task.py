"""Tasks: what labels are, and how numbers are scaled to a public range."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.errors import LimbeckError
from limbeck.protocol.task import MULTICLASS, Task, known_classes

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(NUMBERS, min_size=1, max_size=8), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_any_target_is_scaled_to_a_number_from_0_to_1(targets: list[float], low: float, width: float) -> None:
    task = Task("regression", low, low + width)
    scaled = task.scaled(np.array(targets))
    assert scaled.dtype == np.float32
    assert ((scaled >= 0) & (scaled <= 1)).all()
    clipped = np.clip(np.nan_to_num(np.array(targets), nan=low, posinf=np.inf, neginf=-np.inf), low, low + width)
    assert np.allclose(task.unscaled(scaled), clipped, atol=1e-6 * width + 1e-9 * abs(low))


def test_a_target_that_is_no_number_counts_as_the_lowest() -> None:
    assert Task("regression", -5.0, 5.0).scaled(np.array([np.nan, -np.inf, np.inf])).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("regression", 1.0, 1.0), "give the lowest and a higher finite number"),
        (("regression", 2.0, 1.0), r"range = \[2, 1\]"),
        (("regression", 0.0, float("inf")), "give the lowest and a higher finite number"),
        (("regression", float("nan"), 1.0), "give the lowest and a higher finite number"),
        (("multilabel", 0.0, 5.0), 'range is for task = "regression", not "multilabel"'),
        (("multiclass", -1.0, 1.0), 'range is for task = "regression", not "multiclass"'),
        (("several",), "kind = 'several'"),
    ],
)
def test_wrong_tasks_are_refused(given: Any, complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        Task(*given)


@pytest.mark.parametrize(
    ("task", "y", "classes", "counts"),
    [
        (MULTICLASS, [0, 2, 2], 3, [1, 0, 2]),
        (Task("multilabel"), [[1, -1], [1, 0], [0, 0]], 2, [2, 0]),
        (Task("regression", 0.0, 9.0), [0.5, 0.5], 1, [2]),
    ],
)
def test_counts(task: Task, y: Any, classes: int, counts: list[int]) -> None:
    assert task.counts(np.array(y), classes).tolist() == counts


def test_scores_become_labels() -> None:
    scores = np.array([[2.0, -1.0], [-1.0, 0.0]])
    assert MULTICLASS.labels_of(scores).tolist() == [0, 1]
    assert Task("multilabel").labels_of(scores).tolist() == [[1, 0], [0, -1]]
    assert Task("regression").labels_of(scores[:, :1]).tolist() == [2.0, -1.0]


@pytest.mark.parametrize(
    ("task", "y"),
    [
        (MULTICLASS, np.array([0, 3])),
        (MULTICLASS, np.array([0.0, 1.0])),
        (MULTICLASS, np.zeros((2, 3), np.int8)),
        (Task("multilabel"), np.zeros((2, 2), np.int8)),
        (Task("multilabel"), np.full((2, 3), 2, np.int8)),
        (Task("multilabel"), np.full((2, 3), -2, np.int8)),
        (Task("multilabel"), np.zeros((2, 3), np.float32)),
        (Task("regression"), np.array([0.0, 1.5], np.float32)),
        (Task("regression"), np.array([0.0, np.nan], np.float32)),
        (Task("regression"), np.array([0, 1])),
        (Task("regression"), np.zeros((2, 1), np.float32)),
    ],
)
def test_labels_of_a_message_are_checked(task: Task, y: Any) -> None:
    with pytest.raises(LimbeckError):
        task.check_labels(y, rows=2, classes=3)


def test_right_labels_pass() -> None:
    MULTICLASS.check_labels(np.array([0, 2]), 2, 3)
    Task("multilabel").check_labels(np.array([[1, 0, -1]] * 2, np.int8), 2, 3)
    Task("regression", 3.0, 4.0).check_labels(np.array([0.0, 1.0], np.float32), 2, 1)


def test_a_class_is_known_if_any_label_is() -> None:
    assert known_classes(np.array([[-1, 0, 1], [-1, -1, -1]])).tolist() == [False, True, True]
    assert known_classes(np.empty((0, 2), np.int8)).tolist() == [False, False]
