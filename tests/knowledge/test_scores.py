"""What is exchanged and agreed on: scores, probabilities, labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limbeck.knowledge.scores import (
    classes_are_disconnected,
    consensus_of,
    contrasts,
    in_format,
    labels_of,
    logits_of,
    softmax,
)
from limbeck.protocol.rows import Array

logits = arrays(np.float64, (5, 4), elements=st.floats(-30, 30, width=32))


@given(logits)
def test_what_is_exchanged_keeps_the_leading_class(values: Array) -> None:
    labels = in_format(values, "argmax")
    assert labels.dtype == np.uint8
    assert np.array_equal(labels, values.argmax(axis=1))
    assert np.allclose(in_format(values, "softmax").sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(in_format(values, "logits"), values.astype(np.float32))


@given(logits, logits)
def test_equal_weights_are_the_mean_and_one_weight_is_one_party(ones: Array, others: Array) -> None:
    mean = consensus_of([ones, others], [2.0, 2.0], "logits", 4)
    assert np.allclose(mean, (ones + others) / 2, atol=1e-4)
    assert np.allclose(consensus_of([ones, others], [0.0, 5.0], "logits", 4), others, atol=1e-4)


def test_labels_are_weighed_and_a_tie_goes_to_the_lowest() -> None:
    predictions = [np.array([0, 1, 2], np.uint8), np.array([1, 1, 0], np.uint8), np.array([1, 2, 1], np.uint8)]
    assert consensus_of(predictions, [1, 1, 1], "argmax", 3).tolist() == [1, 1, 0]
    assert consensus_of(predictions, [5, 1, 1], "argmax", 3).tolist() == [0, 1, 2]
    assert consensus_of(predictions, [1, 1, 1], "argmax", 3).dtype == np.uint8


@given(logits)
def test_logits_of_probabilities_have_the_same_softmax(values: Array) -> None:
    probabilities = softmax(values)
    assert np.allclose(softmax(logits_of(probabilities)), probabilities, atol=0.03)


def test_the_labels_of_a_consensus() -> None:
    assert labels_of(np.array([[0.1, 0.9], [2.0, 1.0]])).tolist() == [1, 0]
    assert labels_of(np.array([3, 1], np.uint8)).tolist() == [3, 1]
    assert labels_of(np.array([3], np.uint8)).dtype == np.int64


def test_a_row_in_the_wrong_shape_is_no_consensus() -> None:
    with pytest.raises(ValueError, match="shape"):
        consensus_of([np.zeros((2, 3)), np.zeros((3, 3))], [1, 1], "logits", 3)


def test_who_has_nothing_to_contrast_a_class_with_has_no_contrast() -> None:
    assert contrasts(np.array([[9, 0, 0], [6, 2, 1], [0, 4, 4]])).tolist() == [[0, 0, 0], [3, 2, 1], [0, 4, 4]]


@pytest.mark.parametrize(
    ("counts", "disconnected"),
    [
        ([[1, 2, 0, 0], [0, 0, 3, 1]], True),
        ([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 2, 2]], False),  # a chain
        ([[1, 0, 0, 0], [2, 0, 0, 0]], False),  # classes that nobody holds are none
        ([[1, 0], [0, 1]], True),
    ],
)
def test_classes_are_disconnected_where_nobody_holds_both(counts: list[list[int]], disconnected: bool) -> None:
    assert classes_are_disconnected(np.array(counts, float)) == disconnected
