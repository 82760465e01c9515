"""What server and parties do in a vote: who is heard, what is asked of whom, what is learned from."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from electorate import EPSILON, fedkt, two_classes
from limbeck.algorithms.fedkd import FedKD, Tell
from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.poll import Poll, corrected
from limbeck.algorithms.questions import Count, Said, Say, SayIn, SayTowards
from limbeck.algorithms.voting import Voting
from limbeck.checks import small_federation
from limbeck.errors import LimbeckError
from limbeck.models.jobs import FitAndScore
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo


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
    for request in (Count(asked, 3), SayTowards(30, asked, 3, np.empty(0), np.ones(3) / 3)):
        with pytest.raises(LimbeckError, match=f"party 0 was asked about {asked} public rows, not about 30 as agreed"):
            algorithm.answer(request, silo)
    with pytest.raises(LimbeckError, match="on behalf of -5 parties"):
        algorithm.answer(Count(30, -5), silo)
    with pytest.raises(LimbeckError, match="not about 30 as agreed"):
        FedKT.paper(queries=30).answer(TrainStudents(asked), silo)
    with pytest.raises(LimbeckError, match="not about 30 as agreed"):
        FedKD(queries=30).answer(Tell(asked, 1, 0), silo)
    assert silo.ledger.rows == []


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


def test_nobody_tells_what_nobody_asks_for() -> None:
    """Six parties are too few for the mix at this epsilon: no belief leaves."""
    record = two_classes(FedKT(1, 2, privacy=Privacy("L1", epsilon=3.0))).run(PoolTrainer(1)).record
    assert "Belief" not in {row["what"] for row in record.ledger}


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
            algorithm.answer(SayTowards(30, 30, 3, np.empty(0), np.array(prior)), silo)
        assert not silo.ledger.rows


def test_one_teacher_a_party_has_no_belief_and_none_is_asked_for() -> None:
    record = two_classes(FedKT(1, 1, privacy=Privacy("L1", epsilon=30.0))).run(PoolTrainer(1)).record
    assert {row["what"] for row in record.ledger} == {"Said", "sums", "Adopt"}
    assert "taken as alike" in record.remarks[0]


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


def test_a_party_of_one_class_is_told_of() -> None:
    made = small_federation(FedKT(1, 2))
    first, *others = made.private
    record = replace(made, private=[Rows(first.x, np.zeros(len(first), int)), *others]).run(PoolTrainer(1)).record
    assert record.remarks == ('party 0 has no say: by its class counts weights = "contrast" gives it none',)


def network_of(rows: Rows, prior: Any) -> tuple[Any, Any, Any]:
    """What a network's silo learns from, its recipe, and the shares of classes that it then finds in the same rows."""
    pytest.importorskip("torch")
    network = model_from({"name": "torch-mlp", "recipe": {"epochs": 30, "batch": 16, "learning_rate": 0.01}})
    made = replace(two_classes(FedKT()), private=[rows] * 6, models=[network] * 6, server_model=network)
    silo = made.sites(PoolTrainer(1))[1][0]
    x, targets, recipe = corrected(silo, np.arange(len(rows)), prior, 0)
    [scores] = silo.train([FitAndScore(network, x, targets, rows.x, recipe)])
    return x, targets, scores


def test_a_network_is_corrected_by_its_loss() -> None:
    """Two clouds that overlap, nine rows of one for each of the other: by the loss their line moves to the middle."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [270, 30])
    rows = Rows((rng.normal(size=(300, 2)) + labels[:, None]).astype(np.float32), labels)
    x, targets, even = network_of(rows, np.array([0.5, 0.5]))
    assert np.array_equal(x, rows.x)
    assert targets.sum(axis=0) == pytest.approx([150.0, 150.0], rel=1e-5)
    plain = network_of(rows, None)[2]
    assert plain[:, 1].mean() == pytest.approx(0.1, abs=0.04)
    assert even[labels == 1, 1].mean() > plain[labels == 1, 1].mean() + 0.3
    own_mix = network_of(rows, np.array([0.9, 0.1]))[2]
    assert own_mix == pytest.approx(plain, abs=1e-4)


def test_a_network_of_one_class_learns_as_it_is() -> None:
    rows = Rows(np.ones((5, 2), np.float32), np.ones(5, int))
    _, targets, scores = network_of(rows, np.array([0.5, 0.5]))
    assert targets.tolist() == [1] * 5
    assert (scores == [0.0, 1.0]).all()


def test_a_party_answers_what_was_agreed_on_and_nothing_else() -> None:
    """Counts where the plan has them, the agreed rows, and words in a basis of so many directions."""
    default = FedKT(1, 2, queries=30, privacy=EPSILON["L2"])
    silo = small_federation(default).sites(PoolTrainer(1))[1][0]
    for rows in (45, -5, 0):
        with pytest.raises(LimbeckError, match=f"asked about {rows} public rows, not about 30 as agreed"):
            default.answer(Say(rows, 30, 3), silo)
    for basis in (np.empty(0), np.ones((30, 2)), np.full((30, 5), np.nan), np.full((30, 5), 1e300)):
        with pytest.raises(LimbeckError, match="was given a basis of shape"):
            default.answer(SayIn(30, 30, 3, basis), silo)
    for level in EPSILON:
        algorithm = fedkt(level, Voting(weights="equal", labels="leader"))
        with pytest.raises(LimbeckError, match="does not know"):
            algorithm.answer(Count(30, 3), silo)
    assert silo.ledger.rows == []


def test_all_parties_speak_in_the_servers_basis() -> None:
    """On a grid directions are equally strong: how many threads a machine has decides which of them it finds."""
    grid = np.array([[a, b] for a in range(10) for b in range(10)], np.float32)
    labels = ((grid[:, 0] > 4.5) != (grid[:, 1] > 4.5)).astype(int)
    parts = Rows(np.repeat(grid, 4, axis=0), np.repeat(labels, 4))
    voting = Voting(ask="directions", directions=20, prior="uniform")
    asked: list[SayIn] = []

    class Watched(FedKT):
        def answer(self, request: Request[Any], silo: Silo) -> Reply:
            if isinstance(request, SayIn):
                asked.append(request)
                turned = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
                request = replace(request, basis=(request.basis @ turned).astype(np.float32))
            return FedKT.answer(self, request, silo)

    def accuracy(kind: type[FedKT]) -> float:
        made = two_classes(kind(1, 1, privacy=Privacy("L2", "gaussian", sigma=1e-9), voting=voting))
        public = Rows(grid, labels)
        return replace(made, private=[parts] * 6, public=public, test=public).run(PoolTrainer(1)).accuracy or 0.0

    assert accuracy(FedKT) > 0.95
    assert accuracy(Watched) < 0.8  # words in another basis are not understood
    assert asked[0].basis.shape == (100, 20)
