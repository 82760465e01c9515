"""The journal: what was asked and answered stays as it was, and a run that goes on must ask the same."""

import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from limbeck.engines.journal import Journal, was_begun
from limbeck.errors import LimbeckError


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite", new=True)


def test_what_was_answered_is_there_after_the_program_died(journal: Journal) -> None:
    journal.begin({"run": "r", "parties": {"0": "a"}})
    journal.ask(0, b"request", [0, 1])
    journal.answer(0, 1, b"one")
    journal.answer(0, 0, b"nought")
    journal.note(0, 1, "late")
    again = Journal(journal.path)
    assert again.about() == {"run": "r", "parties": {"0": "a"}}
    assert again.answers(0) == {0: b"nought", 1: b"one"}
    assert again.questions() == {0: (b"request", [0, 1])}
    assert [(e.turn, e.party, e.what) for e in again.events()] == [(0, 1, "late")]
    assert not again.is_closed(0)
    again.close(0)
    assert journal.is_closed(0)


def test_the_first_answer_stays(journal: Journal) -> None:
    journal.ask(0, b"request", [0])
    journal.answer(0, 0, b"first")
    journal.answer(0, 0, b"second")
    assert journal.answers(0) == {0: b"first"}


def test_a_run_that_goes_on_must_be_the_same(journal: Journal) -> None:
    journal.begin({"run": "r"})
    journal.begin({"run": "r"})
    with pytest.raises(LimbeckError, match="began with another run"):
        journal.begin({"run": "s"})
    journal.ask(0, b"request", [0])
    journal.ask(0, b"request", [0])
    for request, asked in ((b"other", [0]), (b"request", [1])):
        with pytest.raises(LimbeckError, match="differs from the recorded one"):
            journal.ask(0, request, asked)


@pytest.mark.parametrize(
    "words", ["UPDATE answers SET envelope = x'00'", "DELETE FROM answers", "DELETE FROM questions"]
)
def test_nothing_in_it_can_be_changed(journal: Journal, words: str) -> None:
    journal.ask(0, b"request", [0])
    journal.answer(0, 0, b"envelope")
    with sqlite3.connect(journal.path) as other, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        other.execute(words)


def test_a_run_that_never_was_is_named(tmp_path: Path) -> None:
    with pytest.raises(LimbeckError, match="there is no such run"):
        Journal(tmp_path / "nothing.sqlite")


def test_what_belongs_together_stands_there_whole_or_not_at_all(journal: Journal) -> None:
    """A program that is killed while it copies a run leaves none of it behind."""
    program = (
        "import os, sys; from pathlib import Path; from limbeck.engines.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "with journal.at_once():\n"
        "    journal.begin({'run': 'r'}); journal.ask(0, b'request', [0]); journal.answer(0, 0, b'sent')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(journal.path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not was_begun(journal.path)
    assert (journal.questions(), journal.answers(0)) == ({}, {})
    with pytest.raises(LimbeckError, match="this run never began"):
        journal.about()
    with journal.at_once():
        journal.begin({"run": "r"})
    assert was_begun(journal.path)


def test_a_run_is_found_wherever_it_lies_and_after_a_kill_in_the_middle_of_a_large_answer(tmp_path: Path) -> None:
    home = tmp_path / "trial #1 50%25?"
    home.mkdir()
    journal = Journal(home / "journal.sqlite", new=True)
    journal.begin({"run": "r"})
    journal.end()
    program = (
        "import os, sys; from pathlib import Path; from limbeck.engines.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "with journal.at_once():\n"
        "    for party in range(3): journal.answer(0, party, bytes(20_000_000))\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(home / "journal.sqlite")], check=False)
    assert (home / "journal.sqlite-journal").exists()
    assert was_begun(home / "journal.sqlite")
    assert Journal(home / "journal.sqlite").answers(0) == {}


def test_what_is_no_journal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("garbage " * 1000)
    with pytest.raises(LimbeckError, match="cannot be used"):
        was_begun(tmp_path / "journal.sqlite")


def test_only_its_owner_may_read_it_for_it_may_hold_unprotected_answers(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch(mode=0o644)
    journal = Journal(path, new=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with journal.at_once():
        journal.ask(0, b"request", [0])
        assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("together", [True, False])
def test_a_full_disk_is_one_line_and_what_was_written_before_stays(journal: Journal, together: bool) -> None:
    """SQLite says so itself when it may not take another page."""
    journal.ask(0, b"request", [0])
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    within = journal.at_once() if together else nullcontext()
    with pytest.raises(LimbeckError, match="full") as error, within:
        journal.answer(0, 0, bytes(100_000))
    assert str(journal.path) in str(error.value)
    assert "\n" not in str(error.value)
    assert (journal.questions(), journal.answers(0)) == ({0: (b"request", [0])}, {})
    journal.close(0)
    assert Journal(journal.path).is_closed(0)
