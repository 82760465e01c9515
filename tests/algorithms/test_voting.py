"""FedKT's vote where it is other than printed: what is released, what a neighbour can change in it, what it costs."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkd import FedKD, Tell
from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.pate import Pate
from limbeck.algorithms.poll import Count, Poll, Said, SayTowards
from limbeck.algorithms.voting import Voting
from limbeck.checks import check_algorithm, small_federation
from limbeck.data.draw import Draw, cut
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.training import PoolTrainer
from limbeck.privacy.accountants import every_epsilon
from limbeck.privacy.mechanisms import Unprotected
from limbeck.privacy.planner import L0, Privacy
from limbeck.privacy.spends import Spend
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo, Site
from limbeck.tables import from_table

ASKS = ("rows", "groups", "directions", "active")
WEIGHTS = ("equal", "accuracy", "rare-class", "class-share", "contrast")
BY_CLASS = ("class-share", "contrast")
FOREST = model_from({"name": "random-forest", "n_estimators": 20})
EPSILON = {
    "L0": L0,
    "L1": Privacy("L1", "gaussian", epsilon=20.0),
    "L2": Privacy("L2", "gaussian", epsilon=20.0),
}


def combinations() -> Iterator[Any]:
    """All that the rules allow."""
    kinds = product(EPSILON, ("plain", "prior-corrected"), ("soft", "hard"), WEIGHTS, ASKS)
    level: str
    teachers: Any
    votes: Any
    weights: Any
    ask: Any
    for level, teachers, votes, weights, ask in kinds:
        if level == "L1" and weights in BY_CLASS and ask in ("rows", "active"):
            continue
        yield level, Voting(teachers=teachers, votes=votes, weights=weights, ask=ask, cap=3)


def fedkt(level: str, voting: Voting, **more: Any) -> FedKT:
    return FedKT(**{"partitions": 2, "subsets": 2, "queries": 30, **more}, privacy=EPSILON[level], voting=voting)


def some_quick(cases: Iterable[Any], every: int) -> list[Any]:
    """All cases, most of them marked as slow."""

    def named(case: Any) -> str:
        parts = [
            each if isinstance(each, str) else f"{each.teachers}-{each.votes}-{each.weights}-{each.ask}"
            for each in case
        ]
        return "-".join(parts)

    marks = ((), (pytest.mark.slow,))
    return [pytest.param(*case, id=named(case), marks=marks[n % every > 0]) for n, case in enumerate(cases)]


@contextmanager
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any, Any]]]:
    """Every value as it was before its noise, and its mechanism."""
    found: list[tuple[str, Any, Any]] = []
    plain = Site.release

    def watched(self: Site, value: Any, mechanism: Any, **more: Any) -> Any:
        if mechanism.noisy:
            found.append((self.name, np.array(value, np.float64), mechanism))
        return plain(self, value, mechanism, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Site, "release", watched)
        patched.setattr(Silo, "release", watched)
        yield found


@pytest.mark.parametrize(("ask", "noise"), [("rows", "secure"), ("active", "simulated")])
def test_a_vote_that_must_be_whole_is_made_so(ask: Any, noise: Any) -> None:
    """One party's fractions neither end the run nor break what whole votes rest on; nor does a weight nobody asked for."""
    pytest.importorskip("opendp")
    poll = Poll(Voting(votes="hard", weights="equal", ask=ask), Privacy("L1", "gaussian", epsilon=60.0), 1, 1)
    made = replace(two_classes(FedKT()), noise=noise)
    rows = made.public.x  # type: ignore[union-attr]
    said = {p: Said(np.tile([0.4, 0.3], (len(rows), 1)), 0.5, math.nan, np.empty(0)) for p in range(6)}
    sound = poll._sound(Replies(said, ()), len(rows), len(rows), 2, noise, [])
    assert all((each.votes == [1.0, 0.0]).all() and each.weight == 1.0 for each in sound.values())
    labels = poll.verdict(sound, 6, rows, len(rows), None, made.sites(PoolTrainer(1))[0], [])
    assert set(labels.tolist()) <= {0, 1}


