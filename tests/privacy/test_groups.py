"""A person with several rows: every figure against a computation of its own, from the definition, for k rows.

Delta at epsilon is the largest P(S) - e^epsilon Q(S) over sets S of outcomes: the sum of (p - e^epsilon q)+.
"""

import json
import math
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from limbeck.cli.privacy import epsilon as epsilon_command
from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import ACCOUNTANTS, best_epsilon, epsilon_by, every_epsilon
from limbeck.privacy.accountants.votes import gaussian_data_dependent
from limbeck.privacy.calibration import Privacy, clipped_gaussian, gaussian_sum
from limbeck.privacy.events import DpEvent
from limbeck.privacy.guarantees import (
    delta_of_subsets,
    epsilon_by_observer,
    epsilon_towards,
    guarantees,
    people,
)
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    GaussianSum,
    Gumbel,
    Laplace,
    LaplaceCounts,
    LaplaceLogits,
    NoisyMedian,
    Subsample,
    Unprotected,
)
from limbeck.privacy.queries import AccountingQuery, account
from limbeck.protocol.release import Asked, Release, release_row
from limbeck.protocol.rows import Array

DELTA = 1e-5
LAX = 1e-3  # at which what a few outcomes tell is not yet the pure epsilon
GROUPS = (2, 5, 10)
GAUSSIAN = {1: 1.0, 2: 2.15, 5: 6.17, 10: 14.43}
groups = pytest.mark.parametrize("k", GROUPS)


def solved(delta_at: Callable[[float], float], delta: float, most: float = 1e3) -> float:
    """The least epsilon with so small a delta."""
    if delta_at(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda e: delta_at(e) - delta, 0.0, most, xtol=1e-10))


def gaussian_exact(mu: float, delta: float = DELTA) -> float:
    """Two normal distributions, mu apart: the likeliest set lies beyond a threshold."""

    def delta_at(e: float) -> float:
        return float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e + stats.norm.logcdf(-mu / 2 - e / mu)))

    return solved(delta_at, delta)


def of_losses(loss: Array, probability: Array, delta: float) -> float:
    return solved(lambda e: float(probability @ -np.expm1(np.minimum(0, e - loss))), delta)


def convolved(masses: Array, times: int) -> Array:
    total = np.ones(1)
    for _ in range(times):
        total = np.convolve(total, masses)
    return total


def laplace_bracket(shift: float, times: int, delta: float = DELTA, bins: int = 400) -> tuple[float, float]:
    """So many numbers with Laplace noise of scale 1, each moved by `shift`: losses rounded down, and rounded up.

    The loss |x - shift| - |x| of x from the noise is at most l with probability e^(-(shift - l) / 2) / 2.
    """
    grid = np.linspace(-shift, shift, bins + 1)
    below = np.append(np.exp(-(shift - grid[:-1]) / 2) / 2, 1.0)
    up = np.diff(below, prepend=0.0)
    down = np.append(up[1:], 0.0)
    down[0] += up[0]
    losses = np.linspace(-times * shift, times * shift, times * bins + 1)
    low, high = (of_losses(losses, convolved(masses, times), delta) for masses in (down, up))
    return low, high


def discrete_laplace(gamma: float, shift: int, times: int, delta: float = DELTA) -> float:
    """The same for two-sided geometric noise on whole numbers: losses are gamma (shift - 2 x), x from 0 to shift."""
    ratio, x = math.exp(-gamma), np.arange(shift + 1)
    masses = (1 - ratio) / (1 + ratio) * ratio**x
    masses[0], masses[-1] = 1 / (1 + ratio), ratio**shift / (1 + ratio)
    losses = gamma * np.linspace(times * shift, -times * shift, times * shift + 1)
    return of_losses(losses, convolved(masses, times), delta)


def randomised_response(pure: float, times: int, delta: float = DELTA) -> float:
    yes = math.exp(pure) / (1 + math.exp(pure))
    losses = pure * np.arange(times, -times - 1, -2)
    return of_losses(losses, convolved(np.array([yes, 1 - yes]), times), delta)


def counts_of(voters: int, classes: int) -> Array:
    """All counts that so many votes can have."""
    every = [c for c in product(range(voters + 1), repeat=classes) if sum(c) == voters]
    return np.array(every)


def programs(counts: Array, k: int) -> tuple[Array, Array]:
    """All pairs of counts of which k changed votes make one the other: none grows by more than k in all."""
    change = counts[:, None] - counts[None]
    here, there = np.nonzero(np.maximum(change, 0).sum(axis=2) <= k)
    return counts[here], counts[there]


# What the rows of one person can change


