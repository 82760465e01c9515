"""Learning curves as a picture."""

from dataclasses import replace

import pytest

from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.models.training import PoolTrainer
from limbeck.report.curves import learning_curves

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
