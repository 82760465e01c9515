"""Epsilons whose derivation is known. delta = 1e-5; e = 2 gamma for a replaced voter."""

import math

import numpy as np
import pytest

from limbeck.privacy.accountants import best_epsilon, epsilon_by
from limbeck.privacy.accountants.composition import gaussian_epsilon
from limbeck.privacy.events import DpEvent
from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace, Subsample

DELTA = 1e-5


def by(accountant: str, mechanism: Laplace | Gumbel | Gaussian, queries: int, orders: int = 8, **known: int) -> float:
    return epsilon_by(accountant, [DpEvent(mechanism, queries, **known)], DELTA, orders)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gamma", "queries", "orders", "epsilon"),
    [
        (0.05, 40, 8, 3.2391),
        (0.04, 40, 8, 2.5911),
        (0.04, 40, 32, 2.5592),
        (0.06, 297, 8, 12.1717),
        (0.05, 80, 32, 4.7026),
    ],
)
def test_moments(gamma: float, queries: int, orders: int, epsilon: float) -> None:
    """Minimum over l of (k min(e^2 l (l+1) / 2, e l) + ln(1/delta)) / l. The last: FedKT-L2 with s = 2 composes s k."""
    assert by("moments", Laplace(gamma), queries, orders) == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize(("votes", "gamma", "q"), [([20, 5], 0.1, 0.195239), ([30, 12, 8], 0.2, 0.057897)])
def test_lemma_7(votes: list[int], gamma: float, q: float) -> None:
    """The sum over other classes of (2 + gamma gap) / (4 exp(gamma gap))."""
    assert math.exp(Laplace(gamma).log_q(np.array([votes]))[0]) == pytest.approx(q, abs=5e-7)


@pytest.mark.parametrize(("orders", "epsilon"), [(8, 4.6604), (32, 4.6598)])
def test_data_dependent_moments(orders: int, epsilon: float) -> None:
    votes = np.array([[50, 0]] * 30 + [[45, 5]] * 40 + [[35, 15]] * 30)
    assert epsilon_by("moments", [DpEvent(Laplace(0.1), 100)], DELTA, orders, votes) == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize(("gamma", "queries", "epsilon"), [(0.05, 40, 2.5054), (0.1, 148, 12.5077)])
def test_kov(gamma: float, queries: int, epsilon: float) -> None:
    """delta(eps) of k randomised responses: the sum over j of Binomial(j) (1 - e^(eps - (k - 2j) e))+."""
    assert by("kov", Laplace(gamma), queries) == pytest.approx(epsilon, abs=5e-5)


def test_pld() -> None:
    """Two counts move in each of 40 queries: 80 Laplace mechanisms of sensitivity 1."""
    assert by("pld", Laplace(0.05), 40) == pytest.approx(1.7141, abs=5e-5)


def test_zcdp() -> None:
    """Classic: rho + 2 sqrt(rho ln(1/delta)). Tight: min over orders of rho a + ln(1 - 1/a) - ln(delta a)/(a - 1)."""
    rho = 0.1
    tight, classic = by("zcdp", Gaussian(1 / math.sqrt(rho)), 1), rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert tight == pytest.approx(1.9142, abs=5e-5)
    assert classic == pytest.approx(2.2460, abs=5e-5)


def test_gaussian() -> None:
    """With mu = sqrt(2 k) / sigma; exact: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) = delta."""
    assert by("gaussian", Gaussian(40), 1000) == pytest.approx(4.9833, abs=5e-5)
    assert by("rdp", Gaussian(40), 1000) == pytest.approx(5.3777, abs=5e-5)
    assert gaussian_epsilon(math.sqrt(5000) / 263.80, DELTA) == pytest.approx(1, abs=2e-5)


def test_gumbel() -> None:
    """Bounded range w = 2 gamma: rho = w^2 / 8; `bounded-range` takes the worst divergence instead."""
    assert by("bounded-range", Gumbel(0.05), 40) == pytest.approx(1.2889, abs=5e-5)
    assert by("zcdp", Gumbel(0.05), 40) == pytest.approx(1.3081, abs=5e-5)


def test_binary() -> None:
    """Margins -25, -23, ..., 25 of 25 voters, shifted by 2; from below the worst single margin composed 40 times."""
    assert by("binary-rdp", Laplace(0.05), 40, classes=2, voters=25) == pytest.approx(1.2648, abs=5e-5)
    assert 1.1736 <= by("binary", Laplace(0.05), 40, classes=2, voters=25) <= 1.1784


def test_subsample() -> None:
    """With replacement: k ln((n+1)/n) and 1 - (1 - 1/n)^k."""
    assert Subsample(60, 300).guarantee() == pytest.approx((0.1997, 0.1815), abs=5e-5)
    assert Subsample(60, 300, replacement=False).guarantee() == pytest.approx((math.log(301 / 241), 0.2))


@pytest.mark.parametrize(
    ("gamma", "queries", "voters", "moments_bound", "orders", "kov", "pld", "gumbel", "floor"),
    [
        (0.04, 40, 25, 2.5592, 32, 1.9323, 1.3426, 1.0110, 0.9231),
        (0.06, 81, 25, 5.7942, 8, 4.6641, 3.1453, 2.3396, 2.154),
        (0.05, 297, 25, 9.7776, 8, 8.2677, 5.4417, 3.9783, 3.682),
        (0.08, 81, 50, 7.9848, 8, 6.5282, 4.3547, 3.2257, 2.976),
        (0.1, 148, 50, 14.6365, 8, 12.5077, 8.0934, 5.8970, 5.473),
    ],
)
def test_the_papers_settings_are_beaten(
    gamma: float,
    queries: int,
    voters: int,
    moments_bound: float,
    orders: int,
    kov: float,
    pld: float,
    gumbel: float,
    floor: float,
) -> None:
    """The unchanged Laplace mechanism, accounted for better; Gumbel noise at the same gamma; two classes."""
    laplace = Laplace(gamma)
    assert by("moments", laplace, queries, orders) == pytest.approx(moments_bound, abs=6e-5)
    assert by("kov", laplace, queries) == pytest.approx(kov, abs=6e-5)
    assert by("pld", laplace, queries) == pytest.approx(pld, abs=6e-5)
    assert by("bounded-range", Gumbel(gamma), queries) == pytest.approx(gumbel, abs=6e-5)
    assert best_epsilon([DpEvent(laplace, queries)], DELTA)[0] <= pld + 6e-5
    assert best_epsilon([DpEvent(Gumbel(gamma), queries)], DELTA)[0] < gumbel
    best, accountant = best_epsilon([DpEvent(laplace, queries, classes=2, voters=voters)], DELTA)
    assert accountant == "binary"
    assert best <= 1.02 * floor
