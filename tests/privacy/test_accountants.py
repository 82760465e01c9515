"""Properties of accountants: they grow and fall as they must, and never claim less than an attack shows."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import ACCOUNTANTS, best_epsilon, epsilon_by, every_epsilon
from limbeck.privacy.accountants.composition import binary
from limbeck.privacy.accountants.votes import check_votes, gaussian_data_dependent
from limbeck.privacy.events import DpEvent, UnknownEventError
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    Gumbel,
    Laplace,
    LaplaceCounts,
    LaplaceLogits,
)

DELTA = 1e-5
gammas = st.floats(0.02, 0.3)
counts = st.integers(1, 60)
NOISY: dict[str, Any] = {
    "laplace": Laplace,
    "gumbel": Gumbel,
    "gaussian": lambda gamma: Gaussian(1 / gamma),
    "confident-gaussian": lambda gamma: ConfidentGaussian(1 / gamma, 2 / gamma, 5),
    "clipped-gaussian": lambda gamma: ClippedGaussian(1.0, 3 / gamma, 3),
    "laplace-logits": lambda gamma: LaplaceLogits(1.0, gamma, 3, share=0.5),
    "laplace-counts": LaplaceCounts,
}
kinds = st.sampled_from(list(NOISY))


def event(kind: str, gamma: float, queries: int, **known: Any) -> DpEvent:
    return DpEvent(NOISY[kind](gamma), queries, **known)


@settings(max_examples=15)
@given(kinds, gammas, counts, st.integers(1, 20))
def test_epsilon_grows_with_queries(kind: str, gamma: float, queries: int, more: int) -> None:
    few, many = (every_epsilon([event(kind, gamma, n)], DELTA) for n in (queries, queries + more))
    assert all(few[name] <= many[name] + 1e-6 for name in few)


@settings(max_examples=15)
@given(kinds, gammas, counts, st.floats(1.01, 2))
def test_epsilon_grows_as_noise_shrinks(kind: str, gamma: float, queries: int, factor: float) -> None:
    quiet, loud = (every_epsilon([event(kind, g, queries)], DELTA) for g in (gamma, gamma * factor))
    assert all(quiet[name] <= loud[name] + 1e-6 for name in quiet)


@settings(max_examples=15)
@given(kinds, gammas, counts, st.floats(1e-9, 1e-3))
def test_epsilon_falls_with_delta(kind: str, gamma: float, queries: int, delta: float) -> None:
    strict, lax = (every_epsilon([event(kind, gamma, queries)], d) for d in (delta, 2 * delta))
    assert all(lax[name] <= strict[name] + 1e-6 for name in strict)


def test_noisy_scores_compose_as_laplace_noise_on_each() -> None:
    """Against dp-accounting's own composition of the same numbers: C scores that move by 2 B share each."""
    from dp_accounting.pld import privacy_loss_distribution as distributions

    known = DpEvent(LaplaceLogits(2.0, 0.05, 4, share=0.25), 30)
    exact = distributions.from_laplace_mechanism(20.0, 1.0, value_discretization_interval=1e-3).self_compose(4 * 30)
    truth = exact.get_epsilon_for_delta(DELTA)
    found = every_epsilon([known], DELTA)
    assert found["basic"] == pytest.approx(30 * 4 * 0.05)
    assert all(epsilon >= truth - 1e-3 for epsilon in found.values())
    assert found["rdp"] < 1.15 * truth


def test_a_share_of_the_mean_needs_less_noise() -> None:
    whole, part = (DpEvent(ClippedGaussian(10.0, 5.0, 3, share=share), 10).mu_squared for share in (1.0, 0.1))
    assert part == pytest.approx(whole / 100)


mixtures = st.lists(
    st.tuples(st.sampled_from(["laplace", "gumbel", "gaussian"]), gammas, st.integers(1, 30)), min_size=2, max_size=4
)


@settings(max_examples=15)
@given(mixtures, st.sampled_from([{}, {"classes": 2, "voters": 9}]))
def test_composition_does_not_depend_on_order(parts: list[tuple[str, float, int]], known: dict[str, Any]) -> None:
    events = [event(*part, **known) for part in parts]
    there, back = every_epsilon(events, DELTA), every_epsilon(events[::-1], DELTA)
    assert there == pytest.approx(back, rel=1e-6)


@pytest.mark.parametrize("kind", ["laplace", "gumbel"])
def test_unlike_queries_are_not_composed_as_if_their_order_were_known(kind: str) -> None:
    """An adversary who sees 30 quiet answers first chooses better where the 3 loud ones hurt most."""
    mixed = [event(kind, 0.05, 30, classes=2, voters=25), event(kind, 0.3, 3, classes=2, voters=25)]
    for accountant in ("binary", *(["pld"] if kind == "gumbel" else [])):
        with pytest.raises(UnknownEventError, match="different kinds"):
            epsilon_by(accountant, mixed, DELTA)
    assert best_epsilon(mixed, DELTA)[0] > 2.0098


