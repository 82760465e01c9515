"""Running sums of votes against sums of all votes at once."""

import re
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.errors import LimbeckError
from limbeck.knowledge import vote_sums, votes
from limbeck.knowledge.scores import contrast_weights
from limbeck.knowledge.vote_sums import StoredVotes, mean_vote
from limbeck.knowledge.votes import shares_voted, soft_vote
from limbeck.protocol.rows import Array

sizes = st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(2, 5), st.integers(0, 2**32))
blocks = st.integers(1, 30)


def draw(parties: int, rows: int, classes: int, seed: int) -> tuple[Array, Array]:
    """Votes in float16, some of them invalid, and class counts with many zeros."""
    rng = np.random.default_rng(seed)
    given = rng.random((parties, rows, classes)) * rng.choice([0.1, 1.0, 3.0], (parties, 1, 1))
    given[rng.random(given.shape) < 0.1] = rng.choice([np.nan, np.inf, -1.0])
    held = rng.integers(0, 50, (parties, classes)) * (rng.random((parties, classes)) < rng.random())
    return given.astype(np.float16), held.astype(np.float64)


@given(sizes, blocks, st.sampled_from([0, 64, 2**20]), st.booleans())
def test_a_sum_has_the_same_bits_as_that_of_all_votes_at_once(
    size: tuple[int, int, int, int], block: int, in_memory: int, contrast: bool
) -> None:
    """Whatever lies in memory or in the file; also if a party sends votes of another type than the others."""
    given, held = draw(*size)
    weights = contrast_weights(held) if contrast else np.ones((len(given), 1))
    kinds = [np.float64 if party % 3 == 2 else np.float16 for party in range(len(given))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(votes, "BLOCK", block)
        patched.setattr(vote_sums, "IN_MEMORY", in_memory)
        stored = StoredVotes(*given.shape[1:])
        for vote, kind in zip(given, kinds, strict=True):
            stored.add(vote.astype(kind))
        found = stored.sum(weights)
    plain = (weights[:, None] * np.stack([soft_vote(vote) for vote in given])).sum(axis=0)
    assert np.array_equal(found, plain)


def test_a_full_temporary_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses to write more than 100 bytes to a file."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(vote_sums, "IN_MEMORY", 64)
    stored = StoredVotes(10, 2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(
            LimbeckError, match=f"folder {re.escape(tempfile.gettempdir())}: .*; free space there, or set"
        ):
            stored.add(np.ones((10, 2)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@given(sizes, blocks, st.sampled_from([soft_vote, shares_voted]), st.integers(0, 3))
def test_mean_votes_are_those_of_all_rows_at_once(
    size: tuple[int, int, int, int], block: int, vote: type, more: int
) -> None:
    teachers, rows, classes, seed = size
    scores = np.random.default_rng(seed).random((teachers, rows + more, classes)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(votes, "BLOCK", block)
        found = mean_vote(list(scores), vote, rows)
    plain = np.stack([vote(each[:rows]) for each in scores]).mean(axis=0).astype(np.float16)
    assert found.dtype == np.float16
    assert np.array_equal(found, plain)
