"""Votes against a slow count, and what replacing one party can do to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.knowledge import votes
from limbeck.knowledge.votes import add_votes, consistent_votes, no_votes, tally, winners
from limbeck.protocol.rows import Array

sizes = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32))


def draw(parties: int, students: int, rows: int, classes: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(classes, size=(parties, students, rows))


@given(sizes)
def test_tally_is_the_slow_count(size: tuple[int, int, int, int, int]) -> None:
    labels = draw(*size)[:, 0]
    slow = [[sum(vote == c for vote in column) for c in range(size[3])] for column in labels.T]
    assert tally(labels, size[3]).tolist() == slow


@given(sizes)
def test_consistent_votes_are_the_papers_formula(size: tuple[int, int, int, int, int]) -> None:
    """v_m(x) = s |{i : v_m^i(x) = s}|, Algorithm 1, lines 15 to 19."""
    labels, classes, s = draw(*size), size[3], size[1]
    slow = [
        [s * sum(all(labels[i, :, row] == m) for i in range(size[0])) for m in range(classes)] for row in range(size[2])
    ]
    assert consistent_votes(labels, classes).tolist() == slow


@given(sizes)
def test_with_one_student_consistency_is_free(size: tuple[int, int, int, int, int]) -> None:
    labels = draw(*size)[:, :1]
    assert np.array_equal(consistent_votes(labels, size[3]), tally(labels[:, 0], size[3]))


@given(sizes)
def test_the_order_of_voters_changes_nothing(size: tuple[int, int, int, int, int]) -> None:
    labels = draw(*size)
    shuffled = np.random.default_rng(0).permutation(labels)
    assert np.array_equal(consistent_votes(labels, size[3]), consistent_votes(shuffled, size[3]))
    assert np.array_equal(tally(labels[:, 0], size[3]), tally(shuffled[:, 0], size[3]))


@given(sizes, st.integers(0, 2**32))
def test_replacing_a_party_moves_at_most_two_s_votes(size: tuple[int, int, int, int, int], seed: int) -> None:
    """FedKT Theorem 1: the sensitivity is 2 s, no more than s in one count, with consistent voting and without."""
    labels, classes, s = draw(*size), size[3], size[1]
    other = labels.copy()
    other[0] = np.random.default_rng(seed).integers(classes, size=other[0].shape)
    every_student = [tally(each.reshape(-1, each.shape[2]), classes) for each in (labels, other)]
    for one, two in ((consistent_votes(labels, classes), consistent_votes(other, classes)), every_student):
        moved = np.abs(one - two)
        assert moved.max() <= s
        assert moved.sum(axis=1).max() <= 2 * s
        assert (moved**2).sum(axis=1).max() <= 2 * s**2


def test_ties_and_empty_rows_go_to_the_lowest_class() -> None:
    assert winners(np.array([[0, 2, 2], [0, 0, 0], [1, 0, 5]])).tolist() == [1, 0, 2]


types = st.sampled_from([np.int64, np.uint8, np.uint16, np.int32])


@given(sizes, types, st.booleans(), st.integers(1, 7))
def test_votes_that_are_added_party_by_party_in_blocks_are_those_of_all_at_once(
    size: tuple[int, int, int, int, int], kind: type[np.integer], consistent: bool, block: int
) -> None:
    """Against the definitions, for every type of labels and every size of a block."""
    labels, (parties, students, rows, classes, _) = draw(*size), size
    one_hot = np.eye(classes, dtype=np.int64)[labels]  # parties, students, rows, classes
    unanimous = students * (one_hot.sum(axis=1) == students).sum(axis=0)
    whole = unanimous if consistent else one_hot.sum(axis=(0, 1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(votes, "BLOCK", block)
        counts = no_votes(rows, classes, parties * students)
        for party in labels.astype(kind):
            add_votes(counts, party, consistent)
        assert np.array_equal(counts, whole)
        together = consistent_votes(labels.astype(kind), classes) if consistent else tally(labels.astype(kind), classes)
        assert np.array_equal(together, whole)


@pytest.mark.parametrize("voters", [127, 128, 300, 40_000])
def test_counts_hold_the_votes_of_all_voters(voters: int) -> None:
    labels = np.ones((voters, 1), np.uint8)
    assert tally(labels, 2).tolist() == [[0, voters]]
    assert consistent_votes(labels[:, None], 2).tolist() == [[0, voters]]


def test_no_rows_and_no_voters() -> None:
    assert tally(np.empty((3, 0), np.int64), 2).shape == (0, 2)
    assert tally(np.empty((0, 3), np.int64), 2).tolist() == [[0, 0]] * 3
    assert consistent_votes(np.empty((0, 2, 3), np.int64), 2).tolist() == [[0, 0]] * 3
