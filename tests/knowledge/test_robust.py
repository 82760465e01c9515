"""Robust means: what Byzantine parties can and cannot change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.knowledge.robust import Rule, agreeing, plausible_counts, robust_mean


def test_by_hand() -> None:
    predictions = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    assert robust_mean(predictions, "mean", 0.2) == [21.2]
    assert robust_mean(predictions, "median", 0.2) == [2.0]
    assert robust_mean(predictions, "trimmed", 0.2) == [2.0]
    assert robust_mean(predictions, "trimmed", 0.0) == [21.2]


@pytest.mark.parametrize("rule", ["median", "trimmed"])
@given(
    honest=st.lists(st.floats(-5, 5), min_size=8, max_size=8),
    attacks=st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=2),
)
def test_two_byzantine_parties_of_ten_never_move_it_out_of_what_the_others_send(
    rule: Rule, honest: list[float], attacks: list[float]
) -> None:
    found = robust_mean(np.array([*attacks, *honest])[:, None], rule, 0.2)[0]
    assert min(honest) - 1e-9 <= found <= max(honest) + 1e-9


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_few_parties_are_not_all_left_out(parties: int) -> None:
    predictions = np.arange(parties, dtype=float)[:, None]
    assert robust_mean(predictions, "trimmed", 0.49)[0] == (parties - 1) / 2


def test_who_agrees_much_less_than_most_is_left_out() -> None:
    """Ten parties with two students: eight are right nine times in ten, one as good as never, one by chance."""
    rng = np.random.default_rng(0)
    agreed = rng.integers(10, size=400)
    labels = np.where(rng.random((10, 2, 400)) < 0.9, agreed, rng.integers(10, size=(10, 2, 400)))
    labels[3], labels[7] = (agreed + 1) % 10, rng.integers(10, size=(2, 400))
    assert np.flatnonzero(~agreeing(labels, agreed)).tolist() == [3, 7]


def test_nobody_is_left_out_where_all_agree_alike() -> None:
    labels = np.zeros((4, 1, 50), int)
    assert agreeing(labels, np.zeros(50, int)).all()
    assert agreeing(labels, np.ones(50, int)).all()


def test_two_byzantine_parties_of_ten_hardly_move_the_counts_of_all() -> None:
    """However many rows they claim, and of whatever class; where nobody lies, equal parties are simply added up."""
    honest = np.random.default_rng(0).multinomial(200, [0.5, 0.3, 0.2], size=8).astype(float)
    attacks = np.array([[1e9, 0.0, 0.0], [0.0, 0.0, 1.0]])
    found = plausible_counts(np.concatenate([honest, attacks]))
    assert found / found.sum() == pytest.approx(honest.sum(axis=0) / honest.sum(), abs=0.02)
    alike = np.tile([3.0, 4.0, 5.0], (4, 1))
    assert plausible_counts(alike).tolist() == [12.0, 16.0, 20.0]
    assert plausible_counts(np.zeros((2, 3))).tolist() == [0.0, 0.0, 0.0]
