"""Sums of features: exact, the same in any order and split, and moved by no row further than stated."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.features import sums
from limbeck.features.map import STEPS, FeatureMap
from limbeck.features.sums import SumFeatures, gram_of, pack_linear, sums_of
from limbeck.knowledge.targets import NUMBER_STEPS
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array, Rows

PUBLIC = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
MAP = FeatureMap.fit("fourier", PUBLIC, 0, 12)
EXTREME = [0.0, 1e30, -3e38, np.nan, np.inf, 1e-30]


def rows(count: int, seed: int = 1) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(rng.normal(size=(count, 4)).astype(np.float32), rng.integers(3, size=count))


def length(change: Array) -> float:
    """The exact length, from whole steps."""
    steps = np.rint(change * STEPS).astype(np.int64).astype(object)
    return float(np.sqrt(float((steps**2).sum()))) / STEPS


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(EXTREME), st.booleans())
def test_a_replaced_row_moves_a_sum_by_at_most_the_root_of_two(seed: int, extreme: float, same_class: bool) -> None:
    rng, data = np.random.default_rng(seed), rows(7, seed)
    x, y = data.x.copy(), data.y.copy()
    x[3] = rng.normal(size=4) * 10 if rng.random() < 0.5 else extreme
    y[3] = y[3] if same_class else (y[3] + 1) % 3
    assert length(sums_of(MAP, Rows(x, y), 3) - sums_of(MAP, data, 3)) <= 2**0.5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([*EXTREME, 5.0]), st.integers(0, 6))
def test_a_removed_row_moves_a_sum_by_at_most_one(seed: int, extreme: float, which: int) -> None:
    data = rows(7, seed)
    data.x[which] = extreme
    fewer = Rows(np.delete(data.x, which, 0), np.delete(data.y, which))
    assert length(sums_of(MAP, data, 3) - sums_of(MAP, fewer, 3)) <= 1.0
    assert length(gram_of(MAP, data.x) - gram_of(MAP, fewer.x)) <= 1.0  # Frobenius


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([*EXTREME, 5.0]),
    st.tuples(*[st.sampled_from([0.0, 1e-4, 0.3, 0.99999, 1.0]) | st.floats(0, 1)] * 2),
)
def test_no_weighted_row_moves_a_sum_further(seed: int, extreme: float, weights: tuple[float, float]) -> None:
    """A row is replaced, also by one with another weight, and removed; other rows have weights too."""
    rng, data = np.random.default_rng(seed), rows(7, seed)
    first = Rows(data.x, data.y, np.r_[rng.random(6), weights[0]])
    x, y = data.x.copy(), data.y.copy()
    x[6], y[6] = rng.normal(size=4) * 10 if rng.random() < 0.5 else extreme, rng.integers(3)
    assert first.weight is not None
    second = Rows(x, y, np.r_[first.weight[:6], weights[1]])
    one, other, fewer = (sums_of(MAP, each, 3) for each in (first, second, first[np.arange(6)]))
    assert exact(one - other) <= 2
    assert exact(one - fewer) <= 1
    assert (sums_of(MAP, first[rng.permutation(7)], 3) == one).all()


def exact(change: Array) -> float:
    """The exact square of a length, from whole steps of weighted rows."""
    grid = STEPS * NUMBER_STEPS
    steps = (change * grid).astype(np.int64).astype(object)
    assert (steps == change * grid).all()
    return float(Fraction(int((steps**2).sum()), grid**2))


def test_weights_of_one_are_none_and_a_weight_of_two_is_a_row_twice() -> None:
    data, times = rows(200), np.random.default_rng(0).integers(0, 6, 200)
    ones = Rows(data.x, data.y, np.ones(200))
    assert np.array_equal(sums_of(MAP, ones, 3), sums_of(MAP, data, 3))
    own, repeated = Rows(data.x, data.y, times.astype(float)), data[np.repeat(np.arange(200), times)]
    for with_gram in (True, False):
        jobs = [SumFeatures("fourier", MAP.pack(), each, with_gram) for each in (own, repeated)]
        (sums_one, gram_one), (sums_two, gram_two) = (job.run(3, 0) for job in jobs)
        assert np.array_equal(sums_one, sums_two)
        assert np.allclose(gram_one, gram_two, rtol=1e-12)


def test_the_bound_is_nearly_reached() -> None:
    """Opposite rows of one class move the sum by almost sqrt(2): the stated sensitivity is not loose."""
    unit = MAP.unit(np.random.default_rng(3).normal(size=(2000, 4)).astype(np.float32) * 3)
    closest = float((unit @ unit.T).min())
    assert (2 - 2 * closest) ** 0.5 * 0.5**0.5 > 1.2


def test_sums_are_the_same_in_any_order_split_and_block(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(500)
    whole, gram = sums_of(MAP, data, 3), gram_of(MAP, data.x)
    order = np.random.default_rng(0).permutation(500)
    for cuts in ([1], [100, 101, 400], list(range(20, 500, 20))):
        parts = np.split(order, cuts)
        assert np.array_equal(sum(sums_of(MAP, data[part], 3) for part in parts), whole)
        assert np.array_equal(sum(gram_of(MAP, data.x[part]) for part in parts), gram)
    monkeypatch.setattr(sums, "BLOCK", 7)
    assert np.array_equal(sums_of(MAP, data, 3), whole)


def test_class_counts_are_the_first_coordinate() -> None:
    data = rows(50)
    counts = sums_of(MAP, data, 3)[0] / (int(0.5**0.5 * STEPS) / STEPS)
    assert np.allclose(counts, np.bincount(data.y, minlength=3))


def test_no_rows_sum_to_nothing() -> None:
    empty = Rows(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    assert not sums_of(MAP, empty, 3).any()
    assert not gram_of(MAP, empty.x).any()


def test_the_packed_model_takes_raw_rows() -> None:
    weights = np.random.default_rng(0).normal(size=(13, 3))
    data = rows(30)
    labels, scores = PackedModel(pack_linear(MAP, weights)).run(data.x)
    values = MAP.steps(data.x) / STEPS @ weights
    clear = np.diff(np.sort(values, axis=1)[:, -2:])[:, 0] > 1e-3
    assert clear.sum() > 20
    assert np.array_equal(labels[clear], values.argmax(axis=1)[clear])
    assert np.allclose(scores.sum(axis=1), 1)
