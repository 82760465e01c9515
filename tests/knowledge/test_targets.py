"""Target vectors: what a sum of features is multiplied with."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.features.map import CONSTANT
from limbeck.knowledge.targets import (
    NUMBER_STEPS,
    columns_of,
    groups_of,
    labels_in,
    linear_weights,
    rows_of_columns,
    target_vectors,
)

TASKS: list[Any] = ["multiclass", "multilabel", "regression"]
ROWS: dict[str, Any] = {
    "multiclass": st.integers(0, 2),
    "multilabel": st.lists(st.integers(-1, 1), min_size=3, max_size=3),
    "regression": st.floats(allow_nan=True, allow_infinity=True, width=32),
}
CLASSES = {"multiclass": 3, "multilabel": 3, "regression": 1}


@pytest.mark.parametrize("task", TASKS)
@given(st.data())
def test_no_two_vectors_have_a_negative_product_and_none_is_longer_than_its_groups(task: Any, data: Any) -> None:
    rows = [data.draw(ROWS[task]), data.draw(ROWS[task])]
    y = np.array(rows, np.float32 if task == "regression" else np.int64)
    one, two = target_vectors(y, task, CLASSES[task]) / NUMBER_STEPS
    groups = groups_of(task, CLASSES[task])
    assert len(one) == columns_of(task, CLASSES[task]) == groups[-1].stop
    assert one @ two >= 0
    for group in groups:
        assert one[group] @ one[group] <= 1
        assert one[group].sum() in (0, 1)
        assert one[group] @ two[group] >= 0
    assert (one * NUMBER_STEPS == np.rint(one * NUMBER_STEPS)).all()


def test_an_unknown_label_is_nothing() -> None:
    assert not target_vectors(np.full((2, 3), -1), "multilabel", 3).any()
    assert rows_of_columns(np.array([[1, -1], [0, -1], [1, 1]]), "multilabel", 2).tolist() == [1, 2, 0, 1]


def test_a_number_that_is_none_counts_as_0() -> None:
    y = np.array([np.nan, np.inf, -np.inf, 2.0, -2.0], np.float32)
    assert (target_vectors(y, "regression", 1) / NUMBER_STEPS)[:, 1].tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("task", TASKS)
def test_one_linear_model_of_differences_gives_the_same_labels(task: Any) -> None:
    rng, classes = np.random.default_rng(0), CLASSES[task]
    phi = np.hstack([np.full((50, 1), CONSTANT), 0.3 * rng.normal(size=(50, 4))])
    weights = 0.4 * rng.normal(size=(5, columns_of(task, classes)))
    found, scores = labels_in(phi @ weights, task), phi @ linear_weights(weights, task)
    if task == "multiclass":
        assert (found == scores.argmax(axis=1)).all()
    elif task == "multilabel":
        assert (found == (scores > 0)).all()
    else:
        assert np.allclose(found, np.clip(scores[:, 0], 0, 1), atol=1e-6)
