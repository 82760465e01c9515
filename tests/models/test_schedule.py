"""The steps of a training: every row once an epoch, the same wherever one begins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.models.schedule import ABSENT, BatchSchedule, EarlyStopping, rate
from limbeck.protocol.recipe import Recipe


@given(rows=st.integers(1, 70), batch=st.integers(1, 20), epochs=st.integers(1, 4), seed=st.integers(0, 5))
def test_an_epoch_has_every_row_once_but_a_single_one_left_over(rows: int, batch: int, epochs: int, seed: int) -> None:
    steps = BatchSchedule(rows, Recipe(epochs=epochs, batch=batch), seed)
    passed_over = int(rows % batch == 1 and min(batch, rows) > 1)
    for epoch in range(epochs):
        seen = steps.epoch(epoch)
        present = seen[seen != ABSENT]
        assert len(np.unique(present)) == len(present) == rows - passed_over
        assert (seen[:-1] != ABSENT).all()
        assert seen[-1, 0] != ABSENT
    assert steps.total == epochs * len(steps.epoch(0))


@given(first=st.integers(0, 40), length=st.integers(1, 30))
def test_training_can_begin_anywhere(first: int, length: int) -> None:
    steps = BatchSchedule(23, Recipe(epochs=20, batch=4, schedule="cosine"), 3)
    first, last = min(first, steps.total - 1), min(first + length, steps.total)
    last = max(last, first + 1)
    whole = np.concatenate([steps.epoch(epoch) for epoch in range(20)])
    assert np.array_equal(steps.between(first, last), whole[first:last])
    assert np.array_equal(steps.keys(first, last), steps.keys(0, steps.total)[first:last])
    assert np.array_equal(steps.rates(first, last), steps.rates(0, steps.total)[first:last])


def test_held_out_rows_are_never_learned_from() -> None:
    steps = BatchSchedule(50, Recipe(epochs=3, batch=8, patience=2, held_out=0.3), 0)
    assert len(steps.held_out) == 15
    learned = np.concatenate([steps.epoch(epoch).ravel() for epoch in range(3)])
    assert not set(learned.tolist()) & set(steps.held_out.tolist())


def test_seeds_and_epochs_differ() -> None:
    one, other = BatchSchedule(100, Recipe(), 0), BatchSchedule(100, Recipe(), 1)
    assert not np.array_equal(one.epoch(0), one.epoch(1))
    assert not np.array_equal(one.epoch(0), other.epoch(0))
    assert len({*one.keys(0, 50).tolist(), *other.keys(0, 50).tolist()}) == 100


def test_a_cosine_falls_from_the_first_rate_to_the_final_one() -> None:
    recipe = Recipe(epochs=10, learning_rate=1.0, final_learning_rate=0.2, schedule="cosine")
    assert rate(recipe, 0) == 1.0
    assert rate(recipe, 5) == pytest.approx(0.6)
    assert rate(recipe, 9) == pytest.approx(0.2 + 0.8 * (1 + math.cos(0.9 * math.pi)) / 2)
    assert rate(Recipe(learning_rate=0.3), 7) == 0.3


def test_patience_ends_after_so_many_epochs_without_a_lower_loss() -> None:
    patience = EarlyStopping(2)
    assert [patience.sees(loss) for loss in (1.0, 0.5, 0.6, 0.4, 0.4)] == [True, True, False, True, False]
    assert not patience.spent
    patience.sees(math.nan)
    assert patience.spent
    assert not EarlyStopping(None).spent