@pytest.mark.parametrize("teachers", [2, 3, 4])
@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_changed_votes_of_k_teachers_move_counts_by_what_is_declared(teachers: int, k: int) -> None:
    """All votes over three classes, and all that any k of the teachers could have voted for instead."""
    ballots, event = (
        np.array(list(product(range(3), repeat=teachers))),
        DpEvent(Laplace(1.0, "example"), 1, voters=teachers, rows=k),
    )
    counts = np.stack([(ballots == c).sum(axis=1) for c in range(3)], axis=1)
    differ = (ballots[:, None] != ballots[None]).sum(axis=2)
    change = np.abs(counts[:, None] - counts[None])[differ <= k]
    assert change.sum(axis=1).max() == event.affected_counts * event.weight == 2 * min(k, teachers)
    assert np.sqrt((change**2).sum(axis=1)).max() == pytest.approx(math.sqrt(event.affected_counts) * event.weight)
    assert change.max() == event.weight
    max_bytes = np.abs(counts.max(axis=1)[:, None] - counts.max(axis=1)[None])[differ <= k]
    assert max_bytes.max() <= event.weight


@groups
def test_k_replaced_rows_move_class_counts_by_what_is_declared(k: int) -> None:
    here, there = programs(counts_of(12, 3), k)
    far = np.linalg.norm(here - there, axis=1).max()
    event = DpEvent(GaussianSum(math.sqrt(2), 1.0, 3, "example"), 1, rows=k)
    assert far == pytest.approx(math.sqrt(2) * k) == pytest.approx(math.sqrt(event.mu_squared))
    assert np.abs(here - there).sum(axis=1).max() == 2 * k == DpEvent(LaplaceCounts(1.0), 1, rows=k).pure


@groups
def test_words_of_length_one_move_a_sum_by_two_for_each_teacher(k: int) -> None:
    """Every row has s teachers, in as many partitions: the worst is where all of a person's teachers turn around."""
    s, vote = 3, np.array([0.6, 0.8])
    worst = np.linalg.norm(s * k * vote - s * k * -vote)
    assert DpEvent(GaussianSum(2.0 * s, 1.0, 2, "example"), 1, rows=k).mu_squared == pytest.approx(worst**2)


def test_where_a_party_is_protected_or_one_row_moves_everything_more_rows_change_nothing() -> None:
    party = [Laplace(0.1, "party"), Gumbel(0.1, "party"), Gaussian(9.0, "party"), ConfidentGaussian(9.0, 9.0, 3)]
    sums = [GaussianSum(2.0, 9.0, 4, "party"), NoisyMedian(0.3)]
    scores = [ClippedGaussian(2.0, 9.0, 3), LaplaceLogits(2.0, 0.01, 3)]
    for mechanism in (*party, *sums, *scores):
        one, many = (every_epsilon([DpEvent(mechanism, 3, voters=20, rows=k)], DELTA) for k in (1, 10))
        assert one == many
    assert {DpEvent(mechanism, 1, rows=10).contributions for mechanism in scores} == {1}


# Gaussian noise


def test_a_gaussian_mechanism_of_epsilon_one_and_groups_of_rows() -> None:
    mu = optimize.brentq(lambda m: gaussian_exact(m) - 1, 0.01, 1.0)
    for k, epsilon in GAUSSIAN.items():
        found = epsilon_by("gaussian", [DpEvent(GaussianSum(1.0, 1 / mu, 1, "example"), 1, rows=k)], DELTA)
        assert found == pytest.approx(epsilon, abs=5e-3)
        assert found == pytest.approx(gaussian_exact(k * mu), rel=1e-7)


@groups
def test_a_multiple_of_epsilon_would_be_too_little(k: int) -> None:
    """At k times the epsilon, delta is far above what was named."""
    mu = optimize.brentq(lambda m: gaussian_exact(m) - 1, 0.01, 1.0)
    true = stats.norm.cdf(mu * k / 2 - 1 / mu) - math.exp(k) * stats.norm.cdf(-mu * k / 2 - 1 / mu)
    assert true > 2 * DELTA
    [one, many] = (best_epsilon([DpEvent(Gaussian(12.0, "example"), 9, rows=n)], DELTA)[0] for n in (1, k))
    assert many > k * one


@groups
@pytest.mark.parametrize("voters", [None, 4])
def test_gaussian_noisy_maxima(k: int, voters: int | None) -> None:
    changed, q, sigma, check = min(k, voters or k), 6, 30.0, 50.0
    plain = DpEvent(Gaussian(sigma, "example"), q, voters=voters, rows=k)
    confident = DpEvent(ConfidentGaussian(sigma, check, 5, "example"), q, voters=voters, rows=k)
    assert epsilon_by("gaussian", [plain], DELTA) == pytest.approx(gaussian_exact(changed * math.sqrt(2 * q) / sigma))
    mu = changed * math.sqrt(q * (2 / sigma**2 + 1 / check**2))
    assert epsilon_by("gaussian", [confident], DELTA) == pytest.approx(gaussian_exact(mu))
    for accountant in ("rdp", "zcdp"):
        assert epsilon_by(accountant, [confident], DELTA) >= gaussian_exact(mu)