@pytest.mark.parametrize("asked", [10**12, 0, -1])
def test_a_party_answers_for_as_many_queries_as_were_agreed_on(asked: int) -> None:
    """Noise is calibrated to their number: who may choose it could have bare counts."""
    voting = Voting(teachers="prior-corrected", ask="rows")
    algorithm = FedKT(1, 2, queries=30, privacy=Privacy("L2", "gaussian", sigma=20.0), voting=voting)
    silo = small_federation(algorithm).sites(PoolTrainer(1))[1][0]
    for request in (Count(asked, 3), SayTowards(30, asked, 3, np.ones(3) / 3)):
        with pytest.raises(LimbeckError, match=f"party 0 was asked about {asked} public rows, not about 30 as agreed"):
            algorithm.answer(request, silo)
    with pytest.raises(LimbeckError, match="on behalf of -5 parties"):
        algorithm.answer(Count(30, -5), silo)
    with pytest.raises(LimbeckError, match="not about 30 as agreed"):
        FedKT.paper(queries=30).answer(TrainStudents(asked), silo)
    with pytest.raises(LimbeckError, match="not about 30 as agreed"):
        FedKD(queries=30).answer(Tell(asked, 1, 0), silo)
    assert silo.ledger.rows == []


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


def two_classes(algorithm: Any, seed: int = 0) -> Federation:
    """Breast cancer among six parties of unlike mixes."""
    data = load("breast-cancer")
    order = np.random.default_rng(seed).permutation(len(data.x))
    x, y = data.x[order], data.y[order]
    held = np.array_split(np.argsort(y[:360] + np.random.default_rng(1).normal(scale=0.7, size=360)), 6)
    model = model_from({"name": "decision-tree", "max_depth": 4})
    return Federation(
        algorithm=algorithm,
        seed=seed,
        classes=np.array(data.classes),
        private=[Rows(x[rows], y[rows]) for rows in held],
        models=[model] * 6,
        server_model=model,
        public=Rows(x[360:480], y[360:480]),
        test=Rows(x[480:], y[480:]),
        config={},
    )


