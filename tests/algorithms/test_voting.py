"""FedKT's vote where it is other than printed: what is planned and refused, and every combination of its parts."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from electorate import (
    ASKS,
    EPSILON,
    FOREST,
    combinations,
    fedkt,
    some_quick,
    two_classes,
)
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.pate import Pate
from limbeck.algorithms.poll import Poll
from limbeck.algorithms.voting import Voting
from limbeck.checks import check_algorithm, small_federation
from limbeck.data.draw import Draw, cut
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet
from limbeck.errors import LimbeckError
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.accountants import every_epsilon
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.events import Spend
from limbeck.tables import from_table

GAUSSIAN = Privacy("L1", "gaussian", epsilon=3.0)


@pytest.mark.parametrize(("sigma", "asks"), [(5.0, False), (0.2, True)])
def test_a_median_takes_no_more_than_the_sums_where_only_noise_is_named(sigma: float, asks: bool) -> None:
    algorithm = FedKT(1, 2, privacy=Privacy("L1", "gaussian", sigma=sigma), voting=Voting(ask="directions"))
    planned = algorithm.planned(120, 2, [60] * 6, "simulated")
    assert any(row.mechanism == "noisy-median" for row in planned) == asks


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["matched", "leader"])
@pytest.mark.parametrize(("level", "voting"), some_quick(combinations(), 1))
def test_every_combination_behaves(level: str, voting: Voting, labels: Any) -> None:
    check_algorithm(fedkt(level, replace(voting, labels=labels)))


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "ask"), list(product(["plain", "prior-corrected"], ASKS)))
@pytest.mark.parametrize("level", ["L1", "L2"])
def test_a_vote_of_two_classes_whose_mix_is_asked_for_behaves(level: Any, teachers: Any, ask: Any) -> None:
    """The small federation has three classes, of which no median is taken."""
    voting = Voting(teachers=teachers, ask=ask)
    algorithm = FedKT(1, 2, queries=30, privacy=Privacy(level, "gaussian", epsilon=60.0), voting=voting)
    check_algorithm(algorithm, federation=two_classes(algorithm))


@pytest.mark.parametrize(("level", "voting"), some_quick(combinations(), 11))
def test_a_plan_names_the_releases_of_every_combination(level: str, voting: Voting) -> None:
    """And what they cost together is what was asked for."""
    algorithm = fedkt(level, voting)
    record = small_federation(algorithm).run(PoolTrainer(1)).record
    made = [
        (row["site"], row["what"], row["mechanism"], row["queries"], sorted(row["parameters"].items()))
        for row in record.ledger
        if row["mechanism"] != "nothing-private"
    ]
    planned = algorithm.planned(45, 3, [25] * 3, "simulated")
    expected = [(r.site, r.what, r.mechanism, r.queries, sorted(r.parameters.items())) for r in planned]
    assert sorted(map(str, made)) == sorted(map(str, expected))
    if level != "L0":
        assert 19.9 < record.epsilon["public"] <= 20.0
    assert record.epsilon["server"] == math.inf or level == "L2"


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (Pate(privacy=EPSILON["L2"], voting=Voting(prior=[0.2, 0.3, 0.5])), "prior has 3 shares"),
        (FedKT(1, 2, voting=Voting(prior=[1.0])), "prior has 1 shares"),
        (FedKT(1, 61, voting=Voting(teachers="prior-corrected")), "subsets = 60 would fit"),
        (FedKT(1, 2, privacy=EPSILON["L2"], voting=Voting(directions=10**8)), "120 public rows are asked about"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_leaves(algorithm: Any, told: str) -> None:
    made = two_classes(algorithm)
    with pytest.raises(LimbeckError, match=told):
        made.run(PoolTrainer(1))
    with pytest.raises(LimbeckError, match=told):
        algorithm.planned(120, 2, [60] * 6, "simulated")


def test_without_noise_the_levels_agree() -> None:
    """One teacher a party: at L1 the party, at L2 its teacher speaks, and both are heard in the same directions."""
    voting = Voting(weights="equal", ask="directions", directions=6, prior="uniform")
    levels: tuple[Any, ...] = ("L1", "L2")
    quiet = [L0, *(Privacy(level, "gaussian", sigma=1e-12) for level in levels)]
    found = [two_classes(FedKT(1, 1, privacy=p, voting=voting)).run(PoolTrainer(1)).model for p in quiet]
    assert len({model.onnx for model in found if model}) == 1


@pytest.mark.slow
def test_skewed_parties_do_better_than_as_printed() -> None:
    """Digits among five parties of a few classes each."""
    data = load("digits")
    split = Dirichlet(beta=0.1, least=20)
    printed: list[float] = []
    default: list[float] = []
    for seed in range(3):
        parts = cut(data, Draw(0.3), Draw(0.2), seed)
        held = split.deal(data.y[parts.private], {}, 5, np.random.default_rng(seed))
        rows = [data.rows(parts.private[each]) for each in held]
        for found, algorithm in ((printed, FedKT.paper(partitions=2, subsets=2)), (default, FedKT(2, 2))):
            made = replace(two_classes(algorithm), classes=np.array(data.classes), private=rows, public=parts.public)
            made = replace(made, test=parts.test, models=[FOREST] * 5, server_model=FOREST)
            found.append(made.run(PoolTrainer(1)).accuracy or 0.0)
    assert np.mean(default) > np.mean(printed) + 0.1


def test_the_printed_vote_is_named() -> None:
    assert FedKT.paper(subsets=3) == from_table(FedKT, {"voting": "paper", "subsets": 3})
    changed = from_table(FedKT, {"voting": {"votes": "hard"}})
    assert changed.voting == Voting(votes="hard")


@pytest.mark.parametrize(("weights", "whole"), [("equal", True), ("class-share", False), ("rare-class", False)])
def test_weighed_votes_of_parties_are_never_whole(weights: Any, whole: bool) -> None:
    poll = Poll(Voting(votes="hard", weights=weights, ask="rows"), GAUSSIAN, 1, 1)
    assert poll.means(10, 3, 5, "simulated").labels.whole == whole


def test_soft_votes_are_never_accounted_for_as_whole_ones() -> None:
    """Margins between whole numbers can be worse than any whole one."""
    for voting, whole in ((Voting(votes="hard", weights="equal", ask="rows"), True), (Voting(ask="rows"), False)):
        poll = Poll(voting, Privacy("L2", "gaussian", sigma=2.0), 1, 4)
        mechanism = poll.means(10, 2, 3, "simulated").labels
        assert mechanism.whole == whole
        spends = [Spend(mechanism, 10, classes=2, voters=4, abstentions=True)]
        assert ("binary" in every_epsilon(spends, 1e-5)) == whole


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: FedKT(privacy=Privacy("L1", gamma=0.1)), 'mechanism = "gaussian"'),
        (lambda: FedKT(privacy=Privacy("L2", gamma=0.1), voting=Voting(ask="groups")), "takes epsilon or sigma"),
        (lambda: FedKT(privacy=Privacy("L1", "laplace", epsilon=3.0)), '"laplace" is for voting = "paper"'),
        (lambda: FedKT(consensus="median", voting=Voting(ask="groups")), 'ask = "rows"'),
        (lambda: FedKT(consensus="median", voting=Voting(weights="class-share")), 'weights = "equal"'),
        (lambda: FedKT(consensus="median", privacy=Privacy("L1", epsilon=1.0)), 'consensus = "median" is of rows'),
        (lambda: Voting(cap=0), "cap must be from 1"),
        (lambda: FedKT(voting=Voting(cap=5)), 'cap = 5 is for weights = "rare-class", not for "contrast"'),
        (
            lambda: FedKT(voting=Voting(directions=5)),
            'directions = 5 is for ask = "directions" or "groups", not for "rows"',
        ),
        (lambda: FedKT(voting=Voting(labels="leader", prior="uniform")), 'prior = "uniform" does nothing'),
        (lambda: FedKT(privacy=GAUSSIAN, voting=Voting(ask="rows", prior=[1.0, 2.0])), 'ask = "directions"'),
        (lambda: Voting(directions=0), "directions must be from 1"),
        (lambda: Voting(prior=[0.0, 0.0]), "not all be 0"),
        (lambda: Voting(votes="loud"), "votes = 'loud'"),  # type: ignore[arg-type]
        (lambda: FedKT(consistent=False), 'for voting = "paper"'),
        (lambda: Pate(voting=Voting(weights="class-share")), "is of parties"),
        (lambda: Privacy("L2", "gaussian", sigma=math.inf), "sigma must be finite"),
        (lambda: FedKD(voting=Voting()), 'transfer = "labels"'),
        (lambda: FedKD(transfer="labels", voting=Voting(weights="accuracy")), "no rows held out"),
        (lambda: small_federation(FedKT(voting=Voting(prior=[0.5, 0.5]))).run(PoolTrainer(1)), "3 classes"),
    ],
)
def test_wrong_combinations_are_told(wrong: Any, said: str) -> None:
    with pytest.raises(LimbeckError, match=said):
        wrong()


@pytest.mark.parametrize("privacy", [L0, Privacy("L2", "gaussian", epsilon=20.0)])
@pytest.mark.parametrize("voting", [Voting(), Voting(teachers="prior-corrected"), Voting(weights="accuracy")])
def test_pates_plan_names_its_releases(voting: Voting, privacy: Privacy) -> None:
    algorithm = Pate(teachers=3, voting=voting, privacy=privacy)
    ledger = small_federation(algorithm).run(PoolTrainer(1)).record.ledger
    made = [(r["site"], r["turn"], r["what"]) for r in ledger if r["mechanism"] != "nothing-private"]
    planned = [(r.site, r.turn, r.what) for r in algorithm.planned(45, 3, [25] * 3, "simulated")]
    assert sorted(made) == sorted(planned)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        Pate(teachers=3, voting=Voting()),
        Pate(teachers=3, voting=Voting(teachers="prior-corrected"), privacy=EPSILON["L2"]),
        FedKD(transfer="labels", voting=Voting()),
        FedKD(transfer="labels", voting=Voting(prior="uniform", ask="directions"), privacy=EPSILON["L1"]),
    ],
)
def test_other_algorithms_can_vote_so(algorithm: Any) -> None:
    check_algorithm(algorithm)
