"""FedVote: what is planned, rejected and asked of whom, and that it does what it is for."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from typer.main import get_command

import limbeck as lb
from limbeck.algorithms import algorithms
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedvote import FedVote, VoteRequest, Votes
from limbeck.algorithms.solo import Solo
from limbeck.checks import check_algorithm, small_federation
from limbeck.cli import app
from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet, Iid
from limbeck.engines.respond import respond
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.knowledge.matching import shares_of
from limbeck.models.jobs import FitAndScore
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import L0, Privacy
from limbeck.protocol.codec import Header
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo
from limbeck.protocol.streams import stream
from limbeck.protocol.task import Task
from mixed_parties import two_classes

FOREST = model_from({"name": "random-forest", "n_estimators": 20})
NOISE = {"L0": L0, "L1": Privacy("L1", epsilon=20.0)}
NO_L2 = "privacy: fedvote is for levels L0 and L1: use fedridge at L2"
SETTINGS: list[dict[str, Any]] = [{}, {"labels": "leader"}, {"weights": "equal"}, {"prior": "uniform"}]


def fedvote(level: str, **more: Any) -> FedVote:
    noisy: dict[str, Any] = {} if level == "L0" else {"subsets": 2}
    return FedVote(**{"queries": 30, **noisy, **more}, privacy=NOISE[level])


def record_of(algorithm: Any, **changes: Any) -> Any:
    return replace(two_classes(algorithm), **changes).run(PoolTrainer(1)).record


def test_soft_labels_behave() -> None:
    check_algorithm(fedvote("L0", labels="soft"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("level", NOISE)
def test_every_setting_behaves(level: str, settings: dict[str, Any]) -> None:
    check_algorithm(fedvote(level, **settings))


@pytest.mark.slow
def test_a_vote_of_two_classes_whose_shares_are_estimated_behaves() -> None:
    """The small federation has three classes, of which no median is taken."""
    algorithm = FedVote(1, 2, queries=30, privacy=Privacy("L1", "gaussian", epsilon=60.0))
    check_algorithm(algorithm, federation=two_classes(algorithm))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["median", "trimmed", "filtered"])
def test_robust_votes_behave(rule: Any) -> None:
    check_algorithm(FedVote(consensus=rule))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("level", NOISE)
def test_a_plan_names_what_a_run_releases(level: str, settings: dict[str, Any]) -> None:
    """And what they cost together is what was asked for."""
    algorithm = fedvote(level, **settings)
    record = record_of(algorithm)
    keys = ("site", "what", "mechanism", "queries", "parameters")
    made = [{key: row[key] for key in keys} for row in record.ledger if row["mechanism"] != "post-processing"]
    planned = planned_releases(algorithm.disclosures, Facts(120, 2, 6))
    expected = [{key: getattr(row, key) for key in keys} for row in planned]
    assert all(row in expected for row in made)
    assert all(row in made for row in expected)
    assert len(made) == len(expected)
    if level != "L0":
        assert 19.8 < record.epsilon["public"] <= 20.0
    assert record.epsilon["server"] == math.inf


def test_without_noise_a_party_trains_one_model_on_all_its_rows() -> None:
    """It is the model that the party would have alone, and its votes are that model's probabilities."""
    made = two_classes(FedVote(), seed=3)
    trainer = PoolTrainer(1)
    _, silos = made.sites(trainer)
    header = Header(0, silos[2].public.hash)
    reply = respond(made.algorithm, VoteRequest(), header, silos[2])
    alone = two_classes(Solo(), seed=3).run(trainer).models[2]
    assert isinstance(reply, Votes)
    assert np.allclose(reply.votes, PackedModel(alone.onnx).scores(silos[2].public.x), atol=1e-3)
    assert reply.counts.tolist() == np.bincount(silos[2].private.y).tolist()


def test_unlike_parties_do_better_than_with_fedkt() -> None:
    """Digits among five parties of a few classes each: as good as all rows in one place, nearly."""
    data = load("digits")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), 1)
    held = Dirichlet(beta=0.1, min_rows=20).assign(data.y[parts.private], {}, 5, np.random.default_rng(1))
    found = []
    for algorithm in (FedKT(2, 2), FedVote()):
        made = replace(
            two_classes(algorithm),
            classes=np.array(data.classes),
            private=[data.rows(parts.private[each]) for each in held],
            public=parts.public,
            test=parts.test,
            models=[FOREST] * 5,
            server_model=FOREST,
        )
        found.append(made.run(PoolTrainer(1)).accuracy or 0.0)
    assert found[1] > found[0] + 0.1
    assert found[1] > 0.8


