"""Labels that have the class mix they should, and a voter's estimate of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.knowledge.matching import BAND, label_shift, matched, matched_shares


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_shares_are_the_priors_where_the_leader_is_far_off(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(classes, 5.0))
    scores = rng.normal(size=(2000, classes)) + 3 * np.eye(classes)[0]  # all lean to the first class
    shares = np.bincount(matched(scores, prior), minlength=classes) / 2000
    error = BAND * np.sqrt(prior * (1 - prior) / 2000)
    assert (np.abs(shares - prior) <= error + 0.01).all()


def test_one_row_of_a_class_that_the_prior_has_not_gets_a_label_all_the_same() -> None:
    assert matched(np.array([[0.0, 0.0, 1.0]]), np.array([0.3, 0.7, 0.0])).tolist() in ([0], [1], [2])


def test_shares_that_random_variation_explains_stay() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((30, 3))
    assert np.array_equal(matched(scores, np.full(3, 1 / 3)), scores.argmax(axis=1))


def test_of_two_classes_the_highest_ranked_are_the_second() -> None:
    lead = np.linspace(-1, 0, 1000)  # nobody says the second class
    found = matched(np.stack([np.zeros(1000), lead], axis=1), np.array([0.75, 0.25]))
    assert np.array_equal(np.flatnonzero(found), np.arange(1000 - found.sum(), 1000))
    assert 240 <= found.sum() <= 260


def test_equal_scores_are_not_distinguished() -> None:
    scores = np.repeat([[0.9, 0.1], [0.6, 0.4]], [900, 100], axis=0)
    assert matched(scores, np.array([0.8, 0.2])).sum() == 100
    assert matched(np.tile([0.9, 0.1], (500, 1)), np.array([0.5, 0.5])).sum() in (0, 500)


def test_a_class_of_no_share_gets_no_row_beyond_random_variation() -> None:
    scores = np.random.default_rng(0).random((500, 3))
    assert (matched(scores, np.array([0.5, 0.5, 0.0])) == 2).sum() == 0


def test_an_offset_of_a_class_changes_nothing_where_labels_are_matched() -> None:
    rng = np.random.default_rng(1)
    scores, prior = rng.normal(size=(3000, 2)), np.array([0.9, 0.1])
    one, other = (matched(scores + np.array([off, 0.0]), prior) for off in (2.0, 5.0))
    assert (one == other).mean() > 0.99


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.booleans())
def test_probabilities_have_the_prior_as_their_mean_and_the_order_of_the_scores(
    seed: int, classes: int, one_is_absent: bool
) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(classes, 5.0))
    if one_is_absent:
        prior = np.append(prior[:-1] / prior[:-1].sum(), 0.0)
    shares = matched_shares(scores := rng.random((300, classes)) + 0.01, prior)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.mean(axis=0), prior, atol=1e-5)
    first, second = scores[:, 0] / scores[:, 1], shares[:, 0] / np.maximum(shares[:, 1], 1e-300)
    if prior[:2].all():
        assert (np.argsort(first) == np.argsort(second)).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_voter_estimates_the_class_shares_of_public_rows_from_its_own(share: float) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(4000) < 0.3).astype(int)  # its own mix
    public = (rng.random(4000) < share).astype(int)
    estimate = label_shift(labels * 0.4 + rng.random(4000) * 0.5, labels, public * 0.4 + rng.random(4000) * 0.5)
    assert estimate == pytest.approx(share, abs=0.03)


def test_a_voter_that_cannot_distinguish_classes_has_no_estimate() -> None:
    one_class, scores = np.zeros(50, int), np.random.default_rng(0).random(50)
    assert label_shift(scores, one_class, scores) is None
    few = one_class.copy()
    few[:4] = 1
    assert label_shift(scores, few, scores) is None
    worse = np.repeat([0, 1], 25)
    assert label_shift(1.0 - worse, worse, scores) is None
