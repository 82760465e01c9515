"""Averages of weights: by hand, and what is no weights."""

import numpy as np
from safetensors.numpy import save

from limbeck.knowledge.averages import are_like, bytes_of, mean, values_of

ONE = {"w": np.array([1.0, 2.0], np.float32), "seen": np.array(3)}
OTHER = {"w": np.array([5.0, 0.0], np.float32), "seen": np.array(6)}


def test_the_mean_is_weighted_and_keeps_shapes_and_types() -> None:
    """(3 x 1 + 1 x 5) / 4 = 2, (3 x 2 + 1 x 0) / 4 = 1.5; a count of 3.75 is 4."""
    found = values_of(bytes_of(mean([ONE, OTHER], [3, 1]), ONE))
    assert found["w"].tolist() == [2.0, 1.5]
    assert found["w"].dtype == np.float32
    assert found["seen"] == 4
    assert found["seen"].shape == ()
    assert found["seen"].dtype == np.int64


def test_the_mean_of_one_is_that_one_to_the_bit() -> None:
    drawn = {"w": np.random.default_rng(0).normal(size=1000).astype(np.float32)}
    assert bytes_of(mean([drawn], [17]), drawn) == save(drawn)


def test_weights_of_another_network_are_not_like() -> None:
    assert are_like(save(OTHER), ONE)
    others = {
        "a shape": {**ONE, "w": np.zeros(3, np.float32)},
        "a type": {**ONE, "w": np.zeros(2)},
        "no number": {**ONE, "w": np.array([1.0, np.nan], np.float32)},
        "a name more": {**ONE, "b": np.zeros(1)},
        "a name less": {"w": ONE["w"]},
    }
    assert not any(are_like(save(other), ONE) for other in others.values())
    assert not are_like(b"no safetensors", ONE)
    header = b'{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    assert not are_like(len(header).to_bytes(8, "little") + header + bytes(4), ONE)
