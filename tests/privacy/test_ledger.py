"""The ledger on disk: written first, never changed, replayed, and held to its budget."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedmd_private import FedMDNFDP
from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import delta_of_subsets, guarantees
from limbeck.privacy.ledger import Budget, LedgerStore, check_site_names, over_runs, read_contents, read_ledger
from limbeck.privacy.mechanisms import Laplace, Unprotected
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.release import Asked, Release, release_row


def row(number: int = 0, queries: int = 40, site: str = "server", gamma: float = 0.05) -> Release:
    return release_row(site, 1, number, "labels", Laplace(gamma), "public", Asked(queries, 3))


def draws() -> np.ndarray:
    return np.random.default_rng().integers(3, size=40)


def test_what_was_drawn_comes_back_and_is_not_drawn_again(tmp_path: Path) -> None:
    first = LedgerStore(tmp_path / "l.sqlite", "run").of("server").draw(row(), draws)
    again = LedgerStore(tmp_path / "l.sqlite", "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    assert np.array_equal(first, again)
    assert [r for _, _, r in read_ledger(tmp_path / "l.sqlite")] == [row()]


def test_another_run_another_release_another_draw(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run")
    first = ledger_store.of("server").draw(row(), draws)
    assert not np.array_equal(first, ledger_store.of("server").draw(row(1), draws))
    other = LedgerStore(tmp_path / "l.sqlite", "other")
    assert not np.array_equal(first, other.of("server").draw(row(), draws))
    assert len(other.releases()) == 3
    assert len(other.of("server").rows) == 1


def test_a_run_that_reports_itmething_else_at_the_same_place_is_refused(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run")
    ledger_store.of("server").draw(row(), draws)
    with pytest.raises(LimbeckError, match="server has released something else in this run before"):
        ledger_store.of("server").draw(row(gamma=0.5), draws)


def test_a_ledger_is_never_changed(tmp_path: Path) -> None:
    LedgerStore(tmp_path / "l.sqlite", "run").of("server").write(row())
    connection = sqlite3.connect(tmp_path / "l.sqlite")
    copy = "REPLACE INTO entries SELECT id, at, kind, run, site, turn, number, '{}', drawn, digest FROM entries"
    others = [f"DELETE FROM {table}" for table in ("origin", "runs", "ended")]
    ledger_store = LedgerStore(tmp_path / "l.sqlite")
    ledger_store.begin({"seed": 0})
    ledger_store.end()
    for statement in (
        "DELETE FROM entries",
        "UPDATE entries SET turn = 9",
        copy,
        "UPDATE runs SET about = ''",
        *others,
    ):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            connection.execute(statement)


def test_a_release_is_announced_before_training_and_drawn_once_afterwards(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run", Budget(2.0))
    assert not ledger_store.of("server").write(row())
    assert ledger_store.of("server").write(row())
    assert ledger_store.record(row(), None) == (True, None)
    stood, drawn = ledger_store.record(row(), draws)
    assert stood
    assert drawn is not None
    assert np.array_equal(drawn, ledger_store.of("server").draw(row(), lambda: pytest.fail("drawn again")))
    assert ledger_store.releases() == [row()], "what is announced and then drawn is one release"
    with sqlite3.connect(tmp_path / "l.sqlite") as connection:
        kinds = connection.execute("SELECT kind, drawn IS NULL FROM entries ORDER BY id").fetchall()
    assert kinds == [("budget", 1), ("release", 1), ("drawn", 0)]


def test_an_announced_release_is_spent_also_when_nothing_follows(tmp_path: Path) -> None:
    LedgerStore(tmp_path / "l.sqlite", "first", Budget(2.0)).of("server").write(row())
    with pytest.raises(LimbeckError, match=r"but 0\.2859 of 2 is left"):
        LedgerStore(tmp_path / "l.sqlite", "second").of("server").write(row())


def test_a_release_that_would_pass_the_budget_is_refused_and_not_drawn(tmp_path: Path) -> None:
    """40 Laplace queries at gamma 0.05 cost 1.7141."""
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run", Budget(2.0))
    ledger_store.of("server").draw(row(), draws)
    with pytest.raises(
        LimbeckError, match=r"server: labels would bring epsilon towards public to 2\.5\d*, but 0\.2859 of 2 is left"
    ):
        ledger_store.of("server").draw(row(1), lambda: pytest.fail("drawn"))
    assert len(ledger_store.releases()) == 1
    ledger_store.of("server").draw(row(1, queries=2), lambda: draws()[:2])


def test_a_budget_counts_earlier_runs_but_not_the_same_run_twice(tmp_path: Path) -> None:
    first = LedgerStore(tmp_path / "l.sqlite", "first", Budget(2.0))
    first.check_plan([row()])
    first.of("server").draw(row(), draws)
    first.check_plan([row()])
    with pytest.raises(
        LimbeckError, match=r"this run would bring epsilon towards public to .*, but 0\.2859 of 2 is left"
    ):
        LedgerStore(tmp_path / "l.sqlite", "second", Budget(2.0)).check_plan([row()])


def test_a_budget_is_for_one_observer(tmp_path: Path) -> None:
    unprotected = release_row("party 0", 0, 0, "Students", Unprotected(), "server", Asked())
    LedgerStore(budget=Budget(1.0, observer="public")).check_plan([unprotected])
    with pytest.raises(LimbeckError, match="towards server to inf"):
        LedgerStore(budget=Budget(1.0, observer="server")).check_plan([unprotected])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.0}, "budget.epsilon = 0.0: Input should be greater than 0"),
        ({"epsilon": float("inf")}, "budget.epsilon = inf: Input should be a finite number"),
        ({"delta": 0.0}, "budget.delta = 0.0: Input should be greater than 0"),
        ({"observer": "nobody"}, "budget.observer = 'nobody': Input should be 'server', 'parties' or 'public'"),
        ({"unit": "person"}, "budget.unit = 'person': Input should be 'example', 'party' or 'both'"),
        ({"rows_per_person": 0}, "budget.rows_per_person = 0: Input should be greater than or equal to 1"),
    ],
)
def test_wrong_budgets_are_reported(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        Budget(**{"epsilon": 1.0, **wrong})


def test_a_budget_is_for_a_row_a_party_or_both(tmp_path: Path) -> None:
    """One party's rows are protected by its labels' noise, the party itself is not."""
    rows = [replace(row(site="a"), unit="example", parameters={**row().parameters, "unit": "example"})]
    LedgerStore(budget=Budget(2.0)).check_plan(rows)
    for unit in ("party", "both"):
        with pytest.raises(LimbeckError, match=r"\(unit: a party.*\) to inf, but 2 of 2 is left"):
            LedgerStore(budget=Budget(2.0, unit=unit)).check_plan(rows)
    assert Budget(2.0, unit="party").spent([row()]) == Budget(2.0, unit="both").spent([row()])


def test_a_budget_for_people_with_several_rows_is_spent_faster() -> None:
    rows = [replace(row(site="a"), unit="example", parameters={**row().parameters, "unit": "example"})]
    one, five = Budget(2.0).spent(rows), Budget(2.0, rows_per_person=5).spent(rows)
    assert five > 3 * one
    with pytest.raises(LimbeckError, match=r"\(unit: a person with 5 rows\) to"):
        LedgerStore(budget=Budget(2.0, rows_per_person=5)).check_plan(rows)


def test_a_budget_stays_in_force_whatever_later_runs_bring(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    LedgerStore(path, "first", Budget(2.0)).of("server").draw(row(), draws)
    for later in (None, Budget(9.0, delta=1e-3), Budget(9.0, observer="server")):
        ledger_store = LedgerStore(path, "second", later)
        assert Budget(2.0) in ledger_store.budgets
        with pytest.raises(LimbeckError, match=r"this run would bring .* but 0\.2859 of 2 is left"):
            ledger_store.check_plan([row()])
        with pytest.raises(LimbeckError, match=r"server: labels would bring .* but 0\.2859 of 2 is left"):
            ledger_store.of("server").draw(row(), lambda: pytest.fail("drawn"))


def test_a_budget_may_be_lowered_and_never_raised(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    LedgerStore(path, "a", Budget(2.0)).of("server").draw(row(), draws)
    LedgerStore(path, "b", Budget(1.9)).of("server").draw(row(queries=1), lambda: draws()[:1])
    LedgerStore(path, "c", Budget(1.9))
    for larger in (2.0, 3.0):
        with pytest.raises(
            LimbeckError, match=rf"budget.epsilon = {larger:g} is more than .*l.sqlite keeps .*at most 1.9"
        ):
            LedgerStore(path, "d", Budget(larger))
    assert LedgerStore(path).budgets == [Budget(1.9)]
    assert read_contents(path)[0].budgets == [Budget(2.0), Budget(1.9)]


def test_a_budget_that_allowed_nothing_is_not_stored(tmp_path: Path) -> None:
    """A run that is refused for its budget leaves no trace: its owner may think again."""
    path = tmp_path / "l.sqlite"
    with pytest.raises(LimbeckError, match=r"but 0\.5 of 0\.5 is left"):
        LedgerStore(path, "a", Budget(0.5)).of("server").write(row())
    LedgerStore(path, "a", Budget(3.0)).of("server").write(row())


def test_what_is_not_a_ledger_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_text("no")
    with pytest.raises(LimbeckError, match="cannot be used as a ledger"):
        LedgerStore(tmp_path / "no.sqlite")
    for name in ("no.sqlite", "missing.sqlite"):
        with pytest.raises(LimbeckError, match="is not a ledger"):
            read_ledger(tmp_path / name)


def test_a_kill_between_the_write_and_the_send_counts_as_spent_and_sends_the_same(tmp_path: Path) -> None:
    """The child dies the moment that its release is written, before anyone saw it."""
    child = (
        "import os, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from test_ledger import LedgerStore, draws, row\n"
        "drawn = LedgerStore(Path(sys.argv[1]), 'run').of('server').draw(row(), draws)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "l.sqlite"
    done = subprocess.run([sys.executable, "-c", child, str(path), str(Path(__file__).parent)])
    assert done.returncode == -signal.SIGKILL
    assert [r for _, _, r in read_ledger(path)] == [row()]
    first = LedgerStore(path, "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    again = LedgerStore(path, "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    assert np.array_equal(first, again)


def test_two_programs_cannot_both_take_the_last_of_a_budget(tmp_path: Path) -> None:
    """While one draws between its look at the budget and its commit, the other waits, and is then refused."""
    path, budget = tmp_path / "l.sqlite", Budget(2.0)
    one, two = LedgerStore(path, "one", budget), LedgerStore(path, "two", budget)
    refused: list[Exception] = []

    def other() -> None:
        try:
            two.of("server").draw(row(), draws)
        except LimbeckError as error:
            refused.append(error)

    rival = threading.Thread(target=other)

    def slowly() -> np.ndarray:
        rival.start()
        time.sleep(0.5)
        return draws()

    one.of("server").draw(row(), slowly)
    rival.join()
    assert len(refused) == 1
    assert len(one.releases()) == 1


def begun(path: Path | None, **about: Any) -> LedgerStore:
    ledger_store = LedgerStore(path)
    ledger_store.begin({"seed": 0, **about})
    return ledger_store


def test_a_run_is_known_by_a_random_identifier(tmp_path: Path) -> None:
    one, two = (begun(tmp_path / name).run for name in ("a.sqlite", "b.sqlite"))
    assert one != two
    assert len(one) == 32
    assert begun(None).run not in (one, two)


def test_an_interrupted_run_is_resumed_and_one_that_ended_is_not(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    first = begun(path)
    again = LedgerStore(path)
    assert not again.begin({"seed": 0}), "nothing was released yet: there is nothing to resume"
    assert again.run == first.run
    first.of("server").draw(row(), draws)
    resumed = LedgerStore(path)
    assert resumed.begin({"seed": 0})
    assert resumed.run == first.run
    assert begun(path, public="other rows").run != first.run
    resumed.end()
    resumed.end()
    new = LedgerStore(path)
    assert not new.begin({"seed": 0})
    assert new.run != first.run
    new.of("server").draw(row(), draws)
    assert len(new.releases()) == 2


def test_the_secret_is_the_same_whenever_the_ledger_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    secret = LedgerStore(path).secret
    assert len(secret) == 32
    assert LedgerStore(path).secret == secret
    assert LedgerStore(tmp_path / "other.sqlite").secret != secret
    memory = LedgerStore()
    assert memory.secret == memory.secret != LedgerStore().secret
    (tmp_path / "l.sqlite.secret").write_bytes(b"short")
    with pytest.raises(LimbeckError, match=r"l\.sqlite\.secret holds 5 bytes, not the 32"):
        _ = LedgerStore(path).secret


def test_only_the_owner_may_read_a_ledger_and_what_belongs_to_it(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        ledger_store = LedgerStore(tmp_path / "l.sqlite", "run", Budget(2.0))
        _ = ledger_store.secret
        modes: set[int] = set()

        def look() -> np.ndarray:
            ledger_store._store.execute("CREATE TABLE scratch (x)")  # so that there is a journal to look at
            modes.update(file.stat().st_mode & 0o777 for file in tmp_path.iterdir())
            assert (tmp_path / "l.sqlite-journal").exists()
            return draws()

        ledger_store.of("server").draw(row(), look)
    finally:
        os.umask(umask)
    assert modes == {0o600}
    assert {file.name for file in tmp_path.iterdir()} == {"l.sqlite", "l.sqlite.head", "l.sqlite.secret"}
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_a_full_disk_is_reported_in_one_line_and_nothing_is_half_written(tmp_path: Path) -> None:
    """SQLite says that the disk is full when a file may have no more pages, and ends the transaction by itself."""
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run")
    ledger_store.of("server").draw(row(), draws)
    [(pages,)] = ledger_store._store.execute("PRAGMA page_count")
    ledger_store._store.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for number in range(1, 100):
            ledger_store.of("server").draw(row(number), draws)

    with pytest.raises(LimbeckError) as refused:
        fill()
    assert str(refused.value) == f"{tmp_path / 'l.sqlite'} cannot be written to: database or disk is full"
    recorded = ledger_store.releases()
    number = len(recorded)
    assert recorded == [r for _, _, r in read_ledger(tmp_path / "l.sqlite")] == [row(n) for n in range(number)]
    ledger_store._store.execute("PRAGMA max_page_count = 100000")
    ledger_store.of("server").draw(row(number), draws)
    assert len(LedgerStore(tmp_path / "l.sqlite").releases()) == number + 1


def test_a_head_that_cannot_be_written_is_reported_and_the_release_counts_as_spent(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run")
    (tmp_path / "l.sqlite.head").unlink()
    (tmp_path / "l.sqlite.head").mkdir()
    with pytest.raises(LimbeckError, match=r"l\.sqlite\.head cannot be written: Is a directory"):
        ledger_store.of("server").draw(row(), draws)
    assert ledger_store.releases() == [row()]


def test_an_interruption_while_drawing_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run")

    def breaks() -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger_store.of("server").draw(row(), breaks)
    assert ledger_store.releases() == []
    ledger_store.of("server").draw(row(), draws)
    assert ledger_store.releases() == [row()]


SIZES = {"small": 395, "large": 60_000}  # a small party's rows are drawn often, a large one's hardly ever
SAMPLED = FedMDNFDP(sampled=60)


def sampled(order: list[str], named: bool) -> list[Release]:
    rows = planned_releases(SAMPLED.disclosures, Facts(100, 3, len(order)), [SIZES[name] for name in order])
    return [replace(r, site=name) for r, name in zip(rows, order, strict=True)] if named else rows


@pytest.mark.parametrize("named", [True, False])
def test_parties_in_another_order_never_make_the_sum_smaller(tmp_path: Path, named: bool) -> None:
    """Small's rows were drawn twice. By the parties' numbers it looked like once, and once of the large one's."""
    path = tmp_path / "l.sqlite"
    orders = (["small", "large"], ["large", "small"])
    for run, order in enumerate(orders):
        ledger_store = LedgerStore(path, f"run {run}")
        for release in sampled(order, named):
            ledger_store.of(release.site).write(release)
    contents, _ = read_contents(path)
    truth = sum(
        delta_of_subsets(sampled(order, True)[index : index + 1]) for order, index in zip(orders, (0, 1), strict=True)
    )
    by_number = delta_of_subsets([r for _, r in over_runs_by_number(orders)])
    composed = delta_of_subsets(over_runs(contents.releases))
    assert (round(by_number, 3), round(truth, 3)) == (0.142, 0.282)
    assert composed == pytest.approx(truth) if named else truth < composed < 1.02 * truth