@groups
def test_gaussian_sums_and_counts_and_clipped_scores(k: int) -> None:
    sums, counts = (GaussianSum(4.0, 90.0, 8, "example"), GaussianSum(math.sqrt(2), 60.0, 3, "example"))
    events = [DpEvent(sums, 1, rows=k), DpEvent(counts, 1, rows=k)]
    mu = k * math.hypot(4 / 90, math.sqrt(2) / 60)
    assert epsilon_by("gaussian", events, DELTA) == pytest.approx(gaussian_exact(mu))
    secure = DpEvent(sums, 1, noise="secure", rows=k).mu_squared
    assert 1 <= secure / (4 * k / 90) ** 2 < 1.0001
    scores = DpEvent(ClippedGaussian(2.0, 50.0, 3), 7, rows=k)
    assert epsilon_by("gaussian", [scores], DELTA) == pytest.approx(gaussian_exact(4 * math.sqrt(3 * 7) / 50))


# Laplace noise


@groups
def test_laplace_noisy_maxima(k: int) -> None:
    gamma, q = 0.05, 3
    events = [DpEvent(Laplace(gamma, "example"), q, classes=3, voters=30, rows=k)]
    low, high = laplace_bracket(k * gamma, 2 * q)
    assert low - 1e-6 <= epsilon_by("pld", events, DELTA) <= high * 1.01
    assert epsilon_by("kov", events, DELTA) == pytest.approx(randomised_response(2 * k * gamma, q))
    assert epsilon_by("basic", events, DELTA) == pytest.approx(q * 2 * k * gamma)
    assert min(every_epsilon(events, DELTA).values()) >= low - 1e-6


@groups
def test_discrete_laplace_noisy_maxima(k: int) -> None:
    gamma, q = 0.1, 4
    events = [DpEvent(Laplace(gamma, "example"), q, classes=3, noise="secure", rows=k)]
    exact = discrete_laplace(gamma, k, 2 * q)
    assert epsilon_by("pld", events, DELTA) == pytest.approx(exact, rel=2e-3)
    assert min(every_epsilon(events, DELTA).values()) >= exact - 1e-6


