"""A ledger that was tampered with, by whoever can write to its file, is refused with the number of the first bad entry."""

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from limbeck.errors import LimbeckError
from limbeck.privacy import chain
from limbeck.privacy.ledger import Budget, LedgerStore, read_contents, read_ledger
from limbeck.privacy.mechanisms import Laplace, Subsample
from limbeck.protocol.release import Asked, Release, release_row
from program import limbeck

COLUMNS = ("id", "at", "kind", "run", "site", "turn", "number", "body", "drawn", "digest")
SECRET = 7  # the entry that holds a subset of rows, which was never released
ENTRIES = 9


def row(number: int = 0) -> Release:
    return release_row("a", 0, number, "labels", Laplace(0.05), "public", Asked(4, 3))


def subset() -> Release:
    return release_row("b", 0, 0, "rows", Subsample(2, 50), "public", Asked())


def draws() -> np.ndarray:
    return np.random.default_rng().integers(10**9, size=4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of nine entries: a budget; four releases and what was drawn for them; one that was announced only."""
    path = tmp_path_factory.mktemp("whole") / "l.sqlite"
    with closing(LedgerStore(path, "run", Budget(9.0, delta=0.5))) as ledger_store:
        for number in (0, 1):
            ledger_store.of("a").draw(row(number), draws)
        ledger_store.of("b").draw(subset(), lambda: np.array([3, 17]))
        ledger_store.of("a").write(row(2))
        ledger_store.of("a").write(row(3))
    with closing(sqlite3.connect(path)) as connection:
        kinds = [kind for (kind,) in connection.execute("SELECT kind FROM entries ORDER BY id")]
    assert kinds == ["budget", *["release", "drawn"] * 3, "release", "release"]
    return path


@pytest.fixture
def ledger(whole: Path, tmp_path: Path) -> Path:
    return copied(whole, tmp_path)


def copied(whole: Path, folder: Path) -> Path:
    for suffix in ("", ".head"):
        shutil.copy(f"{whole}{suffix}", folder / f"l.sqlite{suffix}")
    return folder / "l.sqlite"


def tamper(path: Path, statement: str, *values: Any) -> None:
    """As anybody can who may write to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement, values)


def refusals(path: Path) -> Iterator[str]:
    """The error when it is read, and when it is opened to write."""
    for opened in (read_ledger, LedgerStore):
        with pytest.raises(LimbeckError) as refused:
            opened(path)
        yield str(refused.value)


def first_bad(path: Path) -> int:
    """The number that both ways of opening name."""
    [number] = {int(result.split("entry ")[1].split()[0]) for result in refusals(path)}
    return number


def test_a_whole_ledger_is_taken(ledger: Path) -> None:
    contents, anchored = read_contents(ledger)
    assert anchored
    assert contents.head[0] == ENTRIES
    assert LedgerStore(ledger, "run").head == contents.head
    assert (ledger.parent / "l.sqlite.head").read_text() == f"{ENTRIES} {contents.head[1]}\n"


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("DELETE FROM entries", 1),
        (f"DELETE FROM entries WHERE id = {ENTRIES}", ENTRIES),
        ("DELETE FROM entries WHERE id = 4", 4),
        ("UPDATE entries SET body = replace(body, '\"queries\": 4', '\"queries\": 1') WHERE id = 4", 4),
        ("UPDATE entries SET body = replace(body, '9.0', '99.0') WHERE id = 1", 1),
        (f"INSERT INTO entries SELECT id + 1, at, kind, run, site, turn, 7, body, drawn, digest FROM entries WHERE id = {ENTRIES}", ENTRIES + 1),
        (f"INSERT INTO entries SELECT id + 9, at, kind, run, site, turn, 7, body, drawn, digest FROM entries WHERE id = {ENTRIES}", ENTRIES + 1),
        ("INSERT INTO entries SELECT 0, at, kind, run, site, turn, 7, body, drawn, digest FROM entries WHERE id = 2", 0),
        ("UPDATE entries SET id = -id WHERE id = 5", 5),
        ("UPDATE origin SET value = '00'", 1),
        ("DELETE FROM origin", 1),
    ],
)  # fmt: skip
def test_what_was_done_to_a_ledger_is_noticed(ledger: Path, statement: str, number: int) -> None:
    tamper(ledger, statement)
    assert first_bad(ledger) == number


