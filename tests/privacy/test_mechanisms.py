"""Mechanisms: what a neighbour can change, by brute force; what they draw, against the formula."""

import math
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import consistent_votes, tally, winners
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    Gumbel,
    Laplace,
    Subsample,
    mechanism_from,
)
from limbeck.privacy.sampling import MAX_STEPS, Secure, Simulated, grid_of
from limbeck.protocol.release import NoiseSource
from limbeck.protocol.rows import UNANSWERED, Array

SIMULATED = NoiseSource("simulated", 0, ("test",))
SECURE = NoiseSource("secure", 0, ())
NOISY_MAX = (Laplace(0.1), Gumbel(0.1), Gaussian(12.0))
MILLION = 1_000_000


def moved(before: Array, after: Array) -> Array:
    return np.asarray(np.abs(after.astype(int) - before.astype(int)))


def test_a_replaced_voter_moves_two_counts_by_one_and_no_more() -> None:
    """All votes of three voters over three classes, and all that each could have voted instead."""
    changes = [
        moved(tally(np.array(votes)[:, None], 3), tally(np.array([other, *votes[1:]])[:, None], 3))
        for votes in product(range(3), repeat=3)
        for other in range(3)
    ]
    assert max(change.sum() for change in changes) == Laplace(1.0).sensitivity == 2
    assert max(np.sqrt((change**2).sum()) for change in changes) == pytest.approx(Gaussian(1.0).sensitivity)
    assert max(change.max() for change in changes) == 1


@pytest.mark.parametrize("students", [1, 2, 3])
def test_a_replaced_party_moves_two_counts_by_s_and_an_added_one_moves_one(students: int) -> None:
    """All labels of two parties' students over three classes, the first party replaced, or left out."""
    parties = [np.array(labels)[:, None] for labels in product(range(3), repeat=students)]
    for first, second in product(parties, parties):
        here = consistent_votes(np.stack([first, second]), 3)
        without = moved(here, consistent_votes(np.stack([second]), 3))
        assert without.sum() <= students
        assert np.count_nonzero(without) <= 1
        for other in parties:
            change = moved(here, consistent_votes(np.stack([other, second]), 3))
            assert change.sum() <= Laplace(1.0, weight=students).sensitivity
            assert np.sqrt((change**2).sum()) <= Gaussian(1.0, weight=students).sensitivity + 1e-12
            assert change.max() in (0, students)


def test_the_check_of_confident_gnmax_moves_by_s() -> None:
    for votes in product(range(3), repeat=3):
        for other in range(3):
            most = [tally(np.array(v)[:, None], 3).max() for v in (votes, [other, *votes[1:]])]
            assert abs(most[0] - most[1]) <= 1


def test_clipped_scores_move_by_no_more_than_their_sensitivity() -> None:
    mechanism = ClippedGaussian(bound=2.0, sigma=1e-9, classes=3)
    corners = [np.array([corner], float) * 50 for corner in product((-1, 1), repeat=3)]
    protected = [mechanism.protect(corner, SIMULATED) for corner in corners]
    assert max(np.linalg.norm(a - b) for a in protected for b in protected) == pytest.approx(mechanism.sensitivity)


def check_flips(mechanism: Any, source: NoiseSource, draws: int, margin: int = 7, noisy: Any = None) -> None:
    """Two classes, the first leads by `margin`: how often the second is published, within five standard errors."""
    votes = np.tile([margin + 3, 3], (draws, 1))
    share = (noisy or mechanism).protect(votes, source).mean()
    noise = source.noise if isinstance(mechanism, Laplace) else "simulated"
    formula = mechanism.flips(np.array([-margin]), noise)[0]
    assert abs(share - formula) < 5 * math.sqrt(formula * (1 - formula) / draws)


@pytest.mark.parametrize("mechanism", NOISY_MAX, ids=lambda m: m.name)
def test_a_million_simulated_draws_fit_the_formula(mechanism: Any) -> None:
    check_flips(mechanism, SIMULATED, MILLION)


