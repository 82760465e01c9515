"""The one suite that every algorithm passes."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from limbeck import checks
from limbeck.algorithms import algorithm_named, algorithms
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.checks import check_algorithm, small_federation
from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.tables import from_table

SETTINGS: dict[str, dict[str, Any]] = {
    **{
        name: {"rounds": 2}
        for name in algorithms()
        if "rounds" in {field.name for field in fields(cast(Any, algorithms()[name]))}
    },
    "fedgen": {"rounds": 2, "drawn": 64},
    "fedkt-avg": {"start": {"partitions": 1, "subsets": 2}, "then": {"rounds": 1}},
    "fedkt-prox": {"start": {"partitions": 1, "subsets": 2}, "then": {"rounds": 1, "mu": 0.5}},
}


ALIKE = {
    "feddf",
    "fedgen",
    "scaffold",
    "fedmd-np",
    "fedmd-ldp",
    "fedkt-avg",
    "fedavgm",
    "fedprox",
}  # of one loop with another that is always checked
ALIKE_FOR_ANY_LABELS = {"fedavg", "fedmd-nfdp", "pooled", "public-only"}  # with other labels only the network differs


def _every_task() -> Iterator[Any]:
    for name, algorithm in algorithms().items():
        for task in cast(Any, algorithm).tasks:
            slow = name in ALIKE or (task != "multiclass" and name in ALIKE_FOR_ANY_LABELS)
            yield pytest.param(name, task, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize(("name", "task"), list(_every_task()))
def test_every_algorithm_behaves_with_every_kind_of_labels(name: str, task: Any, tmp_path: Path) -> None:
    settings = SETTINGS.get(name, {})
    if name == "evaluation":
        (tmp_path / "model.onnx").write_bytes(Constant(label=1, classes=3, features=4).pack())
        settings = {"model": str(tmp_path / "model.onnx")}
    settings = settings if task == "multiclass" or "rounds" not in settings else {**settings, "rounds": 1}
    algorithm = from_table(algorithm_named(name), settings)
    check_algorithm(algorithm, federation=small_federation(algorithm, task=task))


def test_the_suite_checks_each_kind_of_labels_that_an_algorithm_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(checks, "_check", lambda algorithm, federation: checked.append(federation.task.kind))
    check_algorithm(FedRidge())
    check_algorithm(FedVote())
    check_algorithm(FedMD(score_format="argmax"))
    assert checked == ["multiclass", "multilabel", "regression", "multiclass", "multilabel", "multiclass"]


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(LimbeckError, match="unknown algorithm 'fedkt1'; did you mean 'fedkt'"):
        algorithm_named("fedkt1")


def test_a_users_own_algorithm_goes_by_its_python_name() -> None:
    from misbehaving import Moody

    assert algorithm_named("python:misbehaving:Moody") is Moody
