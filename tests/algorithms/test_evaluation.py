"""Evaluation on the parties' own test rows: what leaves a party, and what a row changes of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.evaluation import CountRequest, EvaluationCounts, FederatedEvaluation
from limbeck.checks import small_federation
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckError
from limbeck.knowledge.counts import Bins, PredictionCounts, sensitivity_of_counts
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.mechanisms import GaussianSum
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Task
from odd_models import linear
from private_levels import LEVELS, Evaluated, federation, ordinary, run_party

TREE = {"name": "decision-tree"}
ODD = {"NaN": np.nan, "1e30": 1e30, "-1e30": -1e30, "ordinary": 0.4}

EDGES = Bins.equal(3, 20).edges


def counted(monkeypatch: pytest.MonkeyPatch, algorithm: Any, rows: Rows) -> np.ndarray:
    [reply] = run_party(monkeypatch, algorithm, rows, TREE).replies
    assert isinstance(reply, EvaluationCounts)
    return reply.counts


def test_without_noise_a_party_sends_its_exact_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ordinary(60)
    labels, scores = PackedModel(linear()).run(rows.x)
    public = federation(Evaluated(), [rows, rows], TREE).public
    assert public is not None
    expected = PredictionCounts.of(rows.y, labels, scores, Evaluated().bins_of(linear(), public.x, 3).edges)
    assert np.array_equal(counted(monkeypatch, Evaluated(), rows), expected.vector)
    assert expected.confusion.trace() == (labels == rows.y).sum()


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("odd", ODD)
def test_a_row_moves_the_counts_by_the_sensitivity_at_most(
    monkeypatch: pytest.MonkeyPatch, odd: str, adjacency: Any
) -> None:
    """Also a row that the model cannot predict. The noise depends on the seed alone: it cancels."""
    algorithm = Evaluated(privacy=Privacy("L2", epsilon=2.0, adjacency=adjacency))
    rows = ordinary(12)
    usual, largest = counted(monkeypatch, algorithm, rows), 0.0
    for y in range(3):
        x = np.concatenate([rows.x[:-1], np.full((1, 2), ODD[odd], np.float32)])
        other = Rows(x, np.array([*rows.y[:-1], y]))
        other = rows[np.arange(11)] if adjacency == "add-remove" else other
        largest = max(largest, float(np.linalg.norm(counted(monkeypatch, algorithm, other) - usual)))
    mechanism = algorithm.mechanism(Facts(8, 3, 2))
    assert isinstance(mechanism, GaussianSum)
    assert 0 < largest <= mechanism.l2_sensitivity + 1e-9
    assert mechanism.l2_sensitivity == sensitivity_of_counts(3, replaced=adjacency == "replace")


def test_more_rows_of_a_person_need_more_noise() -> None:
    facts = Facts(public=8, classes=2, parties=2)
    one, ten = (
        FederatedEvaluation(privacy=Privacy("L2", epsilon=1.0, rows_per_person=rows)).mechanism(facts)
        for rows in (1, 10)
    )
    assert isinstance(one, GaussianSum)
    assert isinstance(ten, GaussianSum)
    assert ten.sigma == pytest.approx(10 * one.sigma, rel=0.01)


def test_the_server_adds_up_what_the_parties_send() -> None:
    held = [ordinary(30, seed=seed) for seed in (0, 1)]
    engine = _engine(federation(Evaluated(), held, TREE))
    outcome = engine.run()
    labels = PackedModel(linear()).vote(np.concatenate([rows.x for rows in held]))
    hits = labels == np.concatenate([rows.y for rows in held])
    assert outcome.figures == {"test_rows": 60.0, "accuracy": pytest.approx(hits.mean())}
    assert outcome.model == linear()
    assert engine.algorithm.is_one_shot


def _engine(made: Any) -> InProcess:
    server, silos = made.sites(PoolTrainer(1))
    return InProcess(made.algorithm, server, silos, PoolTrainer(1))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda counts: counts[:-1], "values of type int64 and shape"),
        (lambda counts: -counts, "outside of 0"),
        (lambda counts: counts + 0.5, "counts without noise must be whole numbers"),
        (lambda counts: counts * 10**9, "outside of 0"),
        (lambda counts: np.roll(counts, 1), "the histograms count other rows than the confusions"),
    ],
)
def test_counts_that_nobody_can_have_are_rejected(change: Any, complaint: str) -> None:
    made = federation(Evaluated(), [ordinary(30)], TREE)
    server, _ = made.sites(PoolTrainer(1))
    rows = ordinary(30)
    counts = PredictionCounts.of(rows.y, *PackedModel(linear()).run(rows.x), Bins.equal(3, 20).edges).vector
    EvaluationCounts(counts).check(CountRequest(b"", EDGES), server, Evaluated())
    with pytest.raises(LimbeckError, match=complaint):
        EvaluationCounts(change(counts)).check(CountRequest(b"", EDGES), server, Evaluated())


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: FederatedEvaluation(privacy=Privacy("L1", epsilon=1.0)), "use level L2"),
        (lambda: FederatedEvaluation(privacy=Privacy("L2", "laplace", gamma=1.0)), "adds Gaussian noise: give epsilon"),
        (lambda: FederatedEvaluation(bins=1), "bins = 1"),
        (lambda: FederatedEvaluation().check_task(Task("multilabel")), 'one class each, not task = "multilabel"'),
        (lambda: FederatedEvaluation().check_task(Task("regression")), 'one class each, not task = "regression"'),
        (lambda: _run(""), "algorithm.model is missing"),
        (lambda: _run("nothing.onnx"), r"algorithm.model: cannot read nothing\.onnx"),
    ],
)
def test_what_it_cannot_do_is_one_line(make: Any, complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint) as error:
        make()
    assert "\n" not in str(error.value)


def _run(model: str) -> None:
    _engine(small_federation(FederatedEvaluation(model))).run()


def test_a_model_that_cannot_predict_any_row_predicts_the_first_class(tmp_path: Path) -> None:
    """It is for rows of two values; these have four. With noise nobody sees more than that."""

    class WithoutPublicRows(FederatedEvaluation):
        def bins_of(self, model: bytes, public: Any, classes: int) -> Bins:
            return Bins.equal(classes, self.bins)

    (tmp_path / "model.onnx").write_bytes(linear())
    made = small_federation(WithoutPublicRows(str(tmp_path / "model.onnx")))
    labels = np.concatenate([rows.y for rows in made.private])
    assert _engine(made).run().figures["accuracy"] == pytest.approx((labels == 0).mean())
    noisy = replace(WithoutPublicRows(str(tmp_path / "model.onnx")), privacy=LEVELS["evaluation-L2"].privacy)
    assert _engine(small_federation(noisy)).run().figures["test_rows"] > 0