def test_labels_have_the_shares_of_the_prior() -> None:
    """A prior of one to nine moves the final model's predictions towards it."""
    shares = []
    for prior in ([0.5, 0.5], [0.1, 0.9]):
        made = two_classes(FedVote(prior=prior))
        model = made.run(PoolTrainer(1)).model
        assert model is not None
        shares.append(model.packed.run(made.public.x)[0].mean())  # type: ignore[union-attr]
    assert shares[0] == pytest.approx(0.5, abs=0.1)
    assert shares[1] > shares[0] + 0.15


def test_all_public_rows_are_learned_from() -> None:
    """Rows that were not asked about get the labels of rows like them."""
    few, all_rows = (record_of(FedVote(queries=queries)).metrics for queries in (30, 1.0))
    assert few.accuracy > 0.8
    assert all_rows.accuracy > 0.8


def test_soft_labels_rank_rare_rows_better_than_hard_ones() -> None:
    """Four parties of a set with few positive rows; the mean of three seeds."""
    from sklearn.datasets import make_classification

    areas: dict[Any, list[float]] = {"matched": [], "soft": []}
    for seed in range(3):
        x, y = make_classification(
            3000, 8, n_informative=5, n_redundant=0, weights=[0.94], flip_y=0.04, class_sep=0.8, random_state=seed
        )
        parties = [(x[i * 400 : (i + 1) * 400], y[i * 400 : (i + 1) * 400]) for i in range(4)]
        for labels, found in areas.items():
            result = lb.run(
                FedVote(labels=labels),
                parties,
                public=x[1600:2200],
                test=(x[2200:], y[2200:]),
                models={"name": "random-forest", "n_estimators": 30, "max_depth": 6},
            )
            assert result.metrics is not None
            assert result.metrics.roc_auc is not None
            found.append(result.metrics.roc_auc)
    assert np.mean(areas["soft"]) > np.mean(areas["matched"]) + 0.005


@pytest.mark.parametrize(
    ("algorithm", "models", "message"),
    [
        (
            {"labels": "soft", "privacy": {"level": "L1", "epsilon": 1.0}},
            "decision-tree",
            'labels = "soft" is for level L0',
        ),
        ({"labels": "soft"}, "knn", "model 'knn' does not use sample weights"),
    ],
)
def test_soft_labels_are_refused_before_any_training(algorithm: dict[str, Any], models: str, message: str) -> None:
    x, y = np.arange(40.0)[:, None], np.arange(40) % 2
    with pytest.raises(LimbeckError, match=re.escape(message)):
        lb.run({"name": "fedvote", **algorithm}, [(x, y), (x, y)], public=x, models=models, classes=[0, 1])


def test_a_party_of_one_class_is_named() -> None:
    made = small_federation(FedVote())
    first, *others = made.private
    record = replace(made, private=[Rows(first.x, np.zeros(len(first), int)), *others]).run(PoolTrainer(1)).record
    assert record.remarks == ("party 0 has rows of one class only: its votes get weight 0",)


def test_the_median_of_estimates_is_asked_for_where_epsilon_allows_it() -> None:
    def disclosed(epsilon: float) -> tuple[list[str], Any]:
        record = record_of(FedVote(1, 2, privacy=Privacy("L1", epsilon=epsilon)))
        assert record.epsilon["public"] <= epsilon
        server = [row for row in record.ledger if row["site"] == "server" and row["mechanism"] != "post-processing"]
        assert ("prior estimate" in {row["what"] for row in record.ledger}) == (len(server) == 2)
        return [row["what"] for row in server], record

    whats, record = disclosed(30.0)
    assert whats == ["prior", "encoded votes"]
    assert record.remarks == ()
    assert record.metrics.balanced_accuracy > 0.7
    whats, record = disclosed(3.0)  # six parties are too few
    assert whats == ["encoded votes"]
    assert "classes are taken as equally frequent" in record.remarks[0]


@pytest.mark.parametrize(("sigma", "has_median"), [(5.0, False), (0.2, True)])
def test_a_median_costs_no_more_than_the_votes_where_only_noise_is_given(sigma: float, has_median: bool) -> None:
    algorithm = FedVote(1, 2, privacy=Privacy("L1", "gaussian", sigma=sigma))
    planned = planned_releases(algorithm.disclosures, Facts(120, 2, 6))
    assert any(row.mechanism == "noisy-median" for row in planned) == has_median


def test_one_teacher_a_party_estimates_no_prior() -> None:
    record = record_of(FedVote(1, 1, privacy=Privacy("L1", epsilon=30.0)))
    assert {row["what"] for row in record.ledger} == {"votes", "encoded votes", "model"}


