import math

import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.accounting import epsilon_by_observer
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt
from limbeck.protocol.release import Observer, Release


def row(mechanism: str, observer: Observer) -> Release:
    return Release("party 0", 0, "Students", mechanism, math.inf, "any", observer, 1)


def test_what_leaves_bare_costs_infinity_towards_its_observer_alone() -> None:
    assert epsilon_by_observer([row("unprotected", "server")] * 2) == {"server": math.inf}


def test_nothing_released_costs_nothing() -> None:
    assert epsilon_by_observer([]) == {}


def test_an_unknown_mechanism_is_refused_rather_than_guessed() -> None:
    with pytest.raises(LimbeckError, match="'homemade'"):
        epsilon_by_observer([row("homemade", "server")])


def test_unprotected_adds_nothing() -> None:
    message = Adopt(b"model")
    assert Unprotected().protect(message) is message
