"""Learning curves as a picture."""

from dataclasses import replace

import pytest

from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.models.pool import PoolTrainer
from limbeck.report.curves import _by_errors, learning_curves

PNG = b"\x89PNG"


def test_a_run_of_rounds_is_drawn_and_a_single_one_is_not() -> None:
    pytest.importorskip("matplotlib")
    record = small_federation(FedMD(rounds=2)).run(PoolTrainer(1)).record
    plain = learning_curves(record)
    assert plain is not None
    assert plain.startswith(PNG)
    bounded = learning_curves(replace(record, bounds={"pooled": [0.9, None, 0.8]}))
    assert bounded != plain
    assert learning_curves(small_federation(Solo()).run(PoolTrainer(1)).record) is None


def test_points_near_the_top_have_more_room() -> None:
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    axes.plot([0.0, 100.0])
    _by_errors(axes)
    low, above_low, high, above_high = axes.transData.transform([(0, 50), (0, 51), (0, 98), (0, 99)])[:, 1]
    assert above_high - high > 10 * (above_low - low) > 0
    assert axes.get_ylim()[1] == 100