@groups
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_votes_that_go_to_several_classes_reveal_less_than_those_that_go_to_one(k: int, step: float) -> None:
    """Delta of two counts moved by a and b against one moved by a + b = k: on whole numbers, and on a finer grid."""
    gamma, x = 0.3, np.arange(-60, 60 + k + step, step)
    noise = [np.exp(-gamma * np.abs(x - shift)) for shift in range(k + 1)]
    probabilities = [each / each.sum() for each in noise]
    here = np.outer(probabilities[0], probabilities[0])
    for a, e in product(range(1, k // 2 + 1), (0.0, 0.1, 0.5 * gamma * k, 0.9 * gamma * k)):
        one = np.maximum(0, probabilities[0] - math.exp(e) * probabilities[k]).sum()
        two = np.maximum(0, here - math.exp(e) * np.outer(probabilities[a], probabilities[k - a])).sum()
        assert two <= one + 1e-6


@groups
def test_laplace_counts_and_scores(k: int) -> None:
    counts = [DpEvent(LaplaceCounts(0.1), 2, rows=k)]
    low, _ = laplace_bracket(0.1 * k, 4)
    found = every_epsilon(counts, DELTA)
    assert found["basic"] == pytest.approx(2 * 2 * 0.1 * k)
    assert found["kov"] == pytest.approx(randomised_response(0.2 * k, 2))
    assert min(found.values()) >= low
    scores = DpEvent(LaplaceLogits(2.0, 0.01, 3, share=0.5), 5, rows=k)
    assert epsilon_by("basic", [scores], DELTA) == pytest.approx(5 * 3 * 0.01 * 2 * 2.0 * 0.5)


@groups
def test_moments_with_and_without_votes(k: int) -> None:
    """PATE's Theorem 2 and 3 by hand, e = 2 k gamma; of Lemma 7 gamma stays that of one vote."""
    gamma, q, votes = 0.1, 20, np.array([[70, 6, 4]] * 20)
    e, order = 2 * gamma * k, np.arange(1, 9)
    plain = np.minimum(e**2 * order * (order + 1) / 2, e * order)
    events = [DpEvent(Laplace(gamma, "example"), q, rows=k)]
    by_hand = ((q * plain - math.log(DELTA)) / order).min()
    assert epsilon_by("moments", events, DELTA) == pytest.approx(by_hand)
    missed = sum((2 + gamma * gap) / (4 * math.exp(gamma * gap)) for gap in (64, 66))
    known = plain
    if missed < math.expm1(e) / math.expm1(2 * e):
        stays = (1 - missed) * ((1 - missed) / (1 - math.exp(e) * missed)) ** order
        known = np.minimum(plain, np.log(stays + missed * np.exp(e * order)))
    found = epsilon_by("moments", events, DELTA, votes=votes)
    assert found == pytest.approx(((q * known - math.log(DELTA)) / order).min())


# Exponential mechanisms


@groups
def test_gumbel_noisy_maxima_by_the_exact_probabilities_of_all_neighbouring_votes(k: int) -> None:
    """Twelve teachers, three classes: the exponential mechanism's own chances, whatever k teachers change."""
    gamma = 0.15
    here, there = (special.softmax(gamma * votes, axis=1) for votes in programs(counts_of(12, 3), k))
    loss = np.log(here) - np.log(there)
    event = DpEvent(Gumbel(gamma, "example"), 1, classes=3, voters=12, rows=k)
    assert np.ptp(loss, axis=1).max() == pytest.approx(event.pure) == pytest.approx(2 * k * gamma)
    exact = solved(lambda e: float(np.maximum(0, here - math.exp(e) * there).sum(axis=1).max()), LAX, most=20.0)
    found = every_epsilon([event], LAX)
    assert exact <= min(found.values())
    here, there = two_class_pairs(
        Gumbel(gamma), "simulated", 400, k
    )  # so many that a class may lead by whatever margin
    exact = solved(lambda e: float(np.maximum(0, here - math.exp(e) * there).max()), LAX, most=20.0)
    assert exact <= min(found.values()) < 1.001 * exact


@groups
def test_gumbel_noise_asked_three_times(k: int) -> None:
    gamma, counts = 0.15, counts_of(12, 3)
    here, there = (special.softmax(gamma * votes, axis=1) for votes in programs(counts, k))
    worst = int(np.maximum(0, here - math.exp(k * gamma) * there).sum(axis=1).argmax())
    thrice = [np.einsum("a,b,c->abc", *[each[worst]] * 3).ravel() for each in (here, there)]
    exact = of_losses(np.log(thrice[0] / thrice[1]), thrice[0], LAX)
    found = every_epsilon([DpEvent(Gumbel(gamma, "example"), 3, classes=3, voters=12, rows=k)], LAX)
    assert {"pld", "bounded-range", "zcdp", "kov"} <= set(found)
    assert exact <= min(found.values())


@groups
def test_a_noisy_median_of_teachers(k: int) -> None:
    """Ten voters on four places of a grid of three points, k of them elsewhere; of ten, ten cannot do their worst."""
    gamma, positions, grid = 0.3, np.array([0.1, 0.3, 0.6, 0.9]), np.array([0.25, 0.5, 0.75])
    side = np.sign(grid[None] - positions[:, None])
    here, there = (
        special.log_softmax(-gamma * np.abs(votes @ side) / 2, axis=1) for votes in programs(counts_of(10, 4), k)
    )
    widest = np.ptp(here - there, axis=1).max()
    known = DpEvent(NoisyMedian(gamma, "example"), 1, voters=10, rows=k).pure
    assert widest <= known + 1e-9
    assert k == 10 or widest == pytest.approx(known)


@groups
def test_gumbel_beside_gaussian_noise(k: int) -> None:
    """Between the worst place of the range, had neither seen the other, and Rényi accounting."""
    gamma, mu = 0.05, 0.1
    width, t = 2 * k * gamma, np.linspace(1e-9, 2 * k * gamma - 1e-9, 401)
    first = np.expm1(width - t) / (np.exp(width - t) - np.exp(-t))

    def noise(e: Array) -> Array:
        far = k * mu
        return np.asarray(stats.norm.cdf(far / 2 - e / far) - np.exp(e + stats.norm.logcdf(-far / 2 - e / far)))

    exact = solved(lambda e: float((first * noise(e - t) + (1 - first) * noise(e - t + width)).max()), DELTA)
    events = [DpEvent(Gumbel(gamma, "example"), 1, rows=k), DpEvent(GaussianSum(1.0, 1 / mu, 4, "example"), 1, rows=k)]
    assert exact - 1e-6 <= epsilon_by("mixed", events, DELTA) <= epsilon_by("rdp", events, DELTA)


# Two classes


def probability_of_second(mechanism: Any, noise: str) -> Callable[[int], float]:
    """How likely the second class wins when it leads by a margin: from the distributions of the noise."""
    match mechanism, noise:
        case Gumbel(gamma), _:
            return lambda margin: 1 / (1 + math.exp(-gamma * margin))
        case Gaussian(sigma), _:
            return lambda margin: float(stats.norm.cdf(margin, scale=math.sqrt(2) * sigma))
        case Laplace(gamma), "simulated":
            one = stats.laplace(scale=1 / gamma)
            reach = 60 / gamma
            return lambda m: integrate.quad(
                lambda x: one.pdf(x) * one.cdf(x + m), -reach, reach, points=[0, -m], limit=200
            )[0]
    x = np.arange(-400, 401)
    masses = np.exp(-mechanism.gamma * np.abs(x))
    masses /= masses.sum()
    below = np.cumsum(masses) - masses / 2  # ties at random
    return lambda margin: float(masses @ np.interp(x + margin, x, below, left=0.0, right=1.0))


def two_class_pairs(mechanism: Any, noise: str, voters: int, k: int) -> tuple[Array, Array]:
    """The second class's chances under all pairs of neighbours: k of the voters may change to either side."""
    probability = probability_of_second(mechanism, noise)
    margins = range(-voters, voters + 1, 2)
    known = {m: probability(m) for m in margins}
    pairs = [(known[m], known[n]) for m in margins for n in margins if m != n and abs(m - n) <= 2 * k]
    here, there = np.array(pairs).T
    return here, there


def adaptively(here: Array, there: Array, queries: int) -> Callable[[Array], Array]:
    """The largest delta at each e^epsilon when the worst neighbours are chosen anew at every query."""
    if not queries:
        return lambda a: np.maximum(0, 1 - a)
    rest = adaptively(here, there, queries - 1)

    def value(a: Array) -> Array:
        yes = here * rest(np.multiply.outer(a, there / here))
        no = (1 - here) * rest(np.multiply.outer(a, (1 - there) / (1 - here)))
        return np.asarray((yes + no).max(axis=-1))

    return value


TWO_CLASSES = pytest.mark.parametrize(
    ("mechanism", "noise"),
    [
        (Laplace(0.08, "example"), "simulated"),
        (Laplace(0.08, "example"), "secure"),
        (Gumbel(0.08, "example"), "simulated"),
        (Gaussian(15.0, "example"), "simulated"),
    ],
    ids=["laplace", "discrete-laplace", "gumbel", "gaussian"],
)


@TWO_CLASSES
@pytest.mark.parametrize(("voters", "k"), [(12, 2), (12, 5), (12, 10), (5, 10)])
def test_two_classes_by_all_margins_of_all_voters(mechanism: Any, noise: Any, voters: int, k: int) -> None:
    value = adaptively(*two_class_pairs(mechanism, noise, voters, k), queries=2)
    exact = solved(lambda e: float(value(np.array([math.exp(e)]))[0]), LAX, most=20.0)
    events = [DpEvent(mechanism, 2, classes=2, voters=voters, noise=noise, rows=k)]
    found = every_epsilon(events, LAX)
    assert exact - 1e-6 <= found["binary"] < 1.01 * exact
    assert min(found.values()) >= exact - 1e-6
    unknown = [DpEvent(mechanism, 2, classes=2, noise=noise, rows=k)]  # then there may be any number of voters
    assert epsilon_by("binary", unknown, LAX) >= exact - 1e-6


@TWO_CLASSES
@groups
def test_divergences_of_two_classes_by_all_margins(mechanism: Any, noise: Any, k: int) -> None:
    """At every order the largest divergence of any pair, and the tight conversion, over orders of our own."""
    here, there = two_class_pairs(mechanism, noise, 12, k)
    order = 1 + np.geomspace(1e-2, 1e6, 2000)[:, None]
    yes, no = (np.log(p) * order + np.log(q) * (1 - order) for p, q in ((here, there), (1 - here, 1 - there)))
    worst = 3 * (np.logaddexp(yes, no) / (order - 1)).max(axis=1, keepdims=True)
    by_hand = (worst + np.log1p(-1 / order) - np.log(DELTA * order) / (order - 1)).min()
    events = [DpEvent(mechanism, 3, classes=2, voters=12, noise=noise, rows=k)]
    assert epsilon_by("binary-rdp", events, DELTA) == pytest.approx(by_hand, rel=1e-4)


# All accountants use what is scaled


@groups
@pytest.mark.parametrize("noise", ["simulated", "secure"])
def test_k_rows_are_one_row_whose_noise_is_k_times_smaller(k: int, noise: Any) -> None:
    """For whatever accountant: of two classes all but the bounds on margins, where voters do not become fewer."""
    pairs: list[tuple[Any, Any]] = [
        (Laplace(0.02, "example"), Laplace(0.02 * k, "example")),
        (Gumbel(0.02, "example"), Gumbel(0.02 * k, "example")),
        (Gaussian(40.0, "example"), Gaussian(40.0 / k, "example")),
        (ConfidentGaussian(40.0, 80.0, 3, "example"), ConfidentGaussian(40.0 / k, 80.0 / k, 3, "example")),
        (LaplaceCounts(0.02), LaplaceCounts(0.02 * k)),
        (GaussianSum(2.0, 40.0, 3, "example"), GaussianSum(2.0 * k, 40.0, 3, "example")),
    ]
    seen = set()
    for many, one in pairs:
        found, expected = (
            every_epsilon([DpEvent(m, 4, classes=3, noise=noise, rows=r)], DELTA) for m, r in ((many, k), (one, 1))
        )
        if noise == "secure" and isinstance(many, Laplace):  # whole numbers that move by k are not those that move by 1
            found.pop("pld"), expected.pop("pld")
        assert found == pytest.approx(expected, rel=1e-6)
        seen |= set(found)
    assert seen >= set(ACCOUNTANTS) - {"binary", "binary-rdp", "mixed", "gaussian"}


@groups
def test_data_dependent_gnmax_is_the_published_theorem_for_k_rows(k: int) -> None:
    """Theorem 6 by hand: q is that of the noise as it is, the divergence of k changed votes k^2 times that of one."""
    sigma, gap, q = 30.0, 250, 2
    missed, rate = float(stats.norm.sf(gap / (math.sqrt(2) * sigma))), k**2 / sigma**2
    order = 1 + np.geomspace(1e-1, 1e2, 4000)
    mu2 = math.sqrt(-math.log(missed) / rate)
    mu1 = mu2 + 1
    by_hand = rate * order
    if mu2 > 1 and -math.log(missed) > rate * mu2:
        a = (1 - missed) / (1 - (missed * math.exp(rate * mu2)) ** ((mu2 - 1) / mu2))
        b = math.exp(rate * mu1) / missed ** (1 / (mu1 - 1))
        bound = np.logaddexp(
            math.log1p(-missed) + (order - 1) * math.log(a), math.log(missed) + (order - 1) * math.log(b)
        )
        by_hand = np.where(order < mu1, np.minimum(by_hand, bound / (order - 1)), by_hand)
    expected = (q * by_hand + np.log1p(-1 / order) - np.log(DELTA * order) / (order - 1)).min()
    events = [DpEvent(Gaussian(sigma, "example"), q, rows=k)]
    found = epsilon_by("rdp", events, DELTA, votes=np.array([[gap, 0]] * q))
    assert found == pytest.approx(max(0.0, expected), rel=0.01)
    assert found < epsilon_by("rdp", events, DELTA)


@groups
def test_votes_that_are_close_reveal_nothing_under_confident_gnmax(k: int) -> None:
    """Then a query costs what it costs without votes: k^2 times that of one row, for the check and for the answer."""
    event = DpEvent(ConfidentGaussian(30.0, 50.0, 20, "example"), 1, rows=k)
    found = gaussian_data_dependent(event, np.array([3.0]), np.array([[20.0, 19.0]]))
    assert found[0, 0] == pytest.approx(3 * k**2 * (2 / 30**2 + 1 / 50**2) / 2)


# Subsets of rows


def drawn(rows: range | list[int], count: int, replacement: bool) -> dict[tuple[int, ...], float]:
    every = list(product(rows, repeat=count) if replacement else combinations(rows, count))
    return dict.fromkeys(every, 1 / len(every))


def hockey(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float], epsilon: float) -> float:
    return sum(max(0.0, probability - math.exp(epsilon) * q.get(outcome, 0.0)) for outcome, probability in p.items())


@groups
@pytest.mark.parametrize("replacement", [True, False])
def test_subsets_by_enumeration(k: int, replacement: bool) -> None:
    """All subsets of 2 of 12 rows, of which k are one person's, against those without them, with k more, with others."""
    n, here = 12, drawn(range(12), 2, replacement)
    less, more = drawn(range(k, n), 2, replacement), drawn(range(n + k), 2, replacement)
    other = drawn([*range(k, n), *range(100, 100 + k)], 2, replacement)
    sample = Subsample(2, n, replacement)
    epsilon, delta = sample.guarantee(k)
    if replacement:
        assert (epsilon, delta) == pytest.approx((2 * math.log((n + k) / n), 1 - (1 - k / n) ** 2))
    else:
        chosen = math.comb(n, 2)
        assert epsilon == pytest.approx(math.log(math.comb(n + k, 2) / chosen))
        assert delta == pytest.approx(1 - math.comb(n - k, 2) / chosen)
    for e in (0.0, 0.1, epsilon, 5.0):
        worst = max(hockey(p, q, e) for near in (less, more) for p, q in ((here, near), (near, here)))
        assert worst == pytest.approx(sample.curve(e, k))
        assert e < epsilon or worst <= delta + 1e-12
        replaced = Subsample(2, n, replacement, adjacency="replace").curve(e, k)
        assert hockey(here, other, e) == hockey(other, here, e) == pytest.approx(replaced)
    assert delta < k * sample.guarantee()[1]  # here the multiple would be too much, above 1 for k = 10


@pytest.mark.parametrize("replacement", [True, False])
def test_a_person_with_all_rows_is_in_every_subset(replacement: bool) -> None:
    sample = Subsample(3, 9, replacement)
    for group in (9, 10, 10**9):
        assert sample.guarantee(group)[1] == 1.0
        assert sample.curve(1.0, group) == 1.0
    assert (sample.guarantee(7)[1] == 1.0) is not replacement  # two others do not fill a subset of three
    assert sample.guarantee(1) == sample.guarantee()


# From ledger rows to guarantees


def row(mechanism: Any, site: str = "party 0", queries: int = 4, **known: Any) -> Release:
    return release_row(site, 0, 0, "labels", mechanism, "public", Asked(queries, 3, **known))


def test_guarantees_are_for_so_many_rows_of_a_person_and_a_party_has_them_all() -> None:
    rows = [row(Gaussian(30.0, "example"), voters=4)]
    found = {(f.unit, f.adjacency): f for f in guarantees(rows, DELTA, rows_per_person=10) if f.observer == "public"}
    assert found["example", "replace"].epsilon == pytest.approx(gaussian_exact(4 * math.sqrt(2 * 4) / 30))
    assert found["example", "replace"].rows == found["example", "add-remove"].rows == 10
    assert found["party", "replace"].rows == 1
    assert {f.rows for f in guarantees(rows, DELTA)} == {1}
    whole = [row(Gaussian(30.0, "party"), "server")]
    assert epsilon_by_observer(guarantees(whole, DELTA, 10)) == epsilon_by_observer(guarantees(whole, DELTA))


def test_a_unit_is_named_and_what_protects_rows_alone_is_nothing_to_a_party() -> None:
    """A run that protects parties, then one that protects rows."""
    rows = [row(Gaussian(30.0, "party"), "server"), row(Gaussian(30.0, "example"))]
    assert epsilon_towards("public", rows, DELTA) == pytest.approx(gaussian_exact(math.sqrt(2 * 8) / 30))
    assert epsilon_towards("public", rows, DELTA, "example", 3) == pytest.approx(
        gaussian_exact(math.sqrt(2 * 4 * (1 + 9)) / 30)
    )
    assert epsilon_towards("public", rows, DELTA, "party") == epsilon_towards("public", rows, DELTA, "both") == math.inf
    assert epsilon_towards("public", rows[:1], DELTA, "both") == epsilon_towards("public", rows[:1], DELTA, "party")
    assert epsilon_towards("public", [], DELTA, "both", 5) == 0.0
    found = guarantees(rows, DELTA)
    assert epsilon_by_observer(found, "party")["public"] == math.inf > epsilon_by_observer(found)["public"]
    with pytest.raises(LimbeckError, match="unit must be example, party or both, not 'row'"):
        epsilon_towards("public", rows, DELTA, "row")  # type: ignore[arg-type]


def test_people_with_more_rows_are_protected_less() -> None:
    mu = optimize.brentq(lambda m: gaussian_exact(m) - 1, 0.01, 1.0)
    rows = [row(GaussianSum(1.0, 1 / mu, 1, "example"), queries=1)]
    server = release_row("party 1", 0, 0, "predictions", Unprotected(), "server", Asked())
    table = people([*rows, server], DELTA)
    assert table["public"] == pytest.approx(GAUSSIAN, abs=5e-3)
    assert set(table["server"].values()) == {math.inf}
    assert people(rows, DELTA, (3,))["parties"] == {3: pytest.approx(gaussian_exact(3 * mu))}
    assert people([], DELTA) == {}


def test_subsets_of_a_person_with_several_rows() -> None:
    rows = [row(Subsample(60, 300), queries=1)] * 3
    one, five = (delta_of_subsets(rows, k) for k in (1, 5))
    assert one == delta_of_subsets(rows) == pytest.approx(3 * (1 - (1 - 1 / 300) ** 60))
    assert five == 1.0
    single = rows[:1]
    delta = delta_of_subsets(single, 5)
    assert delta == pytest.approx(1 - (1 - 5 / 300) ** 60)
    assert epsilon_towards("public", single, delta, "example", 5) == pytest.approx(60 * math.log(305 / 300))
    assert (
        epsilon_towards("public", single, 0.2, "example", 1)
        < math.inf
        == epsilon_towards("public", single, 0.2, "example", 5)
    )
    many = [row(Subsample(3, 104), queries=1)] * 6  # their sum is below six times the one: it is rounded
    assert epsilon_towards("public", many, delta_of_subsets(many)) < math.inf


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, 10**10, "2"])
def test_rows_per_person_is_a_number_of_rows(wrong: Any) -> None:
    rows = [row(Gaussian(30.0, "example"))]
    for attempt in (
        lambda: guarantees(rows, DELTA, wrong),
        lambda: epsilon_towards("public", rows, DELTA, "example", wrong),
        lambda: people(rows, DELTA, (wrong,)),
        lambda: delta_of_subsets(rows, wrong),
        lambda: Privacy("L2", epsilon=1.0, rows_per_person=wrong),
        lambda: account(
            AccountingQuery(mechanism="gumbel", gamma=0.1, queries=1, unit="example", rows_per_person=wrong)
        ),
    ):
        with pytest.raises(
            LimbeckError, match=r"rows_per_person (= .*: Input should be|must be a whole number from 1 to)"
        ):
            attempt()