@pytest.mark.parametrize(("ask", "weights", "votes"), some_quick(product(ASKS, WEIGHTS, ["soft", "hard"]), 7))
def test_a_replaced_or_silent_party_moves_what_is_released_by_no_more_than_its_mechanism_says(
    ask: Any, weights: Any, votes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L1, by brute force over what a party may say: anything at all."""
    if weights in BY_CLASS and ask in ("rows", "active"):
        pytest.skip("refused")
    voting = Voting(votes=votes, weights=weights, ask=ask, cap=5)
    poll = Poll(voting, Privacy("L1", "gaussian", epsilon=60.0), 1, 2)
    made = two_classes(FedKT())
    rng = np.random.default_rng(0)
    rows = made.public.x  # type: ignore[union-attr]
    queries = len(rows) // 2 if ask == "active" else len(rows)

    def anything() -> Said:
        votes = rng.random((len(rows), 2)) * rng.choice([1e-3, 1.0, 50.0])
        return Said(votes, float(rng.random()), float(rng.random()), rng.integers(0, 99, 2).astype(float))

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
    voting = Voting(teachers=teachers, weights=weights, ask=ask, cap=5, prior=[0.4, 0.6])
    algorithm = FedKT(partitions=2, subsets=3, privacy=Privacy("L2", "gaussian", epsilon=60.0), voting=voting)
    made = two_classes(algorithm)
    poll = Poll(voting, algorithm.privacy, 2, 3)

    def said(rows: Rows) -> list[Any]:
        silo = replace(made, private=[rows, *made.private[1:]]).sites(PoolTrainer(1))[1][0]
        with released(monkeypatch) as found:
            poll.say(silo, silo.public.x, len(silo.public), 6, np.array([0.4, 0.6]))
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
    if weights in BY_CLASS and ask == "rows":
        return
    poll = Poll(Voting(votes=votes, weights=weights, ask=ask, cap=5), Privacy("L1", "gaussian", epsilon=60.0), 1, 2)
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
        axis = 1 if ask == "rows" else None
        return {
            f"{n} {one[2].gives if ask != 'rows' else 'labels'}": float(
                np.max(np.linalg.norm(one[1] - two[1], axis=axis)) / one[2].sensitivity
            )
            for n, (one, two) in enumerate(zip(*found, strict=True))
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
            Poll(voting, algorithm.privacy, 3, 1).say(silo, silo.public.x, 20, 6, np.array([0.5, 0.5]))
        return [each for each in found if ask == "rows" or each[2].gives == "sums"]

    axis = 1 if ask == "rows" else None
    for (_, one, mechanism), (_, two, _) in zip(said(1.0), said(-1.0), strict=True):
        assert np.max(np.linalg.norm(one - two, axis=axis)) == pytest.approx(mechanism.sensitivity)


@pytest.mark.parametrize("weights", ["accuracy", "rare-class"])
def test_a_teacher_and_its_weight_depend_on_its_own_subset_alone(weights: Any) -> None:
    voting = Voting(weights=weights, ask="rows", cap=50)
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


def test_rows_that_were_not_asked_about_are_learned_from_too() -> None:
    site = two_classes(FedKT()).sites(PoolTrainer(1))[0]
    labels = np.arange(30) % 2
    spread, left_out = Voting(), Voting(unanswered="left-out")
    for voting, rows in ((spread, 120), (left_out, 30)):
        x, y = Poll(voting, L0, 1, 1)._lesson(labels, site)
        assert len(x) == len(y) == rows
        assert set(y) == {0, 1}
    models = [two_classes(FedKT(queries=30, voting=voting)).run(PoolTrainer(1)).model for voting in (spread, left_out)]
    assert models[0].onnx != models[1].onnx  # type: ignore[union-attr]


def test_active_asking_goes_where_a_model_is_least_sure() -> None:
    """Two clouds on a line, and a few rows between them."""
    x = np.concatenate([np.full(20, -1.0), np.linspace(-0.1, 0.1, 5), np.full(20, 1.0)])[:, None].astype(np.float32)
    labels = np.full(45, -1)
    labels[[0, 44]] = 0, 1
    site = replace(two_classes(FedKT()), server_model=model_from({"name": "logistic-regression"})).sites(
        PoolTrainer(1)
    )[0]
    left = np.flatnonzero(labels < 0)
    chosen = Poll(Voting(ask="active"), L0, 1, 1)._least_sure(x, labels, left, 5, site)
    assert sorted(chosen) == [20, 21, 22, 23, 24]


def test_a_teacher_without_a_class_gives_it_the_priors_share() -> None:
    poll = Poll(Voting(teachers="prior-corrected"), L0, 1, 1)
    ballot = poll._ballot(np.array([[1.0, 0.0, 0.0]]), np.array([4, 3, 0]), np.array([0.25, 0.25, 0.5]))
    assert ballot == pytest.approx(np.array([[0.5, 0.0, 0.5]]))


def test_a_teacher_that_nothing_measures_weighs_as_chance_would() -> None:
    poll = Poll(Voting(weights="accuracy"), L0, 1, 1)
    assert poll._weight(np.array([3, 1]), np.empty((0, 2)), np.empty(0, int)) == 0.5


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (Pate(privacy=EPSILON["L2"], voting=Voting(prior=[0.2, 0.3, 0.5])), "prior has 3 shares"),
        (FedKT(1, 2, voting=Voting(prior=[1.0])), "prior has 1 shares"),
        (FedKT(1, 61, privacy=EPSILON["L2"], voting=Voting(teachers="prior-corrected")), "subsets = 60 would fit"),
        (FedKT(1, 2, privacy=EPSILON["L2"], voting=Voting(directions=10**8)), "120 public rows are asked about"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_leaves(algorithm: Any, told: str) -> None:
    made = two_classes(algorithm)
    with pytest.raises(LimbeckError, match=told):
        made.run(PoolTrainer(1))
    with pytest.raises(LimbeckError, match=told):
        algorithm.planned(120, 2, [60] * 6, "simulated")


def test_nobody_tells_what_nobody_asks_for() -> None:
    """Six parties are too few for the mix at this epsilon: no belief leaves."""
    record = two_classes(FedKT(1, 2, privacy=Privacy("L1", epsilon=3.0))).run(PoolTrainer(1)).record
    assert "Belief" not in {row["what"] for row in record.ledger}


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


@pytest.mark.parametrize("weights", ["accuracy", "rare-class"])
def test_beliefs_and_weights_go_together(weights: Any) -> None:
    made = two_classes(FedKT(1, 2, privacy=Privacy("L1", epsilon=30.0), voting=Voting(weights=weights)))
    record = made.run(PoolTrainer(1)).record
    assert {"Belief", "Weight", "Said", "median", "sums"} <= {row["what"] for row in record.ledger}
    assert record.metrics is not None
    assert record.metrics.balanced_accuracy > 0.7


def test_the_median_of_beliefs_is_asked_for_where_epsilon_allows_it() -> None:
    def whats(epsilon: float) -> list[str]:
        made = two_classes(FedKT(1, 2, privacy=Privacy("L1", epsilon=epsilon)))
        record = made.run(PoolTrainer(1)).record
        assert record.epsilon["public"] <= epsilon
        assert bool(record.remarks) == ("median" not in [row["what"] for row in record.ledger])
        return [
            row["what"] for row in record.ledger if row["site"] == "server" and row["mechanism"] != "nothing-private"
        ]

    assert whats(30.0) == ["median", "sums"]
    assert whats(3.0) == ["sums"]  # six parties are too few


class Silly(FedKT):
    """Party 0 says something else than votes."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        reply = FedKT.answer(self, request, silo)
        if silo.party or not isinstance(reply, Said):
            return reply
        return silo.release(replace(reply, votes=np.full_like(reply.votes, np.nan)), Unprotected(), observer="server")


def test_a_party_that_says_nothing_finite_is_left_out() -> None:
    made = small_federation(Silly())
    record = made.run(PoolTrainer(1)).record
    assert record.remarks == ("party 0 said no finite vote for every row and was left out",)


def test_a_party_refuses_a_prior_that_is_none_or_was_not_agreed_on() -> None:
    """It would let a server stretch what one row can change."""
    for teachers, prior in (("prior-corrected", [0.0, 1e6, math.nan]), ("plain", [0.2, 0.3, 0.5])):
        voting = Voting(teachers=teachers, ask="rows")  # type: ignore[arg-type]
        algorithm = FedKT(1, 2, queries=30, privacy=EPSILON["L2"], voting=voting)
        silo = small_federation(algorithm).sites(PoolTrainer(1))[1][0]
        with pytest.raises(LimbeckError, match=r"prior that is none|does not know"):
            algorithm.answer(SayTowards(30, 30, 3, np.array(prior)), silo)
        assert not silo.ledger.rows


def test_one_teacher_a_party_has_no_belief_and_none_is_asked_for() -> None:
    record = two_classes(FedKT(1, 1, privacy=Privacy("L1", epsilon=30.0))).run(PoolTrainer(1)).record
    assert {row["what"] for row in record.ledger} == {"Said", "sums", "Adopt"}
    assert "taken as alike" in record.remarks[0]


def test_soft_votes_are_never_accounted_for_as_whole_ones() -> None:
    """Margins between whole numbers can be worse than any whole one."""
    for voting, whole in ((Voting(votes="hard", weights="equal", ask="rows"), True), (Voting(ask="rows"), False)):
        poll = Poll(voting, Privacy("L2", "gaussian", sigma=2.0), 1, 4)
        mechanism = poll.means(10, 2, 3, "simulated").labels
        assert mechanism.whole == whole
        spends = [Spend(mechanism, 10, classes=2, voters=4, abstentions=True)]
        assert ("binary" in every_epsilon(spends, 1e-5)) == whole


def test_labels_are_matched_among_rows_that_have_an_answer() -> None:
    poll = Poll(Voting(weights="equal", prior=[0.5, 0.5]), L0, 1, 1)
    made = two_classes(FedKT())
    rng = np.random.default_rng(0)
    asked = np.asarray(made.public.x)[rng.integers(0, 120, 1000)]  # type: ignore[union-attr]
    votes = np.zeros((1000, 2))
    votes[:400, 1] = rng.random(400) * 0.4
    votes[:400, 0] = 1 - votes[:400, 1]
    labels = poll.verdict({0: Said(votes, 1.0, math.nan, np.empty(0))}, 1, asked, 1000, np.array([0.5, 0.5]), made.sites(PoolTrainer(1))[0], [])  # fmt: skip
    assert 160 < (labels[:400] == 1).sum() < 240


def test_where_no_party_has_a_row_of_every_class_all_weigh_alike() -> None:
    made = small_federation(FedKT(1, 2, voting=Voting(weights="rare-class")))
    lacking = [Rows(r.x[r.y != p], r.y[r.y != p]) for p, r in enumerate(made.private)]
    record = replace(made, private=lacking).run(PoolTrainer(1)).record
    assert record.remarks == ('weights = "rare-class" leaves every party without a say: all weigh alike',)
    assert record.metrics is not None
    assert record.metrics.accuracy > 0.6


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
        (lambda: Voting(directions=0), "directions must be from 1"),
        (lambda: Voting(prior=[0.0, 0.0]), "not all be 0"),
        (lambda: Voting(votes="loud"), "votes = 'loud'"),  # type: ignore[arg-type]
        (lambda: FedKD(voting=Voting()), 'transfer = "labels"'),
        (lambda: FedKD(transfer="labels", voting=Voting(weights="accuracy")), "no rows held out"),
        (lambda: small_federation(FedKT(voting=Voting(prior=[0.5, 0.5]))).run(PoolTrainer(1)), "3 classes"),
    ],
)
def test_wrong_combinations_are_told(wrong: Any, said: str) -> None:
    with pytest.raises(LimbeckError, match=said):
        wrong()


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
