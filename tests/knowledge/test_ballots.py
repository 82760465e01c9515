"""Ballots keep to what a hard vote could say, whatever a model gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limbeck.knowledge.ballots import (
    abstaining,
    class_weights,
    drawn_to,
    hard_ballot,
    in_units,
    rare_class_weight,
    soft_ballot,
)
from limbeck.protocol.release import UNITS

scores = arrays(np.float32, (4, 3), elements=st.floats(width=32))
weights = st.floats(0, 1)


@given(scores, scores, weights, weights)
def test_a_replaced_voter_moves_a_row_no_more_than_a_hard_vote(one, other, w, v) -> None:  # type: ignore[no-untyped-def]
    for ballot in (soft_ballot, hard_ballot):
        a, b = in_units(w * ballot(one)), in_units(v * ballot(other))
        assert (a >= 0).all()
        assert (a.sum(axis=1) <= 1 + 1e-12).all()
        assert np.linalg.norm(a - b, axis=1).max() <= np.sqrt(2) + 1e-12
        assert np.abs(a - b).max() <= 1
        assert np.linalg.norm(a, axis=1).max() <= 1 + 1e-12
        assert np.array_equal(a * UNITS, np.rint(a * UNITS))


def test_soft_and_hard() -> None:
    said = np.array([[0.2, 0.8], [0.0, 0.0], [np.nan, 1.0], [3.0, 3.0]])
    assert soft_ballot(said).tolist() == [[0.2, 0.8], [0.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    assert hard_ballot(said).tolist() == [[0, 1], [0, 0], [0, 1], [1, 0]]


def test_a_class_never_seen_gets_the_priors_share() -> None:
    found = abstaining(np.array([[0.6, 0.4, 0.0]]), np.array([3, 4, 0]), np.array([0.5, 0.3, 0.2]))
    assert np.allclose(found, [[0.48, 0.32, 0.2]])


def test_the_rarest_class_gives_the_weight_up_to_a_cap() -> None:
    assert [rare_class_weight(np.array(c), 20) for c in ([5, 90], [40, 90], [0, 9])] == [0.25, 1.0, 0.0]


def test_rows_are_drawn_towards_a_prior() -> None:
    labels = np.repeat([0, 1], [90, 10])
    drawn = drawn_to(labels, np.array([0.5, 0.5]), 0)
    assert set(drawn) == set(range(100))
    assert abs(labels[drawn].mean() - 0.5) < 0.03
    assert np.array_equal(drawn, drawn_to(labels, np.array([0.5, 0.5]), 0))
    rare = np.repeat([0, 1], [999, 1])
    assert len(drawn_to(rare, np.array([0.5, 0.5]), 0)) < 3.1 * 1000
    assert np.array_equal(drawn_to(np.zeros(5, int), np.array([0.0, 1.0]), 0), np.arange(5))
    assert np.array_equal(drawn_to(np.zeros(5, int), np.array([0.7, 0.3]), 0), np.arange(5))
    assert np.array_equal(drawn_to(np.array([0, 0, 1]), np.array([0.0, 1.0]), 0), [2])
    assert len(drawn_to(np.empty(0, int), np.array([0.5, 0.5]), 0)) == 0


def test_weights_of_rows_give_classes_the_priors_shares() -> None:
    labels = np.repeat([0, 1, 2], [90, 10, 0])
    weights = class_weights(labels, np.array([0.2, 0.3, 0.5]))
    assert np.bincount(labels, weights) / 100 == pytest.approx([0.4, 0.6])
    assert class_weights(labels[:5], np.array([0.0, 0.5, 0.5])).tolist() == [1.0] * 5


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.0, 5e-324, 15e-324, 1e-310, 1e-7, 1e-6, 0.3, 1.0]), min_size=3, max_size=3),
)
def test_whatever_the_prior_is_rows_are_weighed_and_drawn(labels: list[int], prior: list[float]) -> None:
    """Nothing here may raise: whether it does would tell of the labels."""
    weights = class_weights(np.array(labels), np.array(prior))
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    drawn = drawn_to(np.array(labels), np.array(prior), 0)
    assert len(drawn) <= 4 * len(labels)
