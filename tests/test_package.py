"""What `import limbeck` offers."""

import pytest

import limbeck as lb
from limbeck.algorithms import algorithms


def test_algorithms_go_by_their_class_names() -> None:
    assert {lb.FedKT, lb.Solo, lb.Centralized} <= set(algorithms().values())
    assert {"FedKT", "Solo", "Centralized", "run", "check_algorithm", "LimbeckError"} <= set(dir(lb))


@pytest.mark.parametrize("name", ["FedKTT", "nothing"])
def test_other_names_are_missing(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(lb, name)
