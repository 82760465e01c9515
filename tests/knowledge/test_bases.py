"""Directions and groups of public rows, and what a voter says in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limbeck.data.sets import load
from limbeck.knowledge.bases import FEWEST, LANDMARKS, MOST, components, directions, groups, heard, number_of_directions
from limbeck.knowledge.spreading import spread_labels

X = load("digits").x[:300]
ballots = arrays(np.float64, (300, 3), elements=st.floats(0, 1))


@pytest.mark.parametrize("basis", [directions, groups])
def test_columns_are_orthonormal_and_found_alike_again(basis) -> None:  # type: ignore[no-untyped-def]
    found = basis(X, 12)
    assert found.shape == (300, 12)
    assert np.allclose(found.T @ found, np.eye(12))
    assert np.array_equal(found, basis(X, 12))


def test_directions_are_those_of_the_svd() -> None:
    values = X.reshape(300, -1).astype(float)
    values = values[:, values.std(axis=0) > 0]
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    left = np.linalg.svd(values, full_matrices=False)[0][:, :8]
    assert np.allclose(np.abs(left.T @ directions(X, 8)), np.eye(8), atol=1e-6)
    wide = X[:20]
    assert directions(wide, 40).shape == (20, 19)  # no more are there
    assert directions(np.ones((5, 3)), 4).shape == (5, 0)


def test_where_columns_are_few_directions_bend() -> None:
    x = np.random.default_rng(0).normal(size=(2 * LANDMARKS, 4))
    found = directions(x, 30)
    assert np.allclose(found.T @ found, np.eye(30))
    assert np.allclose(found.sum(axis=0), 0)
    assert np.array_equal(found[:, :4], directions(x, 4))
    for nothing_straight in ((x**2).sum(axis=1), x[:, 0] * x[:, 1]):
        said = nothing_straight - nothing_straight.mean()
        heard_before, now = (np.linalg.norm(found[:, :end].T @ said) / np.linalg.norm(said) for end in (4, 30))
        assert heard_before < 0.15 < 0.9 < now


def test_bends_are_kernel_principal_components() -> None:
    """With a landmark on every row they are those of the whole kernel matrix, the straight part taken out of it."""
    from sklearn.metrics.pairwise import rbf_kernel

    x = components(np.random.default_rng(1).normal(size=(60, 3)), 3)
    x /= x.std(axis=0)
    known = np.linalg.qr(np.column_stack([np.ones(60), x]))[0]
    away = np.eye(60) - known @ known.T
    apart = ((x[:, None] - x) ** 2).sum(axis=2).mean()
    strongest = np.linalg.eigh(away @ rbf_kernel(x, gamma=1 / (2 * apart)) @ away)[1][:, ::-1][:, :5]
    assert np.allclose(np.abs(strongest.T @ directions(x, 8)[:, 3:]), np.eye(5), atol=1e-4)


def test_columns_of_few_values_have_few_bends() -> None:
    corners = np.array([[a, b] for a in (0, 1) for b in (0, 1)] * 25)
    assert directions(corners, 40).shape == (100, 3)  # both columns, and whether they are alike
    assert directions(corners[:, :1], 40).shape == (100, 1)
    assert directions(np.arange(2 * LANDMARKS)[:, None] == 1, 40).shape == (2 * LANDMARKS, 1)  # no landmark stands out


def test_no_more_groups_than_there_are_different_rows() -> None:
    assert groups(np.repeat(np.eye(3), 4, axis=0), 10).shape == (12, 3)
    assert np.allclose(groups(np.ones((9, 2)), 4), np.full((9, 1), 1 / 3))
    assert spread_labels(np.ones((4, 2)), np.array([1, 1, 0, -1]), np.arange(4) < 3).tolist() == [1, 1, 0, 1]


@given(ballots, ballots)
def test_two_words_are_at_most_2_apart_and_none_from_silence_more_than_1(one, other) -> None:  # type: ignore[no-untyped-def]
    basis = directions(X, 6)
    a, b = heard(one, basis), heard(other, basis)
    assert np.linalg.norm(a) <= 1 + 1e-9
    assert np.linalg.norm(a - b) <= 2 + 1e-9


def test_who_says_the_same_of_all_rows_is_silent() -> None:
    assert not heard(np.tile([0.9, 0.1], (300, 1)), directions(X, 6)).any()


def test_the_louder_the_voters_the_more_directions() -> None:
    assert number_of_directions(50, 0.428, 2) == 11  # epsilon 2.56 with a median beside
    assert number_of_directions(3, 0.1, 10) == FEWEST
    assert number_of_directions(1000, 2.0, 2) == MOST


def test_answers_spread_to_rows_that_are_alike() -> None:
    data = load("digits")
    labels = np.full(300, -1)
    labels[:100] = data.y[:100]
    found = spread_labels(X, labels, labels != -1)
    assert (found[100:] == data.y[100:300]).mean() > 0.8
    assert np.array_equal(spread_labels(X, data.y[:300], np.full(300, True)), data.y[:300])
    assert np.array_equal(spread_labels(X, np.full(300, 7), np.arange(300) < 3), np.full(300, 7))
