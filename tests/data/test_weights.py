"""Sample weights and class weights as users give them."""

from typing import Any

import numpy as np
import pytest

from limbeck.data.weights import RULE, by_class, check_class_weights, factors_of, sample_weights, weighted
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Rows

NAMES = ["no", "yes", "maybe"]
ROWS = Rows(np.zeros((3, 1)), np.array([0, 1, 1]))


@pytest.mark.parametrize("is_private", [False, True])
@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf])
def test_weights_are_finite_and_not_negative(wrong: float, is_private: bool) -> None:
    with pytest.raises(
        LimbeckError, match="^sample_weight: at private" if is_private else "^north: sample_weight must"
    ):
        sample_weights([0.5, wrong, 1.0], 3, "north", is_private)


def test_at_private_levels_they_are_at_most_one_and_the_message_is_always_the_same() -> None:
    assert sample_weights([0, 3, 1], 3, "north", False).tolist() == [0, 3, 1]
    for given in ([0, 3, 1], [7.5, 0, 0], [np.nan, 0, 0]):
        with pytest.raises(LimbeckError) as caught:
            sample_weights(given, 3, f"party {given}", True)
        assert str(caught.value) == RULE


@pytest.mark.parametrize(
    ("given", "problem"), [([1, 2], r"shape \(2,\); it must be \(3,\)"), (["a", "b", "c"], "be numbers")]
)
def test_there_is_one_number_for_each_row(given: Any, problem: str) -> None:
    with pytest.raises(LimbeckError, match=f"^north: sample_weight .*{problem}"):
        sample_weights(given, 3, "north", False)


@pytest.mark.parametrize("wrong", [-1, np.nan, np.inf, "much", True, None])
def test_a_class_weight_is_a_finite_number(wrong: Any) -> None:
    with pytest.raises(LimbeckError, match="class_weights: the weight of 'yes' is"):
        check_class_weights({"no": 1, "yes": wrong})


@pytest.mark.parametrize("wrong", [{}, [1, 2], "balance", 0.5, np.array([1, 2])])
def test_class_weights_are_a_table_or_balanced(wrong: Any) -> None:
    with pytest.raises(LimbeckError, match=r'class_weights: write \{ no = 0.2, yes = 1.0 \} or "balanced"'):
        check_class_weights(wrong)


def test_the_largest_class_weight_becomes_one_and_a_class_without_one_has_one() -> None:
    assert factors_of({"yes": 4}, NAMES, "multiclass", True) == pytest.approx([0.25, 1, 0.25])
    assert factors_of({"yes": 0.1}, NAMES, "multiclass", True) == pytest.approx([1, 0.1, 1])
    assert factors_of(None, NAMES, "multiclass", True) is None
    assert factors_of("balanced", NAMES, "multiclass", False, [np.array([0, 0, 0, 1])]) == pytest.approx([1 / 3, 1, 0])


@pytest.mark.parametrize(
    ("given", "kind", "problem"),
    [
        ({"yess": 1}, "multiclass", "there is no class 'yess'; did you mean 'yes'"),
        ({"yes": 1, "Yes ": 2}, "multiclass", "'yes' and 'Yes ' are one class"),
        ({"yes": 0, "no": 0, "maybe": 0}, "multiclass", "at least one class needs a weight above 0"),
        ({"yes": 1}, "multilabel", "for one class a row"),
        ("balanced", "regression", "for one class a row"),
        ("balanced", "multiclass", "computed from private labels"),
    ],
)
def test_wrong_class_weights_are_refused(given: Any, kind: Any, problem: str) -> None:
    with pytest.raises(LimbeckError, match=problem):
        factors_of(given, NAMES, kind, True, [ROWS.y])


def test_names_of_classes_are_folded_as_labels_are() -> None:
    assert factors_of({" YES": 4}, NAMES, "multiclass", True) == pytest.approx([0.25, 1, 0.25])
    assert factors_of({"0": 0.5}, [0, 1], "multiclass", True) == pytest.approx([0.5, 1])
    assert factors_of({"Yes": 0.5}, ["Yes", "yes"], "multiclass", True) == pytest.approx([0.5, 1])
    with pytest.raises(LimbeckError, match="no class 'YES'"):
        factors_of({"YES": 0.5}, ["Yes", "yes"], "multiclass", True)


def test_class_weights_multiply_sample_weights() -> None:
    own = Rows(ROWS.x, ROWS.y, np.array([0.5, 0.5, 0.0]))
    found = by_class(own, [1.0, 0.1, 1.0]).weight
    assert found is not None
    assert found.tolist() == [0.5, 0.05, 0.0]
    assert by_class(own, None) is own


def test_without_protection_rows_of_weight_zero_are_removed_and_with_it_they_stay() -> None:
    given = [np.array([1.0, 0.0, 0.5]), None]
    plain, private = (weighted([ROWS, ROWS], given, None, ["a", "b"], level) for level in (False, True))
    assert [len(rows) for rows in plain] == [2, 3]
    assert [len(rows) for rows in private] == [3, 3]
    assert all((rows.weight == 1).all() for rows in (plain[1], private[1]) if rows.weight is not None)
    with pytest.raises(LimbeckError, match="b: all weights are 0"):
        weighted([ROWS, ROWS], [None, np.zeros(3)], None, ["a", "b"], False)


def test_very_small_and_very_large_weights_are_scaled_without_protection() -> None:
    for unit in (1e-9, 1e200):
        [rows] = weighted([ROWS], [np.array([1, 2, 4]) * unit], None, ["a"], False)
        assert rows.weight == pytest.approx([0.25, 0.5, 1])
    assert weighted([ROWS], [None], None, ["a"], False) == [ROWS]
