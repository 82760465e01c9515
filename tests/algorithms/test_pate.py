"""PATE: a federation of one in the server's hands."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.algorithms.pate import Pate
from limbeck.checks import small_federation
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.rows import Rows


def of_one_party(algorithm: FedKT | Pate, seed: int) -> Federation:
    federation = small_federation(algorithm, seed)
    everything = Rows(*(np.concatenate([getattr(rows, part) for rows in federation.private]) for part in "xy"))
    model = model_from({"name": "random-forest", "n_estimators": 5})
    return replace(federation, private=[everything], models=[model], server_model=model)


@pytest.mark.parametrize(("seed", "teachers", "queries"), [(0, 5, 45), (1, 2, 20), (2, 9, 45)])
def test_with_one_party_fedkts_student_is_pates_to_the_bit(seed: int, teachers: int, queries: int) -> None:
    fedkt = FedKT(partitions=1, subsets=teachers, queries=queries)
    _, [silo] = of_one_party(fedkt, seed).sites(PoolTrainer(1))
    reply = fedkt.answer(TrainStudents(), silo)
    assert isinstance(reply, Students)
    [student] = reply.models
    pate = of_one_party(Pate(teachers=teachers, queries=queries), seed).run(PoolTrainer(1)).model
    assert pate is not None
    rows = silo.public.x
    assert np.array_equal(pate.packed.run(rows)[1], type(pate.packed)(student).run(rows)[1])
    assert _graph(pate.onnx) == _graph(student)


def _graph(data: bytes) -> bytes:
    """The whole model but for the names of classes that a run adds to its metadata."""
    return bytes(onnx.load_from_string(data).graph.SerializeToString(deterministic=True))


def test_by_default_there_are_as_many_teachers_as_parties() -> None:
    default, three = (small_federation(Pate(teachers=n)).run(PoolTrainer(1)) for n in (None, 3))
    assert default.model is not None
    assert three.model is not None
    assert default.model.onnx == three.model.onnx


def test_wrong_parameters_are_reported() -> None:
    with pytest.raises(LimbeckError, match="teachers = 0: Input should be greater than or equal to 1"):
        Pate(teachers=0)
    with pytest.raises(LimbeckError, match=r"queries = 1\.5: Input should be"):
        Pate(queries=1.5)
