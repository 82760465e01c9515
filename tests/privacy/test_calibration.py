"""What a privacy table asks for, and noise calibrated to an epsilon."""

from typing import Any

import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.events import DpEvent
from limbeck.privacy.mechanisms import ConfidentGaussian, Gumbel, Laplace
from limbeck.protocol.release import Asked

ASKED = Asked(40, 3, 20, True)


def test_the_noise_that_is_named_is_taken() -> None:
    assert Privacy("L1", "laplace", gamma=0.05).noisy_max("party", 2, ASKED) == Laplace(0.05, "party", 2, "any")
    assert Privacy("L2", gamma=0.05).noisy_max("example", 1, ASKED) == Gumbel(0.05, "example", 1, "replace")


def test_confident_gnmax_has_defaults_that_depend_on_public_facts_alone() -> None:
    chosen = Privacy("L1", "confident-gaussian", sigma=3.0).noisy_max("party", 2, ASKED)
    assert chosen == ConfidentGaussian(3.0, 6.0, 24.0, "party", 2, "any")


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel", "gaussian", "confident-gaussian"])
@pytest.mark.parametrize("noise", ["simulated", "secure"])
@pytest.mark.parametrize("epsilon", [8.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_calibrated_noise_just_keeps_to_epsilon(mechanism: Any, noise: Any, epsilon: float) -> None:
    asked = Asked(20, 3, 20, True, noise)
    chosen = Privacy("L1", mechanism, epsilon=epsilon).noisy_max("party", 1, asked)
    spent, _ = best_epsilon([DpEvent(chosen, 20, "replace", 3, 20, True, noise)], 1e-5)
    assert 0.995 * epsilon < spent <= epsilon


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"level": "L1"}, "needs one of gamma and epsilon"),
        ({"level": "L1", "gamma": 0.1, "epsilon": 1.0}, "needs one of gamma and epsilon"),
        ({"level": "L1", "mechanism": "gaussian", "gamma": 0.1}, "gaussian takes sigma, not gamma"),
        ({"level": "L1", "sigma": 3.0}, "gumbel takes gamma, not sigma"),
        ({"level": "L1", "gamma": 0.0}, "gamma = 0.0: Input should be greater than 0"),
        ({"level": "L1", "gamma": -0.1}, "gamma = -0.1: Input should be greater than 0"),
        ({"level": "L1", "epsilon": 0.0}, "epsilon = 0.0: Input should be greater than 0"),
        ({"level": "L1", "gamma": 0.1, "delta": 0.0}, "delta = 0.0: Input should be greater than 0"),
        ({"level": "L1", "gamma": 0.1, "delta": 1.0}, "delta = 1.0: Input should be less than 1"),
        (
            {"level": "L1", "mechanism": "gaussian", "sigma": float("inf")},
            "sigma = inf: Input should be a finite number",
        ),
        ({"level": "L1", "gamma": 0.1, "threshold": 3.0}, "are for confident-gaussian"),
        (
            {"level": "L1", "mechanism": "confident-gaussian", "sigma": 1.0, "check": -1.0},
            "check = -1.0: Input should be greater than 0",
        ),
    ],
)
def test_wrong_tables_are_reported(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        Privacy(**wrong)


def test_an_epsilon_that_no_noise_can_meet_is_reported() -> None:
    with pytest.raises(LimbeckError, match="no noise keeps 40 queries to epsilon = 1e-40"):
        Privacy("L1", epsilon=1e-40, delta=1e-12).noisy_max("party", 1, ASKED)