def other_value(column: str) -> st.SearchStrategy[Any]:
    texts, numbers = st.text(max_size=5), st.integers(-(2**40), 2**40)
    return {
        "id": numbers,
        "turn": st.one_of(numbers, texts, st.floats(allow_nan=False)),
        "number": numbers,
        "drawn": st.one_of(st.none(), st.binary(max_size=20), texts),
        "kind": st.one_of(st.sampled_from(["release", "drawn", "budget"]), texts),
        "body": st.one_of(
            texts, st.sampled_from(["{}", '{"secret": true}', '{"secret": false}']), st.binary(max_size=5)
        ),
    }.get(column, st.one_of(texts, st.binary(max_size=5)))


@settings(max_examples=120)
@given(data=st.data(), column=st.sampled_from(COLUMNS), number=st.integers(1, ENTRIES))
def test_any_change_of_any_column_is_noticed(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, column: str, number: int
) -> None:
    """All but what was drawn in secret, which no digest covers."""
    value = data.draw(other_value(column))
    assume((number, column) != (SECRET, "drawn"))
    ledger = copied(whole, tmp_path_factory.mktemp("changed"))
    before = dump(ledger)
    try:
        tamper(ledger, f"UPDATE entries SET {column} = ? WHERE id = ?", value, number)
    except sqlite3.IntegrityError:  # the place is another entry's
        assume(False)
    assume(dump(ledger) != before)
    assert first_bad(ledger) == number


def dump(path: Path) -> Any:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return connection.execute("SELECT *, typeof(body), typeof(drawn) FROM entries ORDER BY id").fetchall()


@given(first=st.integers(1, ENTRIES), last=st.integers(1, ENTRIES))
def test_any_removal_is_noticed(whole: Path, tmp_path_factory: pytest.TempPathFactory, first: int, last: int) -> None:
    """Of a suffix or of a part in the middle."""
    assume(first <= last)
    ledger = copied(whole, tmp_path_factory.mktemp("removed"))
    tamper(ledger, "DELETE FROM entries WHERE id BETWEEN ? AND ?", first, last)
    assert first_bad(ledger) == first


def test_a_chain_that_was_computed_anew_is_noticed_by_its_head(ledger: Path) -> None:
    """Whoever changes an entry can compute all digests after it: the head that is kept outside is another one then."""
    with closing(sqlite3.connect(ledger)) as connection:
        [(origin,)] = connection.execute("SELECT value FROM origin")
        entries = [
            chain.Entry(*each) for each in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY id")
        ]
    digest = origin
    for entry in entries:
        body = entry.body.replace('"queries": 4', '"queries": 1')
        changed = chain.Entry(*[*(getattr(entry, name) for name in COLUMNS[:7]), body, entry.drawn])
        digest = changed.digest_after(digest)
        tamper(ledger, "UPDATE entries SET body = ?, digest = ? WHERE id = ?", body, digest, entry.id)
    assert first_bad(ledger) == ENTRIES
    (ledger.parent / "l.sqlite.head").unlink()
    assert not read_contents(ledger)[1], "without the head nothing can be noticed"


def test_the_digests_are_of_the_fields_and_the_digest_before(ledger: Path) -> None:
    """An independent computation, as an auditor would write it."""
    with closing(sqlite3.connect(ledger)) as connection:
        [(before,)] = connection.execute("SELECT value FROM origin")
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY id").fetchall()
    for *fields, drawn, digest in rows:
        text = "null" if drawn is None or fields[0] == SECRET else f'["blob", "{drawn.hex()}"]'
        quoted = [str(f) if isinstance(f, int) else '"' + f.replace('"', '\\"') + '"' for f in fields]
        assert hashlib.sha256(f'["{before}", {", ".join(quoted)}, {text}]'.encode()).hexdigest() == digest
        before = digest


def test_no_digest_covers_a_secret_draw(ledger: Path) -> None:
    """Whoever sees a head can try out nothing about which rows were drawn."""
    head = read_contents(ledger)[0].head
    tamper(ledger, "UPDATE entries SET drawn = (SELECT drawn FROM entries WHERE id = 3) WHERE id = ?", SECRET)
    assert LedgerStore(ledger).head == head


