"""Noisy sums and medians: what they tell of a neighbour, and what they cost beside one another."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import special

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon, epsilon_by
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.calibration import gaussian_sum
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.mechanisms import Gaussian, GaussianSum, Gumbel, LaplaceCounts, NoisyMedian
from limbeck.protocol.release import NoiseSource

SOURCE = NoiseSource("simulated", 0, ("test",))


def probabilities(values: tuple[float, ...], mechanism: NoisyMedian) -> np.ndarray:
    """Of each point of the grid, by the exponential mechanism's formula."""
    grid = np.arange(1, mechanism.points + 1) / (mechanism.points + 1)
    known = np.array([v for v in values if not math.isnan(v)])[:, None]
    quality = -np.abs((known < grid).sum(axis=0) - (known > grid).sum(axis=0)) / 2
    return np.asarray(special.softmax(mechanism.gamma * quality))


@pytest.mark.parametrize("moved", ["replaced", "added"])
def test_a_neighbours_losses_have_the_range_that_accountants_know(moved: str) -> None:
    """By brute force over all numbers that four voters may name."""
    mechanism, widest = NoisyMedian(0.7, points=5), 0.0
    positions = [0.05, 0.3, 0.5, 0.8, math.nan]
    for others, one, other in product(product(positions, repeat=3), positions, positions):
        if moved == "replaced" or math.isnan(other):
            loss = np.log(probabilities((*others, one), mechanism)) - np.log(probabilities((*others, other), mechanism))
            widest = max(widest, float(np.ptp(loss)), float(np.abs(loss).max()))
    known = DpEvent(mechanism, 1, "replace" if moved == "replaced" else "add-remove").pure
    assert known * 0.9 < widest <= known + 1e-9


def test_the_median_is_drawn_as_the_formula_states_and_is_near_the_middle() -> None:
    mechanism, values = NoisyMedian(2.0, points=9), (0.1, 0.32, 0.34, 0.36, math.nan)
    drawn = [mechanism.protect(np.array(values), NoiseSource("simulated", seed, ("t",)))[0] for seed in range(4000)]
    found = np.bincount(np.rint(np.array(drawn) * 10).astype(int), minlength=10)[1:] / 4000
    assert np.abs(found - probabilities(values, mechanism)).max() < 0.03
    many = np.random.default_rng(0).normal(0.24, 0.05, 60)
    assert abs(NoisyMedian(0.6).protect(many, SOURCE)[0] - 0.24) < 0.06


def test_of_real_noise_the_median_is_as_near() -> None:
    pytest.importorskip("opendp")
    many = np.random.default_rng(0).normal(0.24, 0.05, 200)
    assert abs(NoisyMedian(1.0).protect(many, NoiseSource("secure", 0, ()))[0] - 0.24) < 0.06


def test_a_sum_costs_what_its_gaussian_noise_does() -> None:
    event = DpEvent(GaussianSum(2.0, 4.0, 10), 3)
    assert epsilon_by("gaussian", [event], 1e-5) == gaussian_epsilon(math.sqrt(3) / 2, 1e-5)
    counted = DpEvent(GaussianSum(2.0, 4.0, 10, "party"), 3, "add-remove")
    assert epsilon_by("gaussian", [counted], 1e-5) == epsilon_by("gaussian", [event], 1e-5)
    real = DpEvent(GaussianSum(2.0, 4.0, 10), 3, noise="secure")
    assert 1 <= real.mu_squared / event.mu_squared < 1.0001
    with pytest.raises(LimbeckError, match="declared for a sum of 10 numbers, but there are 9"):
        GaussianSum(2.0, 4.0, 10).asked(np.zeros(9), 3)


def together(width: float, mu: float, eps: float) -> float:
    """Delta of one bounded range beside Gaussian noise that do not look at one another: the worst place of the range."""
    t = np.linspace(1e-9, width - 1e-9, 401)
    here = np.expm1(width - t) / (np.exp(width - t) - np.exp(-t))

    def noise(e: np.ndarray) -> np.ndarray:
        return np.asarray(special.ndtr(mu / 2 - e / mu) - np.exp(e + special.log_ndtr(-mu / 2 - e / mu)))

    return float((here * noise(eps - t) + (1 - here) * noise(eps - t + width)).max())


@pytest.mark.parametrize(("width", "mu"), [(1.2, 0.428), (1.2, 1.385), (0.3, 1.0), (3.0, 0.5)])
def test_beside_an_exponential_mechanism_noise_costs_a_little_more_than_if_neither_saw_the_other(
    width: float, mu: float
) -> None:
    """The adaptive figure lies between the non-adaptive one, which is a lower bound, and Rényi accounting."""
    events = [DpEvent(NoisyMedian(width / 2), 1), DpEvent(GaussianSum(2.0, 2 / mu, 8), 1)]
    found = epsilon_by("mixed", events, 1e-5)
    assert together(width, mu, found) <= 1e-5
    assert together(width, mu, 0.95 * found) > 1e-5
    assert found <= epsilon_by("rdp", events, 1e-5)
    assert best_epsilon(events, 1e-5) == (found, "mixed")


def test_mixed_at_its_ends_equals_its_parts() -> None:
    delta = 1e-5
    no_noise = [DpEvent(Gumbel(0.2), 5), DpEvent(GaussianSum(1.0, 1e4, 3), 1)]
    assert epsilon_by("mixed", no_noise, delta) == pytest.approx(epsilon_by("pld", no_noise[:1], delta), rel=0.01)
    no_range = [DpEvent(Gumbel(0.01), 1), DpEvent(Gaussian(4.0), 3)]
    assert epsilon_by("mixed", no_range, delta) == pytest.approx(epsilon_by("gaussian", no_range[1:], delta), rel=0.01)


def test_mixed_refuses_what_it_has_no_theorem_for() -> None:
    median = DpEvent(NoisyMedian(0.5), 1)
    for other in (LaplaceCounts(1.0), GaussianSum(1.0, 1.0, 1)):
        noise = "simulated" if other.name == "laplace-counts" else "secure"
        with pytest.raises(UnknownEventError):
            epsilon_by("mixed", [median, DpEvent(other, 1, noise=noise)], 1e-5)  # type: ignore[arg-type]
    with pytest.raises(UnknownEventError, match="beside"):
        epsilon_by("mixed", [median], 1e-5)


def test_a_sum_gets_what_an_epsilon_leaves() -> None:
    given = GaussianSum(2.0, 1.0, 9)
    alone = gaussian_sum(3.0, 1e-5, given, (), "simulated")
    assert 2.99 < best_epsilon([DpEvent(alone, 1)], 1e-5)[0] <= 3.0
    assert gaussian_epsilon(2.0 / alone.sigma, 1e-5) == pytest.approx(3.0, rel=2e-3)
    beside = gaussian_sum(3.0, 1e-5, given, (NoisyMedian(0.6),), "simulated")
    assert beside.sigma > alone.sigma
    assert 2.99 < best_epsilon([DpEvent(beside, 1), DpEvent(NoisyMedian(0.6), 1)], 1e-5)[0] <= 3.0
    with pytest.raises(LimbeckError, match="no noise keeps"):
        gaussian_sum(1.0, 1e-5, given, (NoisyMedian(3.0),), "simulated")
