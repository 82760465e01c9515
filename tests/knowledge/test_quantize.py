"""Quantized scores: the printed function, packed and read back without loss, never far above the floor."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.errors import LimbeckError
from limbeck.knowledge.quantize import (
    compressed_size,
    ends,
    entropy_bytes,
    nearest_levels,
    packed,
    quantized,
    scores_of,
    unpacked,
)

scores = st.lists(st.floats(-30, 30), min_size=1, max_size=60)


@given(scores, st.integers(1, 1000), st.floats(0.1, 20), st.sampled_from([np.float32, np.float64]))
def test_packed_levels_decode_to_exactly_the_printed_function(
    values: list[float], scale: int, bound: float, kind: type[np.floating[Any]]
) -> None:
    """Q(z) = ceil(S z / 2B) 2B / S (Equation 4), of scores clipped to (-B, B], in fractions without rounding.

    On the border of two levels, to within rounding, it may be either.
    """
    z = np.array(values, kind)[:, None]
    levels = quantized(z, bound, scale)
    assert np.array_equal(unpacked(*packed(levels), *z.shape), levels)
    for score, level in zip(z[:, 0].tolist(), levels[:, 0].tolist(), strict=True):
        exact = Fraction(min(score, bound)) * scale / (2 * Fraction(bound))
        printed = max(math.ceil(exact), math.floor(-scale / 2) + 1)  # at -B Equation 4 has a level more
        assert level == printed or abs(exact - round(exact)) < 1e-9
    assert np.array_equal(scores_of(levels, bound, scale), levels * (2 * bound / scale))


@given(st.integers(1, 1000), st.floats(0.1, 20), st.sampled_from([np.float32, np.float64]))
def test_no_score_has_a_level_beyond_the_last(scale: int, bound: float, kind: type[np.floating[Any]]) -> None:
    far = quantized(np.array([-1e9, -bound, bound, 1e9], kind), bound, scale)
    lowest, highest = ends(scale)
    assert far.tolist() == [lowest, lowest, highest, highest]
    assert highest - lowest + 1 == scale + scale % 2


@pytest.mark.parametrize(("scale", "levels", "bits"), [(1, 2, 1), (2, 2, 1), (3, 4, 2), (200, 200, 8), (256, 256, 8)])
def test_so_many_levels_take_so_many_bits(scale: int, levels: int, bits: int) -> None:
    found = quantized(np.linspace(-10, 10, 20_001), 10.0, scale)
    assert len(np.unique(found)) == levels
    rng = np.random.default_rng(0)
    _, used, _ = packed(rng.permutation(found)[:, None])
    assert used in (bits, 8)
    assert math.ceil(math.log2(levels)) == bits


@given(st.integers(1, 9), st.integers(1, 40), st.integers(-100, 100), st.integers(1, 2**20))
def test_any_levels_are_read_back(classes: int, rows: int, least: int, spread: int) -> None:
    levels = np.random.default_rng(spread).integers(least, least + spread, (rows, classes))
    data, bits, lowest = packed(levels)
    assert np.array_equal(unpacked(data, bits, lowest, rows, classes), levels)


def test_no_rows_are_no_bytes() -> None:
    data, bits, least = packed(np.empty((0, 3), np.int64))
    assert data == b""
    assert unpacked(data, bits, least, 0, 3).shape == (0, 3)


@pytest.mark.parametrize(("bits", "rows"), [(0, 5), (33, 5), (3, 4), (3, 6), (-1, 5)])
def test_bytes_that_are_something_else_are_refused(bits: int, rows: int) -> None:
    data, right, least = packed(np.tile(np.arange(6), 20)[:, None])
    assert right in (3, 8)
    with pytest.raises(LimbeckError, match="levels of"):
        unpacked(data, bits, least, rows, 1)


def test_levels_begin_where_there_are_some() -> None:
    data, bits, _ = packed(np.arange(6)[:, None])
    with pytest.raises(LimbeckError, match="the lowest level is "):
        unpacked(data, bits, 10**30, 6, 1)


def test_entropy_is_the_floor() -> None:
    """Two equally likely levels take a bit each, one level nothing; random levels cannot be sent in less."""
    assert entropy_bytes(np.tile([0, 1], 400)[:, None]) == pytest.approx(100)
    assert entropy_bytes(np.tile([0, 1], (400, 1))) == 0
    levels = np.rint(np.random.default_rng(0).normal(scale=20, size=(20_000, 10))).astype(int)
    data, _, _ = packed(levels)
    floor = entropy_bytes(levels)
    assert floor <= compressed_size(data) < 1.1 * floor


def test_noise_is_put_on_the_grid_again() -> None:
    step = 2 * 10.0 / 200
    noisy = np.array([[0.26, -31.04]])
    assert np.array_equal(nearest_levels(noisy, 10.0, 200), np.rint(noisy / step))
    assert nearest_levels(np.array([[1e30, -1e30]]), 10.0, 200).tolist() == [[2**30, -(2**30)]]
