"""What one party or one row can change in a vote, by brute force: no more than its mechanism says, and as much."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from electorate import (
    ASKS,
    BY_CLASS,
    WEIGHTS,
    caps,
    released,
    some_quick,
    two_classes,
)
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.poll import Poll
from limbeck.algorithms.questions import Said
from limbeck.algorithms.voting import CAP, Voting
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Rows


@pytest.mark.parametrize(("ask", "weights", "votes"), some_quick(product(ASKS, WEIGHTS, ["soft", "hard"]), 7))
def test_a_replaced_or_silent_party_moves_what_is_released_by_no_more_than_its_mechanism_says(
    ask: Any, weights: Any, votes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L1, by brute force over what a party may say: anything at all."""
    voting = Voting(votes=votes, weights=weights, ask=ask, cap=5 if caps(weights, "L1") else CAP)
    poll = Poll(voting, Privacy("L1", "gaussian", epsilon=60.0), 1, 2)
    made = two_classes(FedKT())
    rng = np.random.default_rng(0)
    rows = made.public.x  # type: ignore[union-attr]
    queries = len(rows) // 2 if ask == "active" else len(rows)

    def anything() -> Said:
        extreme = np.eye(2)[rng.integers(0, 2, len(rows))]
        votes = rng.choice([1e-3, 1.0, 50.0]) * (extreme if rng.random() < 0.5 else rng.random((len(rows), 2)))
        return Said(votes, float(rng.choice([1.0, rng.random()])), float(rng.random()), rng.choice([0.0, 3.0, 99.0], 2))

    def taken(said: dict[int, Said]) -> list[Any]:
        site, _ = made.sites(PoolTrainer(1))
        reply = {p: replace(s, counts=s.counts if poll.wants_counts(2, 6) else np.empty(0)) for p, s in said.items()}
        with released(monkeypatch) as found:
            sound = poll._sound(
                Replies(reply, tuple(set(range(6)) - set(said))), len(rows), queries, 2, "simulated", []
            )
            poll.verdict(sound, 6, rows, queries, None, site, [])
        return found

    herd = {party: anything() for party in range(6)}
    for other in ({**herd, 3: anything()}, {p: s for p, s in herd.items() if p != 3}):
        stages = 0
        for (_, one, mechanism), (_, two, again) in zip(taken(herd), taken(other), strict=True):
            assert mechanism == again
            if mechanism.name == "noisy-median":
                continue
            if mechanism.name == "gaussian-sum":
                assert np.linalg.norm(one - two) <= mechanism.sensitivity + 1e-9
                continue
            stages += 1
            if stages == 1:  # what is asked about later depends on what was released before
                assert np.linalg.norm(one - two, axis=1).max() <= mechanism.sensitivity + 1e-9
        assert stages == {"rows": 1, "active": 4}.get(ask, 0)


