"""Two neighbouring data sets, every algorithm at every private level: what a real run's files say is the same.

Mechanisms are replaced by functions of the shape alone, so that what is released is equal: whatever else differs went
past them.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import Students
from limbeck.checks import tasks_of
from limbeck.engines import validation
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.federation import Federation
from limbeck.experiments.record import OwnerRecord, PartyRecord, RunRecord, published
from limbeck.experiments.result import FinishedRun
from limbeck.models.pool import PoolTrainer
from limbeck.privacy import mechanisms
from limbeck.privacy.ledger import Budget, LedgerStore
from limbeck.protocol.rows import Rows
from limbeck.report.statement import statement
from limbeck.report.tables import party_table, run_table
from private_levels import LEVELS as SHARED_LEVELS
from private_levels import PROTECTED_FROM_SERVER, QUICK, federation, of_task, ordinary

pytestmark = pytest.mark.filterwarnings("ignore:algorithm.subsets", "ignore:the public rows suit")

LEVELS = {  # and those that weigh parties by exact class counts, which only the server may know
    **SHARED_LEVELS,
    "fedkd-server-counts": FedKD(distil=QUICK),
    "fedkd-party-counts": FedKD(distil=QUICK, mechanism="gaussian", epsilon=4.0, noised_by="party"),
}
UNPROTECTED_RESULT = ("fedkd-party-counts",)
TREE = {"name": "decision-tree"}
OWN = ordinary(9)
UNNOISED = ("fedmd-nfdp",)  # what is drawn is learned from as it is: neighbours differ in a row that is not drawn


def replaced_row(rows: Rows) -> Rows:
    """The last row is another one, of another class."""
    x, y = rows.x.copy(), rows.y.copy()
    x[-1], y[-1] = 40.0, 0
    return Rows(x, y)


def removed_row(rows: Rows) -> Rows:
    return Rows(rows.x[:-1], rows.y[:-1])


def replaced_party(rows: Rows) -> Rows:
    """Other rows, another number of them, of one class."""
    return Rows(ordinary(23, seed=7).x * 5, np.full(23, 2))


NEIGHBOURS: dict[str, Callable[[Rows], Rows]] = {
    "replaced row": replaced_row,
    "removed row": removed_row,
    "replaced party": replaced_party,
}
CASES = [
    (level, neighbour) for level in LEVELS for neighbour in NEIGHBOURS
    if level not in UNNOISED or neighbour != "replaced party"
]  # fmt: skip


def maxima(self: Any, votes: Any, source: Any) -> Any:
    return np.arange(len(votes)) % votes.shape[1]


def numbers(self: Any, values: Any, source: Any) -> Any:
    return (1.0 + np.arange(np.size(values)) % 4).reshape(np.shape(values))


def median(self: Any, values: Any, source: Any) -> Any:
    return np.array([0.5])


def first_rows(self: Any, rows: Any, source: Any) -> Any:
    return rows[: self.rows]


FIXED: dict[Callable[..., Any], tuple[type, ...]] = {
    maxima: (mechanisms.Laplace, mechanisms.Gumbel, mechanisms.Gaussian, mechanisms.ConfidentGaussian),
    numbers: (mechanisms.ClippedGaussian, mechanisms.LaplaceLogits, mechanisms.LaplaceCounts, mechanisms.GaussianSum),
    median: (mechanisms.NoisyMedian,),
    first_rows: (mechanisms.Subsample,),
}


@pytest.fixture(autouse=True)
def _released_values_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    for protect, kinds in FIXED.items():
        for kind in kinds:
            monkeypatch.setattr(kind, "protect", protect)


def real(level: str, private: Rows = OWN, task: Any = "multiclass", **more: Any) -> Federation:
    held = [private, of_task(ordinary(9, private.x.shape[1:], 1), task)]
    made = federation(LEVELS[level], held, TREE, task=task)
    return replace(made, noise="secure", test=of_task(ordinary(11, seed=5), task), **more)


def run(level: str, private: Rows = OWN, **more: Any) -> FinishedRun:
    return real(level, private, **more).run(PoolTrainer(1))


def passed_on(result: FinishedRun) -> dict[str, Any]:
    """All that the run shows to others: its files, its statement, and what is printed."""
    console = Console(width=100)
    with console.capture() as printed:
        console.print(party_table(result.record), run_table(result.record))
    files = {name: data for name, data in result.files().items() if name != "owner.json" and "models/" not in name}
    if result.record.metrics is None:  # the model is not post-processing: it is for the parties alone
        files.pop("model.onnx", None)
    shown = {"statement": statement(result.record, own_models=bool(result.models)), "tables": printed.get()}
    return {**files, **shown, "summary": result.record.summary("run"), "ledger": list(result.record.ledger)}


def test_every_mechanism_that_draws_is_fixed_here() -> None:
    fixed = {kind.name for kinds in FIXED.values() for kind in kinds}  # type: ignore[attr-defined]
    assert fixed == {kind.name for kind in mechanisms.MECHANISMS.values() if kind.noisy}


@pytest.mark.parametrize(("level", "neighbour"), CASES)
def test_neighbours_have_the_same_record_ledger_statement_and_sizes(level: str, neighbour: str) -> None:
    one, two = run(level), run(level, NEIGHBOURS[neighbour](OWN))
    assert passed_on(one) == passed_on(two)
    assert one.owner is not None
    assert two.owner is not None
    hidden = {way for way, size in one.record.bytes.items() if size is None}
    assert ("up" in hidden) == (level not in PROTECTED_FROM_SERVER)
    assert ("down" in hidden) == (level in UNPROTECTED_RESULT)
    ways = {"up", "down"} - hidden
    for way in ways:
        assert [e[way] for e in one.owner.exchanges] == [e[way] for e in two.owner.exchanges]


def _other_labels() -> Iterator[Any]:
    for level in ("fedridge-L1", "fedridge-L2", "fedvote-L1", "fedkd-server", "fedkd-party-equal", "fedmd-ldp"):
        for task in ("multilabel", "regression"):
            if task in tasks_of(LEVELS[level]):
                yield from ((level, neighbour, task) for neighbour in NEIGHBOURS)


@pytest.mark.parametrize(("level", "neighbour", "task"), list(_other_labels()))
def test_so_have_neighbours_with_other_kinds_of_labels(level: str, neighbour: str, task: Any) -> None:
    other = of_task(NEIGHBOURS[neighbour](OWN), task)
    if neighbour == "replaced party":  # it knows no class, or has one target
        other = Rows(other.x, np.full_like(other.y, -1 if task == "multilabel" else 0.5))
    one, two = run(level, of_task(OWN, task), task=task), run(level, other, task=task)
    assert passed_on(one) == passed_on(two)
    assert one.metrics is not None
    assert one.record.metrics is None or level.startswith(("fedridge", "fedvote", "fedkd"))


@pytest.mark.parametrize(
    ("level", "field"),
    [
        *(("fedkt-L1", field) for field in ("parties", "bytes", "exchanges", "constant", "timing", "data")),
        *(("fedmd-ldp", field) for field in ("parties", "metrics", "curve", "timing", "data")),
    ],
)
def test_each_withheld_field_would_distinguish_neighbours(level: str, field: str) -> None:
    """Were it in the record, the test above would fail."""
    withheld = []
    for private in (OWN, replaced_party(OWN)):
        result = run(level, private)
        assert result.owner is not None
        record, owner = json.loads(result.record.to_json()), json.loads(result.owner.to_json())
        value = {**record["data"], "private": owner["private"]} if field == "data" else owner[field]
        assert value != record[field]
        withheld.append(value)
    assert withheld[0] != withheld[1]


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_real_record_withholds(level: str) -> None:
    result = run(level)
    record = json.loads(result.files()["record.json"])
    assert record["real"]
    assert record["data"]["private"] is None
    assert all((p["rows"], p["classes"], p["metrics"]) == (None, [], None) for p in record["parties"])
    assert (record["constant"], record["curve"]) == (None, [])
    assert set(record["timing"]) == {"engine", "run", "date"}
    rows = [row for row in record["ledger"] if row["mechanism"] == "unprotected"]
    count = len(record["exchanges"])
    first = min((row["turn"] for row in rows if row["site"] != "server"), default=count)
    may_leave = {  # parties write rows before they train: what they name may leave in any later turn
        "up": set(range(first, count)),
        "down": {row["turn"] for row in rows if row["site"] == "server"},
    }
    for way, turns in may_leave.items():
        assert {turn for turn, exchange in enumerate(record["exchanges"]) if exchange[way] is None} == turns
        totals = [record["bytes"], *(party["bytes"] for party in record["parties"])]
        assert all((sizes[way] is None) == bool(turns) for sizes in totals)
    assert (record["metrics"] is None) == (bool(result.models) or level in UNPROTECTED_RESULT)
    assert result.accuracy is not None


def test_the_owner_is_reported_the_rest() -> None:
    owner = json.loads(run("fedkt-L1").files()["owner.json"])
    assert owner["private"] == 18
    assert [party["rows"] for party in owner["parties"]] == [9, 9]
    assert [party["classes"] for party in owner["parties"]] == [[3, 3, 3]] * 2
    assert owner["bytes"]["up"] == sum(sum(exchange["up"].values()) for exchange in owner["exchanges"])
    assert owner["timing"]["seconds"] > 0
    assert owner["constant"] is not None


def test_a_simulation_withholds_nothing() -> None:
    result = replace(real("fedkt-L1"), noise="simulated").run(PoolTrainer(1))
    assert (result.owner, "owner.json" in result.files(), result.record.real) == (None, False, False)
    assert result.record.parties[0].rows == 9
    assert result.record.timing["seconds"] > 0
    assert "withholds nothing" in statement(result.record)


def test_a_model_that_is_handed_out_unprotected_withholds_how_good_and_how_large_it_is() -> None:
    """Noisy class counts weigh scores that have no noise: the run protects something, but not its result."""
    algorithm = replace(LEVELS["fedkd-party"], mechanism="none", epsilon=None, noised_by="server")
    result = replace(real("fedkd-party"), algorithm=algorithm).run(PoolTrainer(1))
    record = result.record
    assert record.metrics is None
    assert record.bytes == {"up": None, "down": None}
    assert [exchange["down"] is None for exchange in record.exchanges] == [False, True]
    assert result.accuracy is not None


def test_sizes_are_withheld_from_the_turn_on_in_which_something_may_have_left_unprotected() -> None:
    whole = replace(real("fedmd-ldp"), noise="simulated").run(PoolTrainer(1)).record
    row = {**whole.ledger[0], "mechanism": "unprotected", "turn": 1}
    record = published(replace(whole, ledger=[*whole.ledger, row]))
    assert [exchange["up"] is None for exchange in record.exchanges] == [False, True, True, True, True]
    assert record.bytes == {"up": None, "down": whole.bytes["down"]}


def test_parties_are_known_by_their_names() -> None:
    result = run("fedkt-L2", names=["north", "south"])
    assert {row["site"] for row in result.record.ledger} == {"north", "south", "server"}
    assert [party.name for party in result.record.parties] == ["north", "south"]
    for wrong, line in (
        (["north"], "1 names for 2 parties"),
        (["north", "north"], "two parties have the name 'north'"),
        (["north", "server"], "'server' cannot be the name of a party"),
    ):
        with pytest.raises(LimbeckError, match=line):
            real("fedkt-L2", names=wrong)


def test_a_plan_counts_what_a_party_of_the_same_name_has_spent_before() -> None:
    epsilon = run("fedkt-L2").record.epsilon["public"]
    ledger_store = LedgerStore(None, "one", Budget(1.1 * epsilon))
    real("fedkt-L2", names=["north", "south"], ledger_store=ledger_store).run(PoolTrainer(1))
    ledger_store.run = "another"
    real("fedkt-L2", names=["east", "west"], ledger_store=ledger_store).check_plan()
    with pytest.raises(LimbeckError, match="this run would bring epsilon"):
        real("fedkt-L2", names=["south", "east"], ledger_store=ledger_store).check_plan()


def test_too_few_rows_are_reported_to_their_owner_alone() -> None:
    few = Rows(OWN.x[:1], OWN.y[:1])
    with pytest.warns(LimbeckWarning, match="party 0 has 1 rows, fewer than 2 subsets"):
        result = run("fedkt-L2", few)
    assert result.record.to_json() == run("fedkt-L2").record.to_json()


def test_the_list_in_the_docs_names_every_field() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    text = docs.split("## What a record says")[1].split("\n## ")[0]
    shared, owner = text.split("### `owner.json`")
    for kinds, part in (((RunRecord, PartyRecord), shared), ((OwnerRecord,), owner)):
        first = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
        named = {part for cached in first for name in re.findall(r"`([\w.]+)`", cached) for part in name.split(".")}
        assert {field.name for kind in kinds for field in fields(kind)} <= named


def test_what_was_wrong_with_replies_is_reported_of_simulations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason may depend on the rows of the party whose reply it is about."""
    check = validation.check_reply

    def rejecting(reply: Any, *more: Any) -> None:
        if type(reply) is Students and next(first, None) is not None:
            raise LimbeckError("labels such as only this party has")
        check(reply, *more)

    monkeypatch.setattr("limbeck.engines.engine.check_reply", rejecting)
    line = "request 0: party 0: labels such as only this party has"
    first = iter([0])
    result = run("fedkt-L1")
    assert result.owner is not None
    assert (result.record.missing, result.record.remarks, list(result.owner.remarks)) == ((0,), (), [line])
    first = iter([0])
    simulated = replace(real("fedkt-L1"), noise="simulated").run(PoolTrainer(1)).record
    assert (simulated.missing, simulated.remarks) == ((0,), (line,))
