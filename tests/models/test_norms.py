"""Batch norm by rows: what each batch leaves of what was known."""

import pytest
import torch

from limbeck.models.networks import NormByRows


def test_averages_go_by_rows_however_they_are_batched() -> None:
    """Rows that are all alike: in one batch or in many, as much is forgotten."""
    rows = torch.full((12, 2, 3, 3), 5.0)
    known = []
    for size in (12, 4, 1):
        norm = NormByRows(2, eps=1e-3, forgets=0.02).train()
        for batch in rows.split(size):
            norm(batch)
        known.append(norm.running_mean.tolist())  # type: ignore[union-attr]
    assert known == [pytest.approx([5 * (1 - 0.98**12)] * 2, rel=1e-5)] * 3


def test_nothing_is_learned_while_it_is_asked() -> None:
    norm = NormByRows(2, eps=1e-3, forgets=0.02).eval()
    norm(torch.ones(4, 2, 3, 3))
    assert norm.running_mean.tolist() == [0, 0]  # type: ignore[union-attr]