@pytest.mark.parametrize(
    ("ask", "weights", "teachers"), some_quick(product(ASKS, WEIGHTS, ["plain", "prior-corrected"]), 7)
)
def test_a_replaced_example_moves_what_its_party_releases_by_no_more_than_its_mechanism_says(
    ask: Any, weights: Any, teachers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L2, real neighbours: one row of one party is replaced by another, with the other label."""
    cap = 5 if caps(weights, "L2") else CAP
    voting = Voting(teachers=teachers, weights=weights, ask=ask, cap=cap, prior=[0.4, 0.6])
    algorithm = FedKT(partitions=2, subsets=3, privacy=Privacy("L2", "gaussian", epsilon=60.0), voting=voting)
    made = two_classes(algorithm)
    poll = Poll(voting, algorithm.privacy, 2, 3)

    def said(rows: Rows) -> list[Any]:
        silo = replace(made, private=[rows, *made.private[1:]]).sites(PoolTrainer(1))[1][0]
        with released(monkeypatch) as found:
            basis = poll._shared_basis(silo.public.x, len(silo.public), 6, silo)
            poll.say(silo, silo.public.x, len(silo.public), 6, np.array([0.4, 0.6]), basis)
        return found

    own, moved = made.private[2], 0.0
    for changed in (0, 17, 31):
        x, y = own.x.copy(), own.y.copy()
        x[changed], y[changed] = made.private[5].x[0], 1 - y[changed]
        stages = 0
        for (_, one, mechanism), (_, two, again) in zip(said(own), said(Rows(x, y)), strict=True):
            assert mechanism == again
            rows = None if mechanism.name == "gaussian-sum" else 1
            stages += rows is not None
            if ask == "active" and stages > 1:
                break  # what is asked about later depends on what was released before
            apart = float(np.max(np.linalg.norm(one - two, axis=rows)))
            assert apart <= mechanism.sensitivity + 1e-9
            moved = max(moved, apart)
    assert moved > 0


@pytest.mark.parametrize("votes", ["soft", "hard"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("ask", ASKS[:3])
def test_the_party_that_says_the_opposite_moves_as_much_as_a_mechanism_says(
    ask: Any, weights: Any, votes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L1: no bound that is smaller than the worst neighbour would pass."""
    cap = 5 if caps(weights, "L1") else CAP
    poll = Poll(Voting(votes=votes, weights=weights, ask=ask, cap=cap), Privacy("L1", "gaussian", epsilon=60.0), 1, 2)
    made = two_classes(FedKT())
    rows = made.public.x  # type: ignore[union-attr]
    counts = np.array([9.0, 9.0]) if poll.wants_counts(2, 6) else np.empty(0)
    basis = poll._basis(rows, poll.means(len(rows), 2, 6, "simulated"), 6, 2) if ask != "rows" else None
    yes = rows[:, 0] > np.median(rows[:, 0]) if basis is None else basis[:, 0] > 0
    one_way = np.eye(2)[yes.astype(int)]

    def apart(mine: Any, other: Any) -> dict[str, float]:
        found = []
        for said in (mine, other):
            herd = {p: Said(one_way * 0.5, 1.0, math.nan, counts) for p in range(5)}
            with released(monkeypatch) as made_known:
                poll.verdict({**herd, 5: said}, 6, rows, len(rows), None, made.sites(PoolTrainer(1))[0], [])
            found.append([each for each in made_known if each[2].name != "noisy-median"])
        return {
            f"{n} {gives}": float(np.max(np.linalg.norm(one - two, axis=1 if gives == "labels" else None)) / bound)
            for n, ((_, one, mechanism), (_, two, _)) in enumerate(zip(*found, strict=True))
            for gives, bound in [(getattr(mechanism, "gives", "labels"), mechanism.sensitivity)]
        }

    moved = apart(Said(one_way, 1.0, math.nan, counts), Said(1 - one_way, 1.0, math.nan, counts))
    if weights not in BY_CLASS:
        assert max(moved.values()) == pytest.approx(1.0)
    else:  # noise on the counts leaves nobody's weights whole
        assert 0.5 < max(moved.values()) <= 1
        grown = apart(Said(one_way, 1.0, math.nan, counts), Said(one_way, 1.0, math.nan, 0 * counts))
        assert next(share for name, share in grown.items() if "counts" in name) == pytest.approx(1.0)


@pytest.mark.parametrize("teachers", ["plain", "prior-corrected"])
@pytest.mark.parametrize("votes", ["soft", "hard"])
@pytest.mark.parametrize("ask", ASKS[:3])
def test_the_row_that_turns_all_its_teachers_moves_as_much_as_a_mechanism_says(
    ask: Any, votes: Any, teachers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L2: two rows a party, and whose second one moves over to the other side changes every answer of s teachers."""
    voting = Voting(votes=votes, weights="rare-class", ask=ask, teachers=teachers, cap=1, prior=[0.5, 0.5])
    algorithm = FedKT(partitions=3, subsets=1, privacy=Privacy("L2", "gaussian", epsilon=60.0), voting=voting)
    tree = model_from({"name": "decision-tree"})
    public = np.repeat(np.array([[-1.0], [1.0]], np.float32), 10, axis=0)

    def said(second: float) -> list[Any]:
        rows = Rows(np.array([[0.0], [second]], np.float32), np.array([0, 1]))
        made = replace(
            two_classes(algorithm), private=[rows] * 6, models=[tree] * 6, public=Rows(public, np.zeros(20, int))
        )
        silo = made.sites(PoolTrainer(1))[1][0]
        with released(monkeypatch) as found:
            poll = Poll(voting, algorithm.privacy, 3, 1)
            basis = poll._shared_basis(silo.public.x, 20, 6, silo)
            poll.say(silo, silo.public.x, 20, 6, np.array([0.5, 0.5]), basis)
        return [each for each in found if ask == "rows" or each[2].gives == "sums"]

    axis = 1 if ask == "rows" else None
    for (_, one, mechanism), (_, two, _) in zip(said(1.0), said(-1.0), strict=True):
        assert np.max(np.linalg.norm(one - two, axis=axis)) == pytest.approx(mechanism.sensitivity)


@pytest.mark.parametrize("weights", ["accuracy", "rare-class"])
def test_a_teacher_and_its_weight_depend_on_its_own_subset_alone(weights: Any) -> None:
    voting = Voting(weights=weights, ask="rows", cap=50 if caps(weights, "L2") else CAP)
    algorithm = FedKT(partitions=2, subsets=3, privacy=Privacy("L2", "gaussian", epsilon=60.0), voting=voting)
    made, poll = two_classes(algorithm), Poll(voting, algorithm.privacy, 2, 3)

    def teachers(rows: Rows) -> tuple[Any, Any]:
        silo = replace(made, private=[rows, *made.private[1:]]).sites(PoolTrainer(1))[1][0]
        return poll._teachers_say(silo, silo.public.x, None, False)[:2]

    own, changed_weights = made.private[2], 0
    for place in range(0, len(own), 7):
        y = own.y.copy()
        y[place] = 1 - y[place]
        (votes, weight), (other_votes, other_weight) = teachers(own), teachers(Rows(own.x, y))
        changed = (votes != other_votes).any(axis=(1, 2)) | (weight != other_weight)
        assert changed.sum() <= 2
        changed_weights += int((weight != other_weight).sum())
    assert changed_weights > 0
