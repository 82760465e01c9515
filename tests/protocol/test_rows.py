import numpy as np
import pytest

from limbeck.protocol.rows import Array, PublicRows, content_hash

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_equal_rows_have_equal_hashes_wherever_they_lie_in_memory() -> None:
    assert content_hash(X) == content_hash(np.asfortranarray(X)) == PublicRows(X.copy()).hash


@pytest.mark.parametrize("other", [X + 1, X.reshape(3, 4), X.astype(np.float64), X[::-1], X[:3]])
def test_any_difference_changes_the_hash(other: Array) -> None:
    assert content_hash(X) != content_hash(other)


def test_labels_do_not_enter_the_hash() -> None:
    assert PublicRows(X).hash == PublicRows(X, np.zeros(4)).hash
