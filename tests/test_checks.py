"""check_algorithm finds what it is there to find."""

import pytest

from limbeck.checks import AlgorithmError, check_algorithm
from limbeck.errors import LimbeckError
from limbeck.protocol.algorithm import Algorithm
from misbehaving import Careless, Forgetful, Greedy, IgnoresSilence, Leaky, Moody, Talkative, Thawed, Undeclared


@pytest.mark.parametrize(
    ("algorithm", "rule"),
    [
        (Thawed(), "an algorithm must be frozen"),
        (Moody(), "the same seed must give the same result"),
        (Forgetful(), "a fresh process for each request must not change the result"),
        (IgnoresSilence(), "if no party replies"),
    ],
)
def test_a_broken_rule_is_named(algorithm: Algorithm, rule: str, tests_on_path: None) -> None:
    with pytest.raises(AlgorithmError, match=rule):
        check_algorithm(algorithm)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (Leaky(), "party 0: Students was about to leave without being disclosed"),
        (Careless(), "server: InstallModel was about to leave without being disclosed"),
        (Talkative(), "server: Broadcast was about to leave without being disclosed"),
        (Undeclared(), "party 0: students was about to leave, but the algorithm does not declare it"),
        (Greedy(), "party 0: students is declared to leave 1 times, not more"),
    ],
)
def test_the_site_itself_refuses(algorithm: Algorithm, message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        check_algorithm(algorithm)
