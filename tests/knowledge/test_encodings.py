"""Encodings: bases of public rows, and what a voter sends in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limbeck.algorithms.fedvote import FedVote
from limbeck.checks import check_algorithm
from limbeck.data.sets import load
from limbeck.knowledge.encodings import (
    LANDMARKS,
    MAX_COMPONENTS,
    MIN_COMPONENTS,
    BasisEncoding,
    PrincipalComponents,
    components,
    number_of_components,
)
from limbeck.knowledge.spreading import spread_labels
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.rows import Array
from mixed_parties import two_classes

X = load("digits").x[:300]
directions = PrincipalComponents.columns
votes = arrays(np.float64, (300, 3), elements=st.floats(0, 1))


def test_columns_are_orthonormal_and_found_alike_again() -> None:
    found = directions(X, 12)
    assert found.shape == (300, 12)
    assert np.allclose(found.T @ found, np.eye(12))
    assert np.array_equal(found, directions(X, 12))


def test_components_are_those_of_the_svd() -> None:
    values = X.reshape(300, -1).astype(float)
    values = values[:, values.std(axis=0) > 0]
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    left = np.linalg.svd(values, full_matrices=False)[0][:, :8]
    assert np.allclose(np.abs(left.T @ directions(X, 8)), np.eye(8), atol=1e-6)
    wide = X[:20]
    assert directions(wide, 40).shape == (20, 19)  # there are no more
    assert directions(np.ones((5, 3)), 4).shape == (5, 0)


def test_where_columns_are_few_kernel_components_follow() -> None:
    x = np.random.default_rng(0).normal(size=(2 * LANDMARKS, 4))
    found = directions(x, 30)
    assert np.allclose(found.T @ found, np.eye(30))
    assert np.allclose(found.sum(axis=0), 0)
    assert np.array_equal(found[:, :4], directions(x, 4))
    for not_linear in ((x**2).sum(axis=1), x[:, 0] * x[:, 1]):
        target = not_linear - not_linear.mean()
        before, now = (np.linalg.norm(found[:, :end].T @ target) / np.linalg.norm(target) for end in (4, 30))
        assert before < 0.15 < 0.9 < now


def test_kernel_components_are_those_of_the_kernel_matrix() -> None:
    """With a landmark on every row they are those of the whole kernel matrix, the linear part taken out of it."""
    from sklearn.metrics.pairwise import rbf_kernel

    x = components(np.random.default_rng(1).normal(size=(60, 3)), 3)
    x /= x.std(axis=0)
    known = np.linalg.qr(np.column_stack([np.ones(60), x]))[0]
    away = np.eye(60) - known @ known.T
    mean_distance = ((x[:, None] - x) ** 2).sum(axis=2).mean()
    strongest = np.linalg.eigh(away @ rbf_kernel(x, gamma=1 / (2 * mean_distance)) @ away)[1][:, ::-1][:, :5]
    assert np.allclose(np.abs(strongest.T @ directions(x, 8)[:, 3:]), np.eye(5), atol=1e-4)


def test_columns_of_few_values_have_few_components() -> None:
    corners = np.array([[a, b] for a in (0, 1) for b in (0, 1)] * 25)
    assert directions(corners, 40).shape == (100, 3)  # both columns, and whether they are alike
    assert directions(corners[:, :1], 40).shape == (100, 1)
    assert directions(np.arange(2 * LANDMARKS)[:, None] == 1, 40).shape == (2 * LANDMARKS, 1)


@given(votes, votes)
def test_two_encoded_votes_are_at_most_the_sensitivity_from_each_other(one: Any, other: Any) -> None:
    encoding = PrincipalComponents.fit(X, 6)
    a, b = encoding.encode(one), encoding.encode(other)
    assert np.linalg.norm(a) <= 1 + 1e-6
    assert np.linalg.norm(a - b) <= encoding.sensitivity + 1e-6


def test_opposite_votes_are_at_a_distance_of_the_sensitivity() -> None:
    encoding = PrincipalComponents.fit(X, 6)
    one_way = np.eye(2)[(encoding.basis[:, 0] > 0).astype(int)]
    distance = np.linalg.norm(encoding.encode(one_way) - encoding.encode(1 - one_way))
    assert distance == pytest.approx(encoding.sensitivity)


def test_equal_votes_for_all_rows_encode_to_nothing() -> None:
    assert not PrincipalComponents.fit(X, 6).encode(np.tile([0.9, 0.1], (300, 1))).any()


def test_what_a_vote_contains_of_the_components_is_decoded() -> None:
    encoding = PrincipalComponents.fit(X, 20)
    labels = np.eye(10)[load("digits").y[:300]]
    decoded = encoding.decode(encoding.encode(labels)).argmax(axis=1)
    assert (decoded == labels.argmax(axis=1)).mean() > 0.7


def test_the_less_noise_the_more_components() -> None:
    assert number_of_components(50, 0.428, 2) == 11  # epsilon 2.56 with a median beside
    assert number_of_components(3, 0.1, 10) == MIN_COMPONENTS
    assert number_of_components(1000, 2.0, 2) == MAX_COMPONENTS


def test_labels_spread_to_rows_that_are_alike() -> None:
    data = load("digits")
    labels = np.full(300, -1)
    labels[:100] = data.y[:100]
    found = spread_labels(X, labels)
    assert (found[100:] == data.y[100:300]).mean() > 0.8
    assert np.array_equal(spread_labels(X, data.y[:300]), data.y[:300])
    assert np.array_equal(spread_labels(X, np.where(np.arange(300) < 3, 7, -1)), np.full(300, 7))
    assert spread_labels(np.ones((4, 2)), np.array([1, 1, 0, -1])).tolist() == [1, 1, 0, 1]


@dataclass(frozen=True, slots=True)
class RandomProjection(BasisEncoding):
    """A new encoding is one class: random orthonormal columns, the same wherever the rows are the same."""

    @staticmethod
    def columns(x: Array, number: int) -> Array:
        return np.linalg.qr(np.random.default_rng(0).normal(size=(len(x), number)))[0]


@dataclass(frozen=True, slots=True)
class ProjectedVote(FedVote):
    name = "projected-vote"
    encoding = RandomProjection


@pytest.mark.slow
def test_a_new_encoding_is_one_class() -> None:
    algorithm = ProjectedVote(1, 2, privacy=Privacy("L1", epsilon=60.0))
    record = two_classes(algorithm).run(PoolTrainer(1)).record
    assert 59 < record.epsilon["public"] <= 60
    projected, principal = (
        two_classes(kind(1, 2, privacy=Privacy("L1", epsilon=60.0))).run(PoolTrainer(1)).accuracy or 0
        for kind in (ProjectedVote, FedVote)
    )
    assert principal > projected  # components of the rows say more than any others


@pytest.mark.slow
def test_an_algorithm_with_a_new_encoding_behaves() -> None:
    check_algorithm(ProjectedVote(1, 2, queries=30, privacy=Privacy("L1", epsilon=60.0)))
