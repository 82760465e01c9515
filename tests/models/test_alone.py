"""Rows one at a time: no row changes the prediction of another, whatever model predicts them."""

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.models.alone import PredictAlone, predict_limited
from limbeck.models.inspection import Limits
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from odd_models import of_all_rows, of_expensive_rows
from private_levels import ordinary

ROWS = ordinary(12)
FIXED = (0, [np.float32(1 / 3)] * 3)


@pytest.fixture(scope="module")
def forest() -> bytes:
    job = Fit(model_from({"name": "random-forest", "n_estimators": 5}), ROWS.x, ROWS.y)
    return job.run(3, 0)


@pytest.mark.parametrize("limited", [False, True])
def test_it_predicts_what_the_model_predicts(forest: bytes, limited: bool) -> None:
    labels, scores = PredictAlone(forest, ROWS.x, limited).run(3, 0)
    expected = PackedModel(forest).run(ROWS.x)
    assert np.array_equal(labels, expected[0])
    assert np.array_equal(scores, expected[1])


@pytest.mark.parametrize(
    ("limited", "value"), [(False, np.nan), (False, 1e30), (False, -1e30), (False, 50.0), (True, 50.0)]
)
def test_another_row_changes_its_own_prediction_alone(limited: bool, value: float) -> None:
    other = ROWS.x.copy()
    other[4] = value
    usual, changed = (PredictAlone(of_all_rows(), x, limited).run(3, 0) for x in (ROWS.x, other))
    others = np.arange(len(other)) != 4
    assert all(np.array_equal(one[others], two[others]) for one, two in zip(usual, changed, strict=True))
    together = [PackedModel(of_all_rows()).scores(x) for x in (ROWS.x, other)]
    if value > 0:
        assert not np.array_equal(together[0][others], together[1][others]), "else this test shows nothing"
    if np.isnan(value):
        assert (changed[0][4], changed[1][4].tolist()) == FIXED


def test_a_row_that_ends_the_process_gets_the_fixed_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes too much memory, one too much time; another process continues with the next row, and after some rows.

    The row that takes too much time is the first one of its process.
    """
    monkeypatch.setattr("limbeck.models.alone.MAX_VALUES", 8)
    x = np.zeros((6, 2), np.float32)
    x[1, 0], x[4, 0] = 1e6, 6_000
    labels, scores = predict_limited(of_expensive_rows(), x, 3, Limits(memory=4 * 2**30, seconds=1.0))
    assert labels.tolist() == [1, 0, 1, 1, 0, 1]
    assert scores[4].tolist() == scores[1].tolist() == FIXED[1]
    assert scores[0].tolist() == scores[5].tolist() == pytest.approx([0.2, 0.5, 0.3])


@pytest.mark.parametrize("limited", [False, True])
def test_no_rows_are_no_predictions(forest: bytes, limited: bool) -> None:
    labels, scores = PredictAlone(forest, ROWS.x[:0], limited).run(3, 0)
    assert (labels.shape, scores.shape) == ((0,), (0, 3))


@pytest.mark.parametrize("limited", [False, True])
def test_what_is_no_model_is_an_error_whatever_the_rows(limited: bool) -> None:
    with pytest.raises(LimbeckError, match=r"not a usable ONNX model|the model cannot be used: not an ONNX model"):
        PredictAlone(b"garbage", ROWS.x, limited).run(3, 0)


def test_the_substitute_is_the_fixed_prediction() -> None:
    labels, scores = PredictAlone(b"garbage", ROWS.x, False).substitute(3, 0, 5)
    assert labels.tolist() == [0] * 12
    assert (scores == np.float32(1 / 3)).all()