def test_two_ledgers_with_the_same_entries_have_other_heads(tmp_path: Path) -> None:
    """A head tells nothing about the entries to those who have not the ledger: the chain starts from random bytes."""
    books = [LedgerStore(tmp_path / name, "run") for name in ("a.sqlite", "b.sqlite")]
    for ledger_store in books:
        ledger_store.of("a").write(row())
    assert len({ledger_store.head for ledger_store in books}) == 2


def test_a_ledger_without_its_head_is_read_but_not_written_to(ledger: Path) -> None:
    number, digest = read_contents(ledger)[0].head
    head = ledger.parent / "l.sqlite.head"
    head.unlink()
    contents, anchored = read_contents(ledger)
    assert (contents.head, anchored) == ((number, digest), False)
    with pytest.raises(LimbeckError, match=r'l\.sqlite\.head is missing.*write "NUMBER DIGEST" into it'):
        LedgerStore(ledger)
    head.write_text(f"{number} {digest}\n")
    LedgerStore(ledger)


@pytest.mark.parametrize("text", ["", "nine", "-1 00", f"{ENTRIES} " + "0" * 63])
def test_a_head_that_is_none_is_reported(ledger: Path, text: str) -> None:
    (ledger.parent / "l.sqlite.head").write_text(text)
    assert all("must hold the number of entries and the digest" in result for result in refusals(ledger))


def test_the_head_of_another_ledger_is_refused(ledger: Path) -> None:
    (ledger.parent / "l.sqlite.head").write_text(f"2 {'0' * 64}\n")
    assert first_bad(ledger) == 2
    (ledger.parent / "l.sqlite.head").write_text(f"0 {'0' * 64}\n")
    assert first_bad(ledger) == 1


def test_a_ledger_that_was_deleted_is_not_begun_anew(ledger: Path) -> None:
    ledger.unlink()
    with pytest.raises(LimbeckError, match=rf"entry 1 is missing: .*l\.sqlite\.head names {ENTRIES} entries"):
        LedgerStore(ledger)


def test_a_kill_between_the_commit_and_the_head_leaves_a_ledger_that_is_taken(tmp_path: Path) -> None:
    """The head names fewer entries then, and is brought up to date."""
    path, head = tmp_path / "l.sqlite", tmp_path / "l.sqlite.head"
    ledger_store = LedgerStore(path, "run")
    start = head.read_text()
    ledger_store.of("a").draw(row(), draws)
    after = head.read_text()
    head.write_text(start)
    assert read_contents(path)[1]
    assert f"{LedgerStore(path).head[0]} {ledger_store.head[1]}\n" == after == head.read_text()


def test_a_kill_at_any_time_leaves_a_ledger_that_is_taken(tmp_path: Path) -> None:
    """The head stands on the disk before the first entry does, so that a lost one is never the program's own doing."""
    child = (
        "import sys; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "from test_ledger_chain import LedgerStore, draws, row\n"
        "book = LedgerStore(Path(sys.argv[1]), 'run')\n"
        "print('ready', flush=True)\n"
        "for number in range(100000): book.of('a').draw(row(number), draws)"
    )
    for attempt in range(5):
        path = tmp_path / f"{attempt}.sqlite"
        folders = [str(Path(__file__).parents[n]) for n in (0, 1)]
        running = subprocess.Popen([sys.executable, "-c", child, str(path), *folders], stdout=subprocess.PIPE)
        assert running.stdout
        running.stdout.readline()
        while not path.exists() or path.stat().st_size < 4096 * (9 + attempt):
            assert running.poll() is None
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        running.stdout.close()
        ledger_store = LedgerStore(path, "run")
        assert 0 < ledger_store.head[0] < 200_000
        ledger_store.of("a").draw(row(200_000), draws)


