import math

import numpy as np

from limbeck.algorithms.centralized import Centralized
from limbeck.checks import small_federation
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.streams import stream


def test_it_is_one_fit_on_everybodys_rows() -> None:
    federation = small_federation(Centralized())
    result = federation.run(PoolTrainer(1))
    seed = int(stream(0, "server", 1).integers(2**31, size=1)[0])
    x, y = (np.concatenate([getattr(rows, part) for rows in federation.private]) for part in "xy")
    fitted = federation.server_model.fit(x, y, 3, seed)
    assert result.model is not None
    assert federation.test is not None
    assert np.array_equal(PackedModel(result.model.onnx).vote(federation.test.x), fitted.vote(federation.test.x))


def test_rows_that_leave_unprotected_have_an_infinite_epsilon() -> None:
    record = small_federation(Centralized()).run(PoolTrainer(1)).record
    assert record.epsilon == {"server": math.inf, "parties": math.inf}
    handed = [row for row in record.ledger if row["what"] == "rows" and row["observer"] == "server"]
    assert [row["queries"] for row in handed] == [1, 1, 1], "how many rows a party has stands in no ledger"