@dataclass(frozen=True, slots=True)
class Odd(FedVote):
    """Party 0 replies with something else than votes."""

    name = "odd"
    sent: str = "nan"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party or not isinstance(request, VoteRequest):
            return FedVote.answer(self, request, silo)
        rows = len(self.queried(silo))
        votes = {"nan": np.full((rows, 3), np.nan), "few": np.ones((2, 3)), "huge": np.full((rows, 3), 1e12)}
        silo.disclose("class counts", np.ones(3))
        return silo.disclose("votes", Votes(votes[self.sent], np.ones(3)))


@pytest.mark.parametrize(
    ("sent", "reason"), [("nan", "votes is not finite"), ("few", r"shape \(2, 3\)"), ("huge", "outside of")]
)
def test_a_reply_of_something_else_than_votes_counts_as_silence(sent: str, reason: str) -> None:
    record = small_federation(Odd(sent=sent)).run(PoolTrainer(1)).record
    assert record.missing == (0,)
    [remark] = record.remarks
    assert remark.startswith("request 0: party 0: ")
    assert re.search(reason, remark)


@dataclass(frozen=True, slots=True)
class Byzantine(FedVote):
    """Parties 0 and 1 vote for the next class instead, and claim to have a billion rows of one."""

    name = "byzantine"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party > 1 or not isinstance(request, VoteRequest):
            return FedVote.answer(self, request, silo)
        own = silo.private
        [votes] = silo.train([FitAndScore(silo.model, own.x, own.y, self.queried(silo))])
        return silo.disclose("votes", Votes(np.roll(votes, 1, axis=1), 1e9 * np.eye(silo.classes)[0]))


def ten_parties(algorithm: FedVote) -> Federation:
    data = load("digits")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), 0)
    held = Iid().assign(data.y[parts.private], {}, 10, stream(0, "split"))
    return replace(
        small_federation(algorithm),
        classes=np.array(data.classes),
        private=[data.rows(parts.private[rows]) for rows in held],
        models=[FOREST] * 10,
        server_model=FOREST,
        public=parts.public,
        test=parts.test,
    )


@pytest.mark.parametrize("rule", ["filtered", "median", "trimmed"])
def test_two_byzantine_parties_of_ten_hardly_hurt_a_robust_vote(rule: Any) -> None:
    attacked = ten_parties(Byzantine(consensus=rule)).run(PoolTrainer(1))
    honest = ten_parties(FedVote(consensus=rule)).run(PoolTrainer(1))
    assert (attacked.accuracy or 0) > (honest.accuracy or 0) - 0.03
    if rule == "filtered":
        keys = [f"party {party} agrees with the others too rarely and was left out" for party in (0, 1)]
        assert list(attacked.record.remarks) == keys
        assert honest.record.remarks == ()


def test_two_byzantine_parties_of_ten_end_a_vote_that_is_not_robust() -> None:
    assert (ten_parties(Byzantine()).run(PoolTrainer(1)).accuracy or 0) < 0.5


@pytest.mark.parametrize(
    ("wrong", "keys"),
    [
        (lambda: FedVote(privacy=Privacy(epsilon=3.0)), "level L0 adds no noise"),
        (lambda: FedVote(privacy=Privacy("L2", epsilon=3.0)), f"^{NO_L2}$"),
        (lambda: FedVote(privacy=Privacy("L2", "laplace", gamma=1.0)), f"^{NO_L2}$"),
        (
            lambda: two_classes(FedVote(1, 2, queries=1, privacy=Privacy("L1", epsilon=3.0))).run(PoolTrainer(1)),
            "noisy votes need public rows that differ, but all are equal",
        ),
        (lambda: FedVote(privacy=Privacy("L1", gamma=0.1)), "give epsilon, or sigma with gaussian"),
        (lambda: FedVote(privacy=Privacy("L1", "laplace", epsilon=3.0)), "fedvote adds Gaussian noise"),
        (lambda: FedVote(consensus="median", privacy=Privacy("L1", epsilon=1.0)), 'consensus = "median" is for level'),
        (lambda: FedVote(consensus="median", weights="contrast"), 'weights = "contrast" is for consensus = "mean"'),
        (lambda: FedVote(consensus="median", trimmed=0.1), 'trimmed is for consensus = "trimmed"'),
        (lambda: FedVote(weights="contrast", privacy=Privacy("L1", epsilon=1.0)), 'weights = "contrast" is for'),
        (lambda: FedVote(labels="leader", prior="uniform"), 'prior is for labels = "matched"'),
        (lambda: FedVote(subsets=3), "partitions and subsets are for level L1"),
        (lambda: FedVote(prior=[0.0, 0.0]), "not all be 0"),
        (lambda: FedVote(partitions=0), "partitions = 0"),
        (lambda: FedVote(queries=1.5), "queries = 1.5"),
        (lambda: FedVote(trimmed=0.5), "trimmed = 0.5"),
        (lambda: FedVote(weights="loud"), "weights = 'loud'"),  # type: ignore[arg-type]
        (
            lambda: small_federation(FedVote(prior=[0.5, 0.5])).run(PoolTrainer(1)),
            "prior has 2 shares, but there are 3",
        ),
    ],
)
def test_wrong_parameters_are_reported(wrong: Any, keys: str) -> None:
    with pytest.raises(LimbeckError, match=keys):
        wrong()


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_file_with_level_l2_is_refused_in_one_line(command: str, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        'data = { name = "iris", parties = 3, public = 0.2 }\nmodel = { name = "decision-tree" }\n'
        'algorithm = { name = "fedvote", privacy = { level = "L2", epsilon = 1.0 } }\n'
    )
    result = CliRunner().invoke(get_command(app), [command, str(file)], standalone_mode=False)
    assert isinstance(result.exception, LimbeckError)
    assert str(result.exception) == f"{file}: algorithm: {NO_L2}"