@settings(max_examples=15)
@given(kinds, gammas, st.integers(2, 60))
def test_queries_compose_the_same_in_one_event_or_two(kind: str, gamma: float, queries: int) -> None:
    whole = every_epsilon([event(kind, gamma, queries)], DELTA)
    parts = every_epsilon([event(kind, gamma, 1), event(kind, gamma, queries - 1)], DELTA)
    assert parts == pytest.approx(whole, rel=1e-5, abs=1e-6)


@settings(max_examples=15)
@given(st.sampled_from(["laplace", "gumbel"]), gammas, counts, st.integers(2, 4))
def test_s_students_that_vote_as_one_are_s_times_the_gamma(
    kind: str, gamma: float, queries: int, students: int
) -> None:
    heavy = every_epsilon([DpEvent(NOISY[kind](gamma).__class__(gamma, "party", students), queries)], DELTA)
    loud = every_epsilon([DpEvent(NOISY[kind](students * gamma), queries)], DELTA)
    assert heavy == pytest.approx(loud, rel=1e-9)


@settings(max_examples=15)
@given(kinds, gammas, counts)
def test_an_added_party_costs_less_than_a_replaced_one(kind: str, gamma: float, queries: int) -> None:
    replaced, added = (
        every_epsilon([event(kind, gamma, queries, adjacency=a)], DELTA) for a in ("replace", "add-remove")
    )
    assert all(added[name] <= replaced[name] + 1e-9 for name in replaced)


@settings(max_examples=15)
@given(gammas, counts)
def test_an_added_example_costs_as_much_as_a_replaced_one(gamma: float, queries: int) -> None:
    replaced, added = (
        every_epsilon([DpEvent(Laplace(gamma, "example"), queries, adjacency)], DELTA)
        for adjacency in ("replace", "add-remove")
    )
    assert added == replaced


def flips_of(mechanism: Any, noise: Any) -> Any:
    """The distribution that is drawn from; of discrete Gaussian noise the continuous one, which is close to it."""
    return partial(mechanism.flips, noise=noise if isinstance(mechanism, Laplace) else "simulated")


def attack(here: float, there: float, queries: int, delta: float) -> float:
    """A lower bound: the exact epsilon of one two-valued answer, asked `queries` times with the same chances."""
    ones = np.arange(queries + 1)
    loss = ones * math.log(here / there) + (queries - ones) * math.log((1 - here) / (1 - there))
    probability = stats.binom.pmf(ones, queries, here)

    def beyond(epsilon: float) -> float:
        return float(probability @ np.maximum(0, -np.expm1(epsilon - loss))) - delta

    return optimize.brentq(beyond, 0, loss.max()) if beyond(0) > 0 else 0.0


@pytest.mark.parametrize("kind", [Laplace, Gumbel, lambda gamma: Gaussian(1.3 / gamma)])
@pytest.mark.parametrize(
    ("gamma", "queries", "voters"),
    [(0.1, 20, 15), (0.2, 10, 7), (0.5, 3, 4), pytest.param(0.1, 148, 50, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("noise", ["simulated", "secure"])
def test_no_accountant_claims_less_than_an_attack_achieves(
    kind: Any, gamma: float, queries: int, voters: int, noise: Any
) -> None:
    """One voter of all changes its vote at every query, at the margin that is worst for privacy."""
    mechanism = kind(gamma)
    flips = flips_of(mechanism, noise)
    margins = np.arange(-voters, voters - 1, 2)
    pairs = zip(flips(margins), flips(margins + 2), strict=True)
    floor = max(max(attack(p, q, queries, DELTA), attack(q, p, queries, DELTA)) for p, q in pairs)
    facts: list[dict[str, Any]] = [{}, {"classes": 2}, {"classes": 2, "voters": voters}]
    for known in [*facts, {"classes": 2, "voters": voters, "abstentions": True}]:
        found = every_epsilon([DpEvent(mechanism, queries, noise=noise, **known)], DELTA)
        assert min(found.values()) >= floor - 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", ["simulated", "secure"])
@pytest.mark.parametrize("queries", [2, 3000])
@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(5.0),
        Laplace(400.0),
        Laplace(1e-6),
        Gumbel(5.0),
        Gumbel(400.0),
        Gumbel(1e-6),
        Gaussian(0.02),
        Gaussian(0.5),
        Gaussian(1e6),
    ],
    ids=str,
)
def test_much_and_little_noise_is_accounted_for_soundly(mechanism: Any, queries: int, noise: Any) -> None:
    """Chances so near 0 or 1 that they round to it must not pass for certainty about nothing."""
    flips = flips_of(mechanism, noise)
    here, there = float(flips(np.array([-1]))[0]), float(flips(np.array([1]))[0])
    distance = there - here  # one query distinguishes them: delta of epsilon e is at least there - e^e here
    facts: list[dict[str, Any]] = [{}, {"classes": 2}, {"classes": 2, "voters": 25}]
    for known in facts:
        found = every_epsilon([DpEvent(mechanism, queries, noise=noise, **known)], DELTA)
        if distance > 2 * DELTA:
            floor = math.log((there - DELTA) / here) if here > 0 else math.inf
            assert min(found.values()) >= min(floor, 600) - 1e-9
        assert min(found.values()) >= 0


def test_the_exact_composition_of_two_classes_is_nearly_the_attack() -> None:
    """Gumbel noise at a margin of -1 and 1 is randomised response: kov is exact for it."""
    mechanism = Gumbel(0.4)
    p, q = mechanism.flips(np.array([1])), mechanism.flips(np.array([-1]))
    exact = attack(float(p[0]), float(q[0]), 20, DELTA)
    assert binary([DpEvent(mechanism, 20, classes=2, voters=1)], DELTA) == pytest.approx(exact, rel=3e-3)


def test_votes_lower_epsilon_and_never_raise_it() -> None:
    rng = np.random.default_rng(0)
    clear, close = np.tile([60, 2, 1], (50, 1)), rng.integers(15, 20, (50, 3))
    for mechanism in (Laplace(0.2), Gumbel(0.2), Gaussian(8.0), ConfidentGaussian(8.0, 8.0, 30)):
        spent = [DpEvent(mechanism, 50)]
        plain, sure, unsure = (epsilon_by("rdp", spent, DELTA, votes=votes) for votes in (None, clear, close))
        assert sure < 0.6 * plain
        assert unsure <= plain * (1 + 1e-3)


def test_data_dependent_gnmax_is_the_published_theorem() -> None:
    """Theorem 6 by hand at one order: q from Proposition 7, mu from Proposition 10."""
    sigma, gap, order = 10.0, 60, 4.0
    q = stats.norm.sf(gap / (math.sqrt(2) * sigma))
    mu2 = sigma * math.sqrt(-math.log(q))
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
    a = (1 - q) / (1 - (q * math.exp(eps2)) ** ((mu2 - 1) / mu2))
    b = math.exp(eps1) / q ** (1 / (mu1 - 1))
    by_hand = math.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)
    ours = gaussian_data_dependent(DpEvent(Gaussian(sigma), 1), np.array([order]), np.array([[gap, 0.0]]))
    assert ours[0, 0] == pytest.approx(by_hand, rel=1e-9)
    assert by_hand < order / sigma**2