def test_so_many_rows_as_there_can_be_have_a_figure() -> None:
    for mechanism in (Laplace(0.1, "example"), Gumbel(0.1, "example"), Gaussian(9.0, "example"), LaplaceCounts(0.1)):
        assert epsilon_towards("public", [row(mechanism)], DELTA, "example", 10**9) > 1e6
        capped, all_of_them = (
            epsilon_towards("public", [row(mechanism, voters=6)], DELTA, "example", k) for k in (10**9, 6)
        )
        assert (capped == all_of_them) is not isinstance(mechanism, LaplaceCounts)


# Noise for a person with several rows


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel", "gaussian", "confident-gaussian"])
def test_calibrated_noise_keeps_a_persons_rows_to_epsilon(mechanism: Any) -> None:
    asked, k = Asked(5, 3, 20, True), 5
    one, many = (
        Privacy("L2", mechanism, epsilon=4.0, rows_per_person=r).noisy_max("example", 1, asked) for r in (1, k)
    )
    spent = best_epsilon([DpEvent(many, 5, "replace", 3, 20, True, rows=k)], DELTA)[0]
    assert 0.995 * 4 < spent <= 4
    assert one.weight == many.weight == 1
    scale = "sigma" if "gaussian" in mechanism else "gamma"
    assert getattr(many, scale) / getattr(one, scale) == pytest.approx(k if scale == "sigma" else 1 / k, rel=0.01)


