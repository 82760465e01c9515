"""The one suite that every algorithm passes."""

from dataclasses import fields
from typing import Any, cast

import pytest

from limbeck.algorithms import algorithm_named, algorithms
from limbeck.checks import check_algorithm
from limbeck.errors import LimbeckError
from limbeck.tables import from_table

SETTINGS: dict[str, dict[str, Any]] = {
    **{
        name: {"rounds": 2}
        for name in algorithms()
        if "rounds" in {field.name for field in fields(cast(Any, algorithms()[name]))}
    },
    "fedgen": {"rounds": 2, "drawn": 64},
    "fedkt-avg": {"start": {"partitions": 1, "subsets": 2}, "then": {"rounds": 1}},
    "fedkt-prox": {"start": {"partitions": 1, "subsets": 2}, "then": {"rounds": 1, "mu": 0.5}},
}


ALIKE = {
    "feddf",
    "fedgen",
    "scaffold",
    "fedmd-np",
    "fedmd-ldp",
    "fedkt-avg",
    "fedavgm",
    "fedprox",
}  # of one loop with another that is always checked


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in algorithms()]
)
def test_every_algorithm_behaves(name: str) -> None:
    check_algorithm(from_table(algorithm_named(name), SETTINGS.get(name, {})))


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(LimbeckError, match="unknown algorithm 'fedkt1'; did you mean 'fedkt'"):
        algorithm_named("fedkt1")


def test_a_users_own_algorithm_goes_by_its_python_name() -> None:
    from misbehaving import Moody

    assert algorithm_named("python:misbehaving:Moody") is Moody
