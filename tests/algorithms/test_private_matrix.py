"""Rows that no model can learn from, at every private level: a reply of the usual shape, and the same ledger."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from limbeck.checks import tasks_of
from limbeck.errors import LimbeckError
from limbeck.models.jobs import answers
from limbeck.models.named import CLASSIFIERS, NETWORKS, PRIOR_CORRECTED, TEXT_NETWORKS, TFIDF_LINEAR
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import L0, Privacy
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Kind
from private_levels import LEVELS, of_task, ordinary, run_parties, run_party, shape_of

SMALL: dict[str, dict[str, Any]] = {
    "random-forest": {"n_estimators": 2},
    "extra-trees": {"n_estimators": 2},
    "mlp": {"max_iter": 2, "early_stopping": True},
    "xgboost": {"n_estimators": 2},
    "lightgbm": {"n_estimators": 2},
    "torch-mlp": {"hidden": [4], "recipe": {"epochs": 2, "batch": 4}},
    "text-cnn": {"widths": [1, 2], "filters": 4, "buckets": 50, "recipe": {"epochs": 2, "batch": 4}},
    "bag-of-embeddings": {"buckets": 50, "recipe": {"epochs": 2, "batch": 4}},
    PRIOR_CORRECTED: {"model": {"name": "decision-tree"}, "prior": [0.0, 0.1, 0.9]},
}
TABLES = [*CLASSIFIERS, "torch-mlp", TFIDF_LINEAR, *TEXT_NETWORKS, PRIOR_CORRECTED]
OTHER_LABELS = {
    "multilabel": ("decision-tree", "logistic-regression", "torch-mlp"),
    "regression": ("decision-tree", "linear-regression", "torch-mlp"),
}
IMAGES = [*(name for name in NETWORKS if name != "torch-mlp"), "fedmd-mnist-0", "fedmd-cifar-9"]
CASES: dict[str, Callable[[Rows], Rows]] = {
    "two rows": lambda rows: Rows(rows.x[:2], rows.y[:2]),
    "one row": lambda rows: Rows(rows.x[:1], rows.y[:1]),
    "one class": lambda rows: Rows(rows.x, np.full(len(rows), 2)),
    "constant column": lambda rows: Rows(_with(rows.x, slice(None), 5.0), rows.y),
    "1e30": lambda rows: Rows(_with(rows.x, 0, 1e30), rows.y),
    "tiny": lambda rows: Rows((rows.x * 1e-20).astype(np.float32), rows.y),
    "NaN": lambda rows: Rows(_with(rows.x, 0, np.nan), rows.y),
}


SEVERAL: dict[str, Callable[[Rows], Rows]] = {
    **{name: CASES[name] for name in ("two rows", "one row", "constant column", "1e30", "NaN")},
    "a class without positives": lambda rows: Rows(rows.x, rows.y * np.array([0, 1, 1], np.int8)),
    "no positives": lambda rows: Rows(rows.x, np.zeros_like(rows.y)),
    "all positive": lambda rows: Rows(rows.x, np.ones_like(rows.y)),
    "a class that the party does not know": lambda rows: Rows(rows.x, np.where([True, False, False], -1, rows.y)),
    "one known row": lambda rows: Rows(rows.x, np.where(np.arange(len(rows))[:, None] == 4, rows.y, -1)),
    "no class that the party knows": lambda rows: Rows(rows.x, np.full_like(rows.y, -1)),
    "one row and no class": lambda rows: Rows(rows.x[:1], np.full_like(rows.y[:1], -1)),
}
NUMBERS: dict[str, Callable[[Rows], Rows]] = {
    **{name: CASES[name] for name in ("two rows", "one row", "constant column", "1e30", "NaN")},
    "the lowest target": lambda rows: Rows(rows.x, np.zeros_like(rows.y)),
    "a constant target": lambda rows: Rows(rows.x, np.full_like(rows.y, 0.75)),
    "targets outside of the range": lambda rows: Rows(rows.x, 1e6 * (rows.y - 0.5)),
    "NaN targets": lambda rows: Rows(rows.x, np.full_like(rows.y, np.nan)),
    "a NaN target": lambda rows: Rows(rows.x, np.where(np.arange(len(rows)) == 0, np.nan, rows.y).astype(np.float32)),
    "infinite targets": lambda rows: Rows(rows.x, np.full_like(rows.y, np.inf)),
}


def _with(x: Any, rows: Any, value: float) -> Any:
    changed = x.copy()
    changed[(rows, *[0] * (x.ndim - 1))] = value
    return changed


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", TABLES)
def test_rows_that_cannot_be_learned_from_do_not_show(monkeypatch: pytest.MonkeyPatch, model: str, level: str) -> None:
    _check(monkeypatch, {"name": model, **SMALL.get(model, {})}, LEVELS[level], ordinary(9), CASES)


def _other_labels() -> Iterator[Any]:
    for (task, models), (level, algorithm) in product(OTHER_LABELS.items(), LEVELS.items()):
        if task in tasks_of(algorithm):
            yield from ((model, level, task) for model in models)


@pytest.mark.parametrize(("model", "level", "task"), list(_other_labels()))
def test_nor_do_other_kinds_of_labels(monkeypatch: pytest.MonkeyPatch, model: str, level: str, task: Any) -> None:
    """Replies of a class that nobody knows, of constant targets and of targets that are no numbers."""
    cases = SEVERAL if task == "multilabel" else NUMBERS
    rows = of_task(ordinary(9), task)
    _check(monkeypatch, {"name": model, **SMALL.get(model, {})}, LEVELS[level], rows, cases, task=task)


def _images() -> Iterator[Any]:
    """Large networks take long to initialise: most of their cases are among the slow tests."""
    for model, level in product(IMAGES, ("fedkt-L2", "fedvote-L1", "fedkd-party", "fedmd-ldp", "fedmd-nfdp")):
        quick = model == "cnn" or level == "fedvote-L1"
        yield pytest.param(model, level, marks=[pytest.mark.slow] * (not quick))


@pytest.mark.parametrize(("model", "level"), list(_images()))
def test_nor_in_networks_for_images(monkeypatch: pytest.MonkeyPatch, model: str, level: str) -> None:
    small = {"name": model, "recipe": {"epochs": 1, "batch": 8}}
    cases = ("1e30",) if model in ("vgg-9", "resnet-8") else ("one row", "one class", "1e30")
    _check(monkeypatch, small, LEVELS[level], ordinary(9, (16, 16)), {name: CASES[name] for name in cases})


@pytest.mark.parametrize("model", ["decision-tree", "knn", "naive-bayes", "torch-mlp"])
def test_nor_where_parties_estimate_the_prior(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Of two classes, at an epsilon that is enough for the median of so few parties' estimates."""
    algorithm = replace(LEVELS["fedvote-L1"], privacy=Privacy("L1", epsilon=100.0))
    _check(monkeypatch, {"name": model, **SMALL.get(model, {})}, algorithm, ordinary(24), CASES, classes=2)
    plan = algorithm.plan(Facts(public=8, classes=2, parties=len(CASES) + 1))
    assert plan.median is not None
    [votes] = run_party(monkeypatch, algorithm, ordinary(24), {"name": "decision-tree"}, classes=2).replies[:1]
    assert getattr(votes, "counts").any(), "ordinary rows are enough for an estimate"  # noqa: B009


def _check(
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    algorithm: Any,
    rows: Rows,
    cases: Any,
    classes: int = 3,
    task: Kind = "multiclass",
) -> None:
    """In one run: a party with ordinary rows, and one for each case."""
    held = [rows, *(change(rows) for change in cases.values())]
    usual, *others = run_parties(monkeypatch, algorithm, held, model, classes=classes, task=task)
    for case, found in zip(cases, others, strict=True):
        assert [shape_of(reply) for reply in found.replies] == [shape_of(reply) for reply in usual.replies], case
        assert found.ledger == usual.ledger, case
        public = ordinary(8, rows.x.shape[1:], 2).x
        for reply in found.replies:
            assert all(answers(packed, public, classes, task=task) for packed in reply.models_within()), case


def test_without_privacy_the_same_rows_are_refused_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(LEVELS["fedkt-L2"], privacy=L0)
    with pytest.raises(LimbeckError, match="cannot fit knn"):
        run_party(monkeypatch, plain, ordinary(4), {"name": "knn"}, PoolTrainer(1))
