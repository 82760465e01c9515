"""The one suite that every algorithm passes."""

import pytest

from limbeck.algorithms import algorithm_named, algorithms
from limbeck.checks import check_algorithm
from limbeck.errors import LimbeckError


@pytest.mark.parametrize("name", algorithms())
def test_every_algorithm_behaves(name: str) -> None:
    settings = {"rounds": 2} if name.startswith("fedmd") else {}
    check_algorithm(algorithm_named(name)(**settings))


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(LimbeckError, match="unknown algorithm 'fedkt1'; did you mean 'fedkt'"):
        algorithm_named("fedkt1")


def test_a_users_own_algorithm_goes_by_its_python_name() -> None:
    from misbehaving import Moody

    assert algorithm_named("python:misbehaving:Moody") is Moody
