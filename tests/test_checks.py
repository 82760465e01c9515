"""check_algorithm finds what it is there to find."""

import pytest

from limbeck.checks import AlgorithmError, check_algorithm
from limbeck.errors import LimbeckError
from limbeck.protocol.parties import Algorithm
from misbehaving import Careless, Deaf, Forgetful, Leaky, Moody, Talkative, Thawed


@pytest.mark.parametrize(
    ("algorithm", "rule"),
    [
        (Thawed(), "an algorithm is frozen"),
        (Moody(), "the same seed gives the same result"),
        (Forgetful(), "a fresh process for every request changes nothing"),
        (Deaf(), "when nobody answers"),
    ],
)
def test_a_broken_rule_is_named(algorithm: Algorithm, rule: str, tests_on_path: None) -> None:
    with pytest.raises(AlgorithmError, match=rule):
        check_algorithm(algorithm)


@pytest.mark.parametrize("algorithm", [Leaky(), Careless(), Talkative()])
def test_the_door_itself_refuses(algorithm: Algorithm) -> None:
    with pytest.raises(LimbeckError, match="was about to leave without a release"):
        check_algorithm(algorithm)