@groups
def test_a_calibrated_sum_keeps_a_persons_rows_to_epsilon(k: int) -> None:
    given = GaussianSum(math.sqrt(2), 1.0, 9, "example")
    one, many = (gaussian_sum(1.0, DELTA, given, (), "simulated", rows=r) for r in (1, k))
    assert many.sigma / one.sigma == pytest.approx(k, rel=2e-3)
    assert gaussian_exact(k * many.l2_sensitivity / many.sigma) == pytest.approx(1.0, rel=5e-3)


def test_clipped_scores_need_no_more_noise_but_for_what_is_beside_them() -> None:
    asked, counted = Asked(5, 3), [(DpEvent(LaplaceCounts(0.1), 1, rows=k),) for k in (1, 5)]
    alone = clipped_gaussian(2.0, None, 3.0, DELTA, asked)
    one, many = (best_epsilon([DpEvent(alone, 5, rows=k)], DELTA) for k in (1, 10))
    assert one == many
    beside = [clipped_gaussian(2.0, None, 3.0, DELTA, asked, each).sigma for each in counted]
    assert alone.sigma < beside[0] < beside[1]


@pytest.mark.parametrize(("level", "why"), [("L0", "protects nothing"), ("L1", "protects a party with all its rows")])
def test_rows_per_person_is_refused_where_it_does_nothing(level: Any, why: str) -> None:
    with pytest.raises(LimbeckError, match=f"rows_per_person = 2 is for level L2: {level} {why}"):
        Privacy(level, gamma=0.1, rows_per_person=2)
    with pytest.raises(LimbeckError, match="--rows-per-person is for --unit example"):
        account(AccountingQuery(mechanism="gumbel", gamma=0.1, queries=1, unit="party", rows_per_person=2))


def test_the_command_takes_rows_per_person(capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {"mechanism": "gaussian", "sigma": 9.0, "queries": 3, "unit": "example"}
    epsilon_command(**asked, rows_per_person=5, voters=4, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["all"]["gaussian"] == pytest.approx(gaussian_exact(4 * math.sqrt(6) / 9))
    epsilon_command(**asked, rows_per_person=5)
    assert "for a person with 5 rows" in " ".join(capsys.readouterr().out.split())
