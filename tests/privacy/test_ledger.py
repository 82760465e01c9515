"""The ledger on disk: written first, never changed, replayed, and held to its budget."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import Book, Budget, read_ledger
from limbeck.privacy.mechanisms import Laplace, Unprotected
from limbeck.protocol.release import Asked, Release, release_row


def row(number: int = 0, queries: int = 40, site: str = "server", gamma: float = 0.05) -> Release:
    return release_row(site, 1, number, "labels", Laplace(gamma), "public", Asked(queries, 3))


def draws() -> np.ndarray:
    return np.random.default_rng().integers(3, size=40)


def test_what_was_drawn_comes_back_and_is_not_drawn_again(tmp_path: Path) -> None:
    first = Book(tmp_path / "l.sqlite", "run").of("server").draw(row(), draws)
    again = Book(tmp_path / "l.sqlite", "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    assert np.array_equal(first, again)
    assert [r for _, _, r in read_ledger(tmp_path / "l.sqlite")] == [row()]


def test_another_run_another_release_another_draw(tmp_path: Path) -> None:
    book = Book(tmp_path / "l.sqlite", "run")
    first = book.of("server").draw(row(), draws)
    assert not np.array_equal(first, book.of("server").draw(row(1), draws))
    other = Book(tmp_path / "l.sqlite", "other")
    assert not np.array_equal(first, other.of("server").draw(row(), draws))
    assert len(other.releases()) == 3
    assert len(other.of("server").rows) == 1


def test_a_run_that_says_something_else_at_the_same_place_is_refused(tmp_path: Path) -> None:
    book = Book(tmp_path / "l.sqlite", "run")
    book.of("server").draw(row(), draws)
    with pytest.raises(LimbeckError, match="server has released something else in this run before"):
        book.of("server").draw(row(gamma=0.5), draws)


def test_a_ledger_is_never_changed(tmp_path: Path) -> None:
    Book(tmp_path / "l.sqlite", "run").of("server").write(row())
    connection = sqlite3.connect(tmp_path / "l.sqlite")
    copy = "REPLACE INTO releases SELECT id, at, run, site, turn, number, '{}', drawn FROM releases"
    for statement in ("DELETE FROM releases", "UPDATE releases SET turn = 9", copy):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            connection.execute(statement)


def test_a_release_that_would_pass_the_budget_is_refused_and_not_drawn(tmp_path: Path) -> None:
    """40 Laplace queries at gamma 0.05 cost 1.7141."""
    book = Book(tmp_path / "l.sqlite", "run", Budget(2.0))
    book.of("server").draw(row(), draws)
    with pytest.raises(
        LimbeckError, match=r"server: labels would bring epsilon towards public to 2\.5\d*, but 0\.2859 of 2 is left"
    ):
        book.of("server").draw(row(1), lambda: pytest.fail("drawn"))
    assert len(book.releases()) == 1
    book.of("server").draw(row(1, queries=2), lambda: draws()[:2])


def test_a_budget_counts_earlier_runs_but_not_the_same_run_twice(tmp_path: Path) -> None:
    first = Book(tmp_path / "l.sqlite", "first", Budget(2.0))
    first.check_plan([row()])
    first.of("server").draw(row(), draws)
    first.check_plan([row()])
    with pytest.raises(
        LimbeckError, match=r"this run would bring epsilon towards public to .*, but 0\.2859 of 2 is left"
    ):
        Book(tmp_path / "l.sqlite", "second", Budget(2.0)).check_plan([row()])


def test_a_budget_is_towards_one_observer(tmp_path: Path) -> None:
    bare = release_row("party 0", 0, 0, "Students", Unprotected(), "server", Asked())
    Book(budget=Budget(1.0, towards="public")).check_plan([bare])
    with pytest.raises(LimbeckError, match="towards server to inf"):
        Book(budget=Budget(1.0, towards="server")).check_plan([bare])


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"epsilon": 1.0, "delta": 0.0}])
def test_wrong_budgets_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(LimbeckError, match="budget"):
        Budget(**wrong)  # type: ignore[arg-type]


def test_what_is_not_a_ledger_is_told(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_text("no")
    with pytest.raises(LimbeckError, match="cannot be used as a ledger"):
        Book(tmp_path / "no.sqlite")
    for name in ("no.sqlite", "missing.sqlite"):
        with pytest.raises(LimbeckError, match="is not a ledger"):
            read_ledger(tmp_path / name)


def test_a_kill_between_the_write_and_the_send_counts_as_spent_and_sends_the_same(tmp_path: Path) -> None:
    """The child dies the moment that its release is written, before anyone saw it."""
    child = (
        "import os, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from test_ledger import Book, draws, row\n"
        "drawn = Book(Path(sys.argv[1]), 'run').of('server').draw(row(), draws)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "l.sqlite"
    done = subprocess.run([sys.executable, "-c", child, str(path), str(Path(__file__).parent)])
    assert done.returncode == -signal.SIGKILL
    assert [r for _, _, r in read_ledger(path)] == [row()]
    first = Book(path, "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    again = Book(path, "run").of("server").draw(row(), lambda: pytest.fail("drawn again"))
    assert np.array_equal(first, again)


def test_two_programs_cannot_both_take_the_last_of_a_budget(tmp_path: Path) -> None:
    """While one draws between its look at the budget and its commit, the other waits, and is then refused."""
    path, budget = tmp_path / "l.sqlite", Budget(2.0)
    one, two = Book(path, "one", budget), Book(path, "two", budget)
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