def over_runs_by_number(orders: tuple[list[str], list[str]]) -> list[tuple[str, Release]]:
    return [(str(run), r) for run, order in enumerate(orders) for r in sampled(order, False)]


def test_one_run_is_composed_as_it_is() -> None:
    rows = [row(site="party 0"), row(site="party 1"), row()]
    assert over_runs([("a", each) for each in rows]) == rows


def test_parties_without_a_name_count_once_for_a_run_and_for_everybody() -> None:
    """A run in progress: party 0 is a round ahead of the others, and party 2 has released something else."""
    run = [row(0, site="party 0"), row(0, site="party 1"), row(1, site="party 0"), row(0, 9, site="party 2")]
    rows = [("a", each) for each in run] + [("b", row(site="clinic"))]
    found = over_runs(rows)
    assert found == [row(0), row(1), row(0, 9), row(site="clinic")]
    [total] = {
        f.epsilon
        for f in guarantees(found, 1e-5)
        if (f.observer, f.unit, f.adjacency) == ("public", "party", "replace")
    }
    assert total == pytest.approx(Budget(9.0, unit="party").spent([row(n, q) for n, q in enumerate((40, 40, 9, 40))]))


def test_a_budget_over_several_runs_holds_for_parties_without_a_name(tmp_path: Path) -> None:
    """Party 0 of one run may be party 1 of the next: with names it is known that nobody spent twice."""
    for names, fits in ((("a", "b"), True), (("party 0", "party 1"), False)):
        path = tmp_path / f"{fits}.sqlite"
        LedgerStore(path, "first", Budget(2.0)).of(names[0]).write(row(site=names[0]))
        second = LedgerStore(path, "second")
        if fits:
            second.check_plan([row(site=names[1])])
            second.of(names[1]).write(row(site=names[1]))
        else:
            with pytest.raises(LimbeckError, match="this run would bring"):
                second.check_plan([row(site=names[1])])
            with pytest.raises(LimbeckError, match="party 1: labels would bring"):
                second.of(names[1]).write(row(site=names[1]))


@pytest.mark.parametrize("wrong", [["server"], ["party 0"], [" "], ["a", "a"]])
def test_names_that_a_ledger_could_not_distinguish_are_refused(wrong: list[str]) -> None:
    with pytest.raises(LimbeckError, match=r"cannot be the name of a party|two parties have the name 'a'"):
        check_site_names(wrong)
    check_site_names(["a", "party of three", "the server"])
