"""A task is pickled without its large values, and is put together again as local processes get it."""

from pickle import dumps, loads
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from limbeck.models.clusters.packing import SMALL, packed, run_packed
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from


def same(*values: Any) -> tuple[Any, ...]:
    return values


def returned(*values: Any) -> tuple[Any, ...]:
    call, large = packed(same, values, {})
    found: tuple[Any, ...] = loads(run_packed(call, *large.values()))  # noqa: S301
    return found


KINDS: list[np.dtype[Any]] = [np.dtype(kind) for kind in ("float32", "int64", "bool", "<U5")]


@given(
    st.sampled_from(KINDS).flatmap(lambda kind: arrays(kind, array_shapes(max_dims=3, max_side=40))),
    st.sampled_from(["as it is", "transposed", "every second", "repeated"]),
)
def test_an_array_arrives_as_pickle_would_bring_it(array: Any, form: str) -> None:
    array = {
        "as it is": array,
        "transposed": array.T,
        "every second": array[::2],
        "repeated": np.concatenate([array] * 40),
    }[form]
    [found] = returned(array)
    plain = loads(dumps(array))  # noqa: S301
    assert found.dtype == plain.dtype
    assert found.strides == plain.strides or found.size < 2
    np.testing.assert_array_equal(found, plain)


def test_a_large_value_is_taken_out_once() -> None:
    rows, weights = np.arange(10_000.0), b"w" * SMALL
    call, large = packed(same, [rows, rows.copy(), rows[:5000], weights, bytes(weights), b"few", np.zeros(3)], {})
    assert sorted(map(len, large.values())) == [SMALL, 5000, 10_000]
    assert len(call) < 1000


def test_the_order_of_an_array_is_part_of_its_key() -> None:
    rows = np.arange(10_000.0).reshape(100, 100)
    _, one = packed(same, [rows], {})
    _, other = packed(same, [np.asfortranarray(rows)], {})
    assert set(one) != set(other)


def test_arrays_that_arrive_unaligned_and_read_only_become_as_usual() -> None:
    rows = np.arange(10_000.0)
    call, large = packed(same, [rows], {})
    [value] = large.values()
    unaligned = np.frombuffer(b"x" + value.tobytes(), np.uint8)[1:].view(value.dtype)
    assert not unaligned.flags.aligned
    [found] = loads(run_packed(call, unaligned))  # noqa: S301
    assert found.flags.aligned
    assert found.flags.writeable
    np.testing.assert_array_equal(found, rows)


def test_memory_that_is_used_again_gets_its_own_key() -> None:
    """Content hashes are kept by address as long as the array lives; a new array may lie at the same address."""
    known: dict[Any, Any] = {}
    keys = set()
    for value in range(20):
        _, large = packed(same, [np.full(100_000, float(value))], known)
        keys |= set(large)
        del large
    assert len(keys) == 20


def test_a_job_gives_what_it_gives_here() -> None:
    rng = np.random.default_rng(0)
    job = Fit(model_from({"name": "decision-tree"}), rng.normal(size=(900, 3)).astype(np.float32), np.arange(900) % 2)
    call, large = packed(job.run, [2, 7], {})
    assert len(large) == 2
    assert loads(run_packed(call, *large.values())) == job.run(2, 7)  # noqa: S301


def test_objects_in_arrays_stay_in_the_task() -> None:
    texts = np.array(["a", None] * SMALL, dtype=object)
    [found] = returned(texts)
    assert found.tolist() == texts.tolist()


@pytest.mark.parametrize("size", [SMALL - 1, SMALL])
def test_bytes_of_any_size_arrive(size: int) -> None:
    assert returned(b"x" * size) == (b"x" * size,)