def test_each_refuses_what_it_does_not_know() -> None:
    refused = {
        "kov": Gaussian(40),
        "moments": Gaussian(40),
        "bounded-range": Laplace(0.05),
        "gaussian": Laplace(0.05),
        "pld": Gaussian(40),
        "binary": Laplace(0.05),
        "binary-rdp": ConfidentGaussian(1, 1, 1),
    }
    for accountant, mechanism in refused.items():
        with pytest.raises(UnknownEventError, match=accountant):
            epsilon_by(accountant, [DpEvent(mechanism, 40)], DELTA)
    with pytest.raises(UnknownEventError, match="one level only"):
        epsilon_by("kov", [DpEvent(Laplace(0.05), 1), DpEvent(Laplace(0.06), 1)], DELTA)
    with pytest.raises(LimbeckError, match="unknown accountant 'ratio'"):
        epsilon_by("ratio", [DpEvent(Laplace(0.05), 1)], DELTA)


def test_discrete_noise_is_not_accounted_for_as_continuous() -> None:
    assert "gaussian" not in every_epsilon([DpEvent(Gaussian(40), 10, noise="secure")], DELTA)
    with pytest.raises(UnknownEventError, match="continuous Laplace"):
        epsilon_by("moments", [DpEvent(Laplace(0.05), 1, noise="secure")], DELTA, votes=np.array([[5, 0]]))
    simulated, secure = (epsilon_by("pld", [DpEvent(Laplace(0.5), 9, noise=n)], DELTA) for n in ("simulated", "secure"))
    assert simulated != secure


def test_no_noise_is_no_privacy_and_no_queries_cost_nothing() -> None:
    for mechanism in (Laplace(math.inf), Gaussian(0.0), ConfidentGaussian(1.0, 0.0, 3)):
        assert best_epsilon([DpEvent(mechanism, 5)], DELTA)[0] == math.inf
    assert best_epsilon([], DELTA)[0] == best_epsilon([DpEvent(Laplace(1.0), 0)], DELTA)[0] == 0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_delta_lies_between_0_and_1(delta: float) -> None:
    with pytest.raises(LimbeckError, match="delta must lie between 0 and 1"):
        best_epsilon([DpEvent(Laplace(1.0), 1)], delta)


@pytest.mark.parametrize("votes", [[[1, math.nan]], [[1, -1]], [[math.inf, 1]], [1, 2], [[1], [2]], [["a", "b"]]])
def test_wrong_votes_are_reported(votes: Any) -> None:
    with pytest.raises(LimbeckError, match="votes"):
        check_votes(np.array(votes))


def test_all_accountants_are_known_by_name() -> None:
    assert set(ACCOUNTANTS) == {
        "basic",
        "moments",
        "rdp",
        "kov",
        "pld",
        "binary",
        "binary-rdp",
        "gaussian",
        "zcdp",
        "bounded-range",
        "mixed",
    }
