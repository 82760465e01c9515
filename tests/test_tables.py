from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedkt_prox import FedKTProx
from limbeck.algorithms.pate import Pate
from limbeck.algorithms.scaffold import Scaffold
from limbeck.consortium.agreement import read_parameters
from limbeck.consortium.party import Agreed, budget_in
from limbeck.errors import LimbeckError
from limbeck.experiments.config import algorithm_in, check_table, model_in
from limbeck.experiments.data_table import split_in
from limbeck.tables import from_table


@dataclass(frozen=True, slots=True)
class Inner:
    rate: float = 0.1


@dataclass(frozen=True, slots=True)
class Outer:
    count: int
    share: int | float = 1.0
    inner: Inner = field(default_factory=Inner)


def test_tables_within_tables() -> None:
    assert from_table(Outer, {"count": 3, "share": 2, "inner": {"rate": 1}}) == Outer(3, 2, Inner(1.0))
    assert from_table(Outer, {"count": 3}) == Outer(3)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, "count is missing"),
        ({"count": 3, "shar": 1}, "unknown key 'shar'; did you mean 'share'?"),
        ({"count": True}, "count = True: Input should be a valid integer"),
        ({"count": "3"}, "count = '3': Input should be a valid integer"),
        ({"count": 3, "inner": {"rat": 1}}, "inner: unknown key 'rat'; did you mean 'rate'?"),
        ({"count": 3, "inner": {"rate": "x"}}, "inner: rate = 'x': Input should be a valid number"),
        ({"count": 3, "inner": 7}, "inner = 7: Input should be"),
    ],
)
def test_the_wrong_key_is_named(table: dict[str, object], line: str) -> None:
    with pytest.raises(LimbeckError) as refusal:
        from_table(Outer, table)
    assert str(refusal.value).startswith(line)


def test_only_dataclasses() -> None:
    with pytest.raises(LimbeckError, match="is not a dataclass"):
        from_table(int, {})


def test_a_table_within_changes_what_its_key_is_by_default() -> None:
    found = from_table(Scaffold, {"local": {"epochs": 3}})
    assert found.local == replace(Scaffold().local, epochs=3)
    nested = from_table(FedKTProx, {"then": {"local": {"batch": 8}}})
    assert nested.then == replace(FedKTProx().then, local=replace(FedKTProx().then.local, batch=8))


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda: model_in({"name": "cnn", "recipe": {"optimiser": "sgd"}}), "recipe: optimiser is now optimizer"),
        (lambda: algorithm_in({"name": "fedmd", "settle": {"epochs": 1}}), "settle is now fine_tune"),
        (lambda: algorithm_in({"name": "fedmd", "digest": {"optimiser": "sgd"}}), "digest: optimiser is now optimizer"),
        (lambda: algorithm_in({"name": "fedkd", "noise": "none"}), "noise is now mechanism"),
        (lambda: algorithm_in({"name": "fedavg", "sampled": 0.5}), "sampled is now participation"),
        (lambda: algorithm_in({"name": "fedmd", "exchange": "softmax"}), "exchange is now score_format"),
        (lambda: algorithm_in({"name": "fedvote", "voting": {}}), "voting is now weights, labels, prior"),
        (
            lambda: algorithm_in({"name": "fedvote", "consensus": "count"}),
            'consensus = "count" is now consensus = "mean"',
        ),
        (lambda: budget_in({"epsilon": 1.0, "towards": "public"}), "towards is now observer"),
        (lambda: budget_in({"epsilon": 1.0, "unit": "row"}), 'unit = "row" is now unit = "example"'),
        (lambda: split_in({"kind": "dirichlet", "least": 5}), "least is now min_rows"),
        (lambda: split_in({"kind": "by-group", "group": "writer", "each": 1}), "each is now groups_per_party"),
        (lambda: read_parameters(FedKT, {"subsets": {"least": 2}}), "write a value, { min = .., max = .. }"),
        (lambda: read_parameters(FedKT, {"subsets": {"min": 2, "most": 3}}), "write a value, { min = .., max = .. }"),
        (lambda: check_table(Agreed, {"algorithm": "fedkt", "towards": "public"}, "f"), "towards is now observer"),
        (
            lambda: check_table(Agreed, {"algorithm": "fedkt", "unit": "row"}, "f"),
            'unit = "row" is now unit = "example"',
        ),
    ],
)
def test_a_former_name_is_answered_with_the_new_one(read: Callable[[], object], line: str) -> None:
    with pytest.raises(LimbeckError) as error:
        read()
    assert line in str(error.value)


FORMER = [
    ({"name": "fedkt", "voting": "paper"}, "leave voting out: fedkt is the paper's algorithm now"),
    ({"name": "fedkt", "voting": {"prior": "uniform"}}, 'voting is now weights, labels, prior of name = "fedvote"'),
    ({"name": "fedkt", "prior": "uniform", "queries": 5}, 'prior belongs to name = "fedvote" now'),
    ({"name": "fedkt-prox", "start": {"voting": "paper"}}, "start: leave voting out: fedkt is the paper's"),
    ({"name": "fedkt-prox", "start": {"consensus": "mean"}}, 'start: consensus belongs to name = "fedvote" now'),
    ({"name": "fedkt-avg", "start": {"cap": 3}}, "start: cap was removed; see CHANGELOG.md"),
    ({"name": "pate", "voting": "paper"}, "voting was removed; see CHANGELOG.md"),
    ({"name": "fedkd", "voting": {}}, "voting was removed; see CHANGELOG.md"),
    ({"name": "fedvote", "groups": 3}, "groups was removed; see CHANGELOG.md"),
    ({"name": "fedkt", "teachers": "prior-corrected"}, "teachers was removed; see CHANGELOG.md"),
    *(
        ({"name": name, key: 3}, f"{key} was removed; see CHANGELOG.md")
        for key in ("directions", "teachers", "ask", "cap", "votes", "unanswered", "groups")
        for name in ("fedkt", "fedvote")
    ),
]


@pytest.mark.parametrize(("table", "line"), FORMER)
def test_a_key_that_was_removed_is_answered_with_what_to_do(table: dict[str, object], line: str) -> None:
    with pytest.raises(LimbeckError) as error:
        algorithm_in(table)
    assert str(error.value).startswith(line)


def test_so_it_is_where_parties_agree_to_parameters() -> None:
    with pytest.raises(LimbeckError, match="start: leave voting out"):
        read_parameters(FedKTProx, {"start": {"voting": "paper"}})


def test_pate_still_has_teachers() -> None:
    assert algorithm_in({"name": "pate", "teachers": 3}) == Pate(teachers=3)