def test_what_happens_while_a_ledger_is_open_is_noticed(ledger: Path) -> None:
    for statement, number in (
        (f"DELETE FROM entries WHERE id = {ENTRIES}", ENTRIES),
        ("DELETE FROM entries WHERE id > 4", 5),
        (f"UPDATE entries SET digest = '' WHERE id = {ENTRIES}", ENTRIES),
        (f"INSERT INTO entries SELECT id + 1, at, kind, run, site, 8, 7, body, drawn, digest FROM entries WHERE id = {ENTRIES}", ENTRIES + 1),
    ):  # fmt: skip
        shutil.copy(ledger, ledger.with_name("kept"))
        ledger_store = LedgerStore(ledger, "run")
        tamper(ledger, statement)
        with pytest.raises(LimbeckError, match=f"entry {number} "):
            ledger_store.of("a").write(row(9))
        with pytest.raises(LimbeckError, match=f"entry {number} "):
            ledger_store.releases()
        ledger_store.close()
        shutil.copy(ledger.with_name("kept"), ledger)


def test_a_draw_that_was_changed_is_never_sent(ledger: Path) -> None:
    ledger_store = LedgerStore(ledger, "run")
    tamper(ledger, "UPDATE entries SET drawn = (SELECT drawn FROM entries WHERE id = 3) WHERE id = 5")
    with pytest.raises(LimbeckError, match="entry 5 was changed"):
        ledger_store.of("a").draw(row(1), draws)


def test_programs_go_on_from_one_another(ledger: Path) -> None:
    one, two = LedgerStore(ledger, "one"), LedgerStore(ledger, "two")
    for number in range(3):
        one.of("a").draw(row(number), draws)
        two.of("a").draw(row(number), draws)
    assert one.head == two.head == read_contents(ledger)[0].head
    assert one.head[0] == ENTRIES + 12
    assert (ledger.parent / "l.sqlite.head").read_text().startswith(f"{ENTRIES + 12} ")


def test_an_open_ledger_is_not_verified_anew_for_every_release(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(data: bytes) -> Any:
        counted.append(len(data))
        return hashlib.sha256(data)

    monkeypatch.setattr(chain, "sha256", counting)
    ledger_store = LedgerStore(ledger, "new")
    work = []
    for number in range(10):
        counted.clear()
        ledger_store.of("a").write(row(number))
        work.append(len(counted))
    assert set(work) == {2}, "one digest to write an entry, one to read it back"


def test_a_ledger_of_the_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE releases (id INTEGER PRIMARY KEY, row TEXT)")
        connection.commit()
    for result in refusals(path):
        assert "is a ledger of an earlier format: keep it as evidence, and start a new ledger" in result
        assert "\n" not in result


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
        connection.commit()
    before = path.read_bytes()
    assert all("ledger" in result for result in refusals(path))
    assert path.read_bytes() == before


def privacy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return limbeck(Path.cwd(), "privacy", *arguments)


def test_the_program_prints_the_head_and_the_budgets(ledger: Path) -> None:
    result = privacy("ledger", str(ledger), "--rows-per-person", "5")
    number, digest = read_contents(ledger)[0].head
    assert f"head: {number} entries, the last {digest}" in result.stdout
    assert "budget: epsilon 9 at delta 0.5 towards public, unit example; spent" in result.stdout
    assert "subsets of private rows: their own delta is" in result.stdout
    assert "rows" in result.stdout
    assert "could not be noticed" not in result.stdout
    (ledger.parent / "l.sqlite.head").unlink()
    result = privacy("ledger", str(ledger))
    assert (result.returncode, digest in result.stdout) == (0, True)
    assert "the head is not kept beside the ledger: removed last entries could not be noticed" in result.stdout
    tamper(ledger, "DELETE FROM entries WHERE id = 3")
    refused = privacy("ledger", str(ledger))
    assert refused.returncode == 1
    assert "entry 3 is missing" in refused.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER z BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER z AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE id = NEW.id; END",
        "CREATE VIEW z AS SELECT * FROM entries",
    ],
)
def test_a_ledger_that_could_swallow_entries_is_refused(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute(statement)
    for open_ in (LedgerStore, read_ledger):
        with pytest.raises(LimbeckError, match="holds 'z', which is no part of a ledger"):
            open_(ledger)


def test_an_entry_that_is_swallowed_while_the_ledger_is_open_is_noticed(ledger: Path) -> None:
    with closing(LedgerStore(ledger, "run")) as ledger_store:
        with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
            connection.execute("CREATE TRIGGER z BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END")
        with pytest.raises(LimbeckError, match=f"does not take entry {ENTRIES + 2}"):
            ledger_store.of("a").draw(row(7), draws)
