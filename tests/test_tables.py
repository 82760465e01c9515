from dataclasses import dataclass, field, replace

import pytest

from limbeck.algorithms.fedkt_prox import FedKTProx
from limbeck.algorithms.scaffold import Scaffold
from limbeck.errors import LimbeckError
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
