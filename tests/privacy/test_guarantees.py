"""From ledger rows to epsilon: per observer, unit and neighbour relation."""

import math
from typing import Any

import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon
from limbeck.privacy.events import DpEvent
from limbeck.privacy.guarantees import epsilon_by_observer, guarantees
from limbeck.privacy.mechanisms import Gaussian, Gumbel, Laplace, PostProcessing, Subsample, Unprotected
from limbeck.protocol.messages import InstallModel
from limbeck.protocol.release import Asked, NoiseSource, Observer, Release, release_row

DELTA = 1e-5


def row(mechanism: Any, observer: Observer, site: str = "party 0", queries: int = 1) -> Release:
    return release_row(site, 0, 0, "labels", mechanism, observer, Asked(queries, 3))


def epsilons(*rows: Release) -> dict[str, float]:
    return epsilon_by_observer(guarantees(rows, DELTA))


def epsilon_of(rows: list[Release], unit: str, adjacency: str, observer: str = "public") -> float:
    [found] = [f for f in guarantees(rows, DELTA) if (f.observer, f.unit, f.adjacency) == (observer, unit, adjacency)]
    return found.epsilon


def test_what_leaves_unprotected_costs_infinity_towards_its_observer_alone() -> None:
    assert epsilons(row(Unprotected(), "server"), row(Unprotected(), "server")) == {"server": math.inf}


def test_nothing_released_and_post_processing_cost_nothing() -> None:
    assert epsilons() == {}
    assert epsilons(row(PostProcessing(), "parties")) == {"parties": 0.0}


def test_an_unknown_mechanism_is_refused_rather_than_guessed() -> None:
    homemade = row(Unprotected(), "server")
    object.__setattr__(homemade, "mechanism", "homemade")
    with pytest.raises(LimbeckError, match="'homemade'"):
        epsilons(homemade)


def test_what_is_public_is_seen_by_all_and_adds_to_what_they_see() -> None:
    found = epsilons(row(Unprotected(), "server"), row(Laplace(0.05), "public", "server", 40))
    assert found["server"] == math.inf
    assert found["parties"] == found["public"] == best_epsilon([DpEvent(Laplace(0.05), 40, classes=3)], DELTA)[0]


def test_releases_of_one_site_add_up_and_those_of_disjoint_parties_do_not() -> None:
    mine = [row(Gumbel(0.05, "example"), "public", "party 0", 40)]
    other = [row(Gumbel(0.05, "example"), "public", "party 1", 40)]
    more = [row(Gumbel(0.05, "example"), "public", "party 1", 60)]
    alone = epsilon_of(mine, "example", "replace")
    assert epsilon_of(mine + other, "example", "replace") == alone
    assert (
        epsilon_of(mine + mine, "example", "replace") == best_epsilon([DpEvent(Gumbel(0.05, "example"), 80)], DELTA)[0]
    )
    assert epsilon_of(mine + more, "example", "replace") == epsilon_of(more, "example", "replace") > alone


def test_the_servers_releases_are_about_everybody() -> None:
    """Gaussian noise adds up in squares: 40 queries at the server and 40 at the worst party are 80."""
    server = row(Gaussian(40, "party"), "public", "server", 40)
    parties = [row(Gaussian(40, "example"), "public", f"party {p}", 40 - p) for p in range(3)]
    together = epsilon_of([server, *parties], "example", "replace")
    assert together == pytest.approx(best_epsilon([DpEvent(Gaussian(40, "example"), 80)], DELTA)[0])


def test_a_partys_protection_is_an_examples_but_not_the_other_way_round() -> None:
    party = [row(Laplace(0.05, "party", 2), "public", "server", 40)]
    assert epsilon_of(party, "example", "replace") == epsilon_of(party, "party", "replace")
    assert epsilon_of(party, "party", "add-remove") < epsilon_of(party, "party", "replace")
    assert epsilon_of(party, "example", "add-remove") == epsilon_of(party, "party", "replace")
    example = [row(Laplace(0.05, "example", 1, "replace"), "public", queries=40)]
    assert math.isfinite(epsilon_of(example, "example", "replace"))
    assert epsilon_of(example, "example", "add-remove") == epsilon_of(example, "party", "replace") == math.inf


def test_a_subsample_has_a_guarantee_only_at_its_own_delta() -> None:
    """Drawing k of n = 60 of 300 with replacement: (0.1997, 0.1815); at delta 1e-5 the guarantee is empty."""
    sampled = [row(Subsample(60, 300), "server")]
    assert epsilon_of(sampled, "example", "add-remove", "server") == math.inf
    for rows, delta, epsilon in ((sampled, 0.2, 0.19967), (sampled * 2, 0.2, math.inf), (sampled * 2, 0.4, 0.39933)):
        [found] = [f for f in guarantees(rows, delta) if (f.unit, f.adjacency) == ("example", "add-remove")]
        assert found.epsilon == pytest.approx(epsilon, abs=1e-5)


def test_noise_without_a_delta_is_refused() -> None:
    with pytest.raises(LimbeckError, match="but delta is 0"):
        guarantees([row(Laplace(0.05), "public")], 0.0)


def test_unprotected_adds_nothing() -> None:
    message = InstallModel(b"model")
    assert Unprotected().protect(message, NoiseSource("simulated", 0, ())) is message