def test_the_prior_is_checked_before_anyone_trains() -> None:
    with pytest.raises(LimbeckError, match="prior has 1 shares"):
        FedVote(prior=[1.0]).disclosures(Facts(120, 2, 6))


def test_a_prior_may_be_a_tuple() -> None:
    given = (FedVote(prior=(3.0, 1.0)), FedVote(prior=[3.0, 1.0]))
    assert [shares_of(each.prior, 2).tolist() for each in given] == [[0.75, 0.25]] * 2
    with pytest.raises(LimbeckError, match="prior must be finite"):
        FedVote(prior=(-3.0, 1.0))


def of_several(y: Any, algorithm: FedVote, seed: int = 0) -> Any:
    """A run on two normal features among three unlike parties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 2)).astype(np.float32)
    labels = y(x)
    order = np.argsort(x[:200, 0] + rng.normal(size=200))
    parties = [(x[rows], labels[rows]) for rows in np.array_split(order, 3)]
    return lb.run(algorithm, parties, x[200:], "decision-tree", test=(x[200:], labels[200:]), seed=3)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_one_of_several_labels_is_a_vote_of_two_classes(settings: dict[str, Any]) -> None:
    several = of_several(lambda x: (x[:, :1] > 0).astype(int), FedVote(**settings))
    binary = of_several(lambda x: (x[:, 0] > 0).astype(int), FedVote(**settings))
    rows = np.random.default_rng(5).normal(size=(200, 2))
    assert (several.model.predict(rows)[:, 0] == binary.model.predict(rows)).all()
    assert several.accuracy == binary.accuracy


def test_of_several_labels_each_is_voted_on_by_the_parties_that_have_both() -> None:
    """One party does not know the second class, and one has no positive row of the first one."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2)).astype(np.float32)
    y = (x > 0).astype(np.int8)
    order = np.argsort(x[:300, 0])
    parties = [(x[rows], y[rows].copy()) for rows in np.array_split(order, 3)]
    parties[2][1][:, 1] = -1
    result = lb.run(FedVote(), parties, x[300:], "random-forest", test=(x[300:], y[300:]), seed=0)
    assert result.metrics is not None
    assert min(each or 0 for each in result.metrics.class_auc or [0]) > 0.9
    assert not result.record.remarks
    for _, labels in parties:
        labels[:, 1] = -1
    remarks = lb.run(FedVote(), parties, x[300:], "random-forest", seed=0).record.remarks
    assert remarks == ("no party has both labels of class 1: its labels are a guess",)


@pytest.mark.parametrize(
    ("algorithm", "task", "rejection"),
    [
        (
            FedVote(),
            "regression",
            'fedvote is for task = "multiclass", "multilabel", not "regression"; fedridge, fedkd',
        ),
        (FedVote(consensus="median"), "multilabel", 'consensus = "mean" is needed for several labels a row'),
        (
            FedKT(),
            "multilabel",
            'fedkt is for task = "multiclass", not "multilabel"; fedridge, fedkd and fedmd learn all',
        ),
        (FedKT(), "regression", 'fedkt is for task = "multiclass", not "regression"'),
    ],
)
def test_labels_that_cannot_be_voted_on_are_refused(algorithm: Any, task: Any, rejection: str) -> None:
    with pytest.raises(LimbeckError, match=rejection):
        small_federation(algorithm, task=task)


@pytest.mark.parametrize("name", ["pate", "feddf", "fedgen", "ensemble", "fedkt-avg", "fedkt-prox"])
@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_and_so_does_every_method_for_one_class_a_row(name: str, task: Any) -> None:
    with pytest.raises(LimbeckError, match=f'{name} is for task = "multiclass", not "{task}"; fedridge, fedkd and'):
        algorithms()[name]().check_task(Task(task))