@pytest.mark.parametrize("draws", [20_000, pytest.param(MILLION, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mechanism", NOISY_MAX, ids=lambda m: m.name)
def test_secure_draws_fit_the_formula(mechanism: Any, draws: int) -> None:
    check_flips(mechanism, SECURE, draws)


@pytest.mark.parametrize("source", [SIMULATED, SECURE], ids=lambda c: c.noise)
@pytest.mark.parametrize("mechanism", NOISY_MAX, ids=lambda m: m.name)
def test_halved_noise_is_found_out(mechanism: Any, source: NoiseSource) -> None:
    parameters = asdict(mechanism)
    halved = {
        k: {"gamma": 2 * v, "sigma": v / 2}.get(k, v) if isinstance(v, float) else v for k, v in parameters.items()
    }
    with pytest.raises(AssertionError):
        check_flips(mechanism, source, 20_000, noisy=mechanism_from(mechanism.name, halved))


def test_discrete_laplace_noise_has_the_distribution_that_is_accounted_for() -> None:
    """By summing the two-sided geometric distribution: P(D > m) + P(D = m) / 2 for the difference of two."""
    gamma, reach = 0.3, 200
    x = np.arange(-reach, reach + 1)
    one = np.exp(-gamma * np.abs(x))
    difference = np.convolve(one / one.sum(), one / one.sum())
    positions = np.arange(-2 * reach, 2 * reach + 1)
    for margin in (-5, -1, 0, 1, 4):
        overturned = difference[positions > -margin].sum() + difference[positions == -margin].sum() / 2
        assert Laplace(gamma).flips(np.array([margin]), "secure")[0] == pytest.approx(overturned, abs=1e-12)


@pytest.mark.parametrize("sampler", [Simulated(np.random.default_rng(0)), Secure()], ids=lambda s: s.noise)
@pytest.mark.parametrize("sigma", [3.0, 1e-3, 1e7])
def test_gaussian_noise_has_its_deviation(sampler: Any, sigma: float) -> None:
    for values in (np.zeros(10_000, int), np.full(10_000, 3000.3)):
        if values.dtype.kind == "i" and sigma < 1 and sampler.noise == "secure":
            continue  # whole numbers: such noise is none
        noise = sampler.gaussian(values, sigma) - values
        assert abs(noise.mean()) < 5 * sigma / math.sqrt(len(noise))
        assert noise.std() == pytest.approx(sigma, rel=0.05)


def test_a_mechanism_counts_its_queries_itself_and_refuses_what_it_does_not_describe() -> None:
    assert Laplace(0.1).asked(np.zeros((7, 3)), 3) == 7
    assert Subsample(2, 9).asked(np.zeros(9), 3) == 1
    with pytest.raises(LimbeckError, match="3 columns"):
        Laplace(0.1).asked(np.zeros((7, 2)), 3)
    with pytest.raises(LimbeckError, match="declared for at least 9 rows"):
        Subsample(2, 9).asked(np.zeros(8), 3)


@pytest.mark.parametrize("source", [SIMULATED, SECURE], ids=lambda c: c.noise)
def test_confident_gnmax_answers_as_often_as_the_check_states(source: NoiseSource) -> None:
    """The lead of 30 against a threshold of 33 with noise 6: P(N > 0.5) = 0.3085, and half a step for whole numbers."""
    votes = np.tile([30, 0, 0], (20_000, 1))
    labels = ConfidentGaussian(sigma=1.0, check=6.0, threshold=33).protect(votes, source)
    expected = 0.3085 if source.noise == "simulated" else 0.3385
    assert (labels != UNANSWERED).mean() == pytest.approx(expected, abs=0.017)
    assert set(labels.tolist()) == {0, UNANSWERED}


@pytest.mark.parametrize("source", [SIMULATED, SECURE], ids=lambda c: c.noise)
@pytest.mark.parametrize("replacement", [True, False])
def test_every_row_is_as_likely_in_a_subsample_as_another(source: NoiseSource, replacement: bool) -> None:
    rows = np.arange(10)
    counts = np.zeros(10)
    for repeat in range(2000):
        drawn = Subsample(4, 10, replacement).protect(rows, NoiseSource(source.noise, repeat, ("s",)))
        assert len(drawn) == 4
        assert replacement or len(set(drawn)) == 4
        counts += np.bincount(drawn, minlength=10)
    assert np.abs(counts - 800).max() < 5 * math.sqrt(800)


def test_secure_ties_are_broken_at_random() -> None:
    """Noise too small to ever change a whole count: what is left are the ties."""
    votes = np.tile([5, 5, 0], (4000, 1))
    labels = Secure().laplace_max(votes, 0.01)
    assert set(labels.tolist()) == {0, 1}
    assert labels.mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("mechanism", [Laplace(math.inf), Gumbel(math.inf), Gaussian(0.0)], ids=lambda m: m.name)
def test_no_noise_is_the_plain_vote(mechanism: Any) -> None:
    votes = np.random.default_rng(0).integers(0, 4, (500, 4))
    assert np.array_equal(mechanism.protect(votes, SIMULATED), winners(votes))


def test_simulated_noise_depends_on_its_purpose_and_the_seed_alone() -> None:
    votes = np.zeros((200, 3), int)
    draw = Laplace(0.1).protect
    assert np.array_equal(draw(votes, SIMULATED), draw(votes, SIMULATED))
    assert not np.array_equal(draw(votes, SIMULATED), draw(votes, NoiseSource("simulated", 1, ("test",))))
    assert not np.array_equal(draw(votes, SIMULATED), draw(votes, NoiseSource("simulated", 0, ("other",))))


def test_secure_noise_wants_whole_counts() -> None:
    with pytest.raises(LimbeckError, match="whole counts"):
        Secure().laplace_max(np.array([[0.5, 1.0]]), 10)
    assert Secure().gumbel_max(np.array([[5.0, 1.0]]), 0.01).tolist() == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Laplace(0.0),
        lambda: Laplace(-1.0),
        lambda: Gumbel(math.nan),
        lambda: Gaussian(-1.0),
        lambda: ConfidentGaussian(1.0, -1.0, 3),
        lambda: ConfidentGaussian(1.0, 1.0, math.nan),
        lambda: ClippedGaussian(0.0, 1.0, 3),
        lambda: ClippedGaussian(math.inf, 1.0, 3),
        lambda: Subsample(0, 10),
        lambda: Subsample(11, 10, replacement=False),
        lambda: mechanism_from("laplace", {"sigma": 3}),
        lambda: mechanism_from("homemade", {}),
    ],
)
def test_wrong_parameters_are_reported(wrong: Any) -> None:
    with pytest.raises(LimbeckError):
        wrong()


def test_values_too_large_for_noise_so_fine_are_clipped_for_a_refusal_would_reveal_them() -> None:
    pytest.importorskip("opendp")
    grid = grid_of(1e-9)
    noisy = Secure().laplace(np.array([1e9, -1e9, 1.0]), 1e-9)
    assert np.allclose(noisy, [MAX_STEPS * grid, -MAX_STEPS * grid, 1.0], rtol=1e-6)
