"""The file of a ledger: an SQLite database to which one program at a time appends entries."""

import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from limbeck.atomic_files import AtomicFile, make_private
from limbeck.errors import LimbeckError
from limbeck.privacy.chain import Contents, Entry, Position, changed, head_file, missing, read_head, write_head

COLUMNS = "id, at, kind, run, site, turn, number, body, drawn, digest"
TABLES = {
    "entries": """id INTEGER PRIMARY KEY, at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('release', 'drawn', 'budget')),
        run TEXT NOT NULL, site TEXT NOT NULL, turn INTEGER NOT NULL, number INTEGER NOT NULL,
        body TEXT NOT NULL, drawn BLOB, digest TEXT NOT NULL,
        UNIQUE (kind, run, site, turn, number)""",
    "origin": "id INTEGER PRIMARY KEY CHECK (id = 1), value TEXT NOT NULL",
    "runs": "run TEXT PRIMARY KEY, about TEXT NOT NULL",
    "ended": "run TEXT PRIMARY KEY",
}
SAME = {
    "entries": "id = NEW.id OR (kind = NEW.kind AND run = NEW.run AND site = NEW.site AND turn = NEW.turn "
    "AND number = NEW.number)",
    "origin": "id = NEW.id",
    "runs": "run = NEW.run",
    "ended": "run = NEW.run",
}
UNFINISHED = "SELECT run FROM runs WHERE about = ? AND run NOT IN (SELECT run FROM ended) ORDER BY rowid DESC LIMIT 1"
SCHEMA = "SELECT name, sql FROM sqlite_master"
NEVER = "BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END"
LOCK_TIMEOUT = 60.0  # seconds to wait for another program that writes to the same ledger
SECRET = 32  # bytes


@dataclass(slots=True)
class LedgerFile:
    """The database of a ledger, in a file or in memory. `contents` are the entries that were verified so far.

    Parameters
    ----------
    path : Path, optional
        The file; None for a database in memory.

    Raises
    ------
    LimbeckError
        If the file is not a ledger, cannot be used, or was changed.
    """

    path: Path | None
    contents: Contents = field(init=False)
    _connection: Any = field(init=False)

    def __post_init__(self) -> None:
        try:
            if self.path:
                make_private(self.path)
            self._connection = _connect(self.path or ":memory:")
        except (sqlite3.Error, OSError) as error:
            raise LimbeckError(f"{self.where} cannot be used as a ledger: {error}") from error
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Write the tables and the file of the head to the disk before the first entry."""
        with self.alone("cannot be used as a ledger"):
            _make_tables(self._connection, self.where)
            _check_schema(self._connection, self.where)
        with self.alone():
            self.contents = _verified(self._connection, self.where)
            self._check_stored_head()
            _check_no_others(self._connection, self.where)

    @property
    def where(self) -> str:
        """Name of the ledger in messages."""
        return str(self.path or "the ledger")

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Run one SQL statement and return its rows."""
        found: list[Any] = self._connection.execute(statement, values).fetchall()
        return found

    def catch_up(self) -> Contents:
        """Verify the entries that other programs have appended; raise if an entry that was verified before changed.

        No other program has a database in memory.
        """
        if self.path is None:
            return self.contents
        with self._database_errors("cannot be read"):
            number, digest = self.contents.head
            if number and self.execute("SELECT digest FROM entries WHERE id = ?", number) != [(digest,)]:
                raise self._first_change()
            self.contents.take(_entries(self._connection, "id > ?", number))
            _check_no_others(self._connection, self.where)
        return self.contents

    def _first_change(self) -> LimbeckError:
        found = _verified(self._connection, self.where).digests
        for number, digest in enumerate(self.contents.digests, 1):
            if number > len(found):
                return missing(self.where, number)
            if found[number - 1] != digest:
                return changed(self.where, number)
        raise AssertionError

    def find(self, position: Position) -> Entry | None:
        """Entry at a position, with what was drawn; None if there is none. Raise if it changed after verification."""
        number = self.contents.positions.get(position)
        if number is None:
            return None
        for entry in _entries(self._connection, "id = ?", number):
            if entry.digest_after(self.contents.before(number)) != self.contents.before(number + 1):
                raise changed(self.where, number)
            return entry
        raise missing(self.where, number)

    def append(self, new: Sequence[Entry]) -> list[Entry]:
        """Chain new entries to the last one, write them, and return them."""
        last, digest = self.contents.head
        chained = []
        for number, entry in enumerate(new, last + 1):
            numbered = replace(entry, id=number)
            digest = numbered.digest_after(digest)
            chained.append(replace(numbered, digest=digest))
            values = attrgetter(*COLUMNS.split(", "))(chained[-1])  # `astuple` would copy each value
            self.execute(f"INSERT INTO entries ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
        last += len(new)
        if new and self.execute("SELECT digest FROM entries WHERE id = ?", last) != [(digest,)]:
            raise LimbeckError(f"{self.where} does not take entry {last}; restore the ledger from a copy")
        return chained

    def committed(self, new: Sequence[Entry]) -> None:
        """Write the head to its own file, after the commit. Other programs wait, so that the head never goes back."""
        if self.path is None:
            self.contents.take(new)
            return
        with self.alone():
            write_head(self.path, self.catch_up().head)

    def _check_stored_head(self) -> None:
        """Raise unless the ledger contains the head that is kept beside it. After a crash it may have more entries."""
        if self.path is None:
            return
        stored, head = read_head(self.path), self.contents.head
        if stored is None and head[0]:
            raise LimbeckError(
                f"{head_file(self.path)} is missing; without it, removed last entries would go unnoticed: write "
                '"NUMBER DIGEST" into it, the head that the last privacy statement names, or that was printed last'
            )
        if stored is not None:
            self.contents.check_head(stored, str(head_file(self.path)))
        if stored != head:
            write_head(self.path, head)

    def secret(self) -> bytes:
        """Random bytes in a file beside the ledger, which only its owner can read."""
        if self.path is None:
            return secrets.token_bytes(SECRET)
        path = secret_file(self.path)
        try:
            with self.alone():
                if not path.exists():
                    with AtomicFile(path, private=True) as file:
                        file.write(secrets.token_bytes(SECRET))
            found = path.read_bytes()
        except OSError as error:
            raise LimbeckError(f"{path} cannot be used: {error.strerror}") from error
        if len(found) != SECRET:
            raise LimbeckError(f"{path} holds {len(found)} bytes, not the {SECRET} of a ledger's secret")
        return found

    @contextmanager
    def alone(self, problem: str = "cannot be written to") -> Iterator[None]:
        """Context of one transaction: other programs wait, so that nobody else spends between check and commit."""
        with self._database_errors(problem):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk may have ended the transaction already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _database_errors(self, what: str) -> Iterator[None]:
        """Context that turns errors of SQLite into `LimbeckError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise LimbeckError(f"{self.where} {what}: {error}") from error

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def secret_file(ledger: Path) -> Path:
    """Path of the file beside a ledger that keeps its secret."""
    return ledger.with_name(f"{ledger.name}.secret")


def files_of(ledger: Path) -> list[Path]:
    """Paths of a ledger and of the files that belong to it.

    Examples
    --------
    >>> [path.name for path in files_of(Path("ledger.sqlite"))]
    ['ledger.sqlite', 'ledger.sqlite.head', 'ledger.sqlite.secret', 'ledger.sqlite-journal']
    """
    return [ledger, head_file(ledger), secret_file(ledger), ledger.with_name(f"{ledger.name}-journal")]


def read_contents(path: Path) -> tuple[Contents, bool]:
    """Verify the file of a ledger without writing anything.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    (Contents, bool)
        The verified entries, and whether the head was kept beside the file.

    Raises
    ------
    LimbeckError
        If the file is not a ledger, or was changed.
    """
    stored = read_head(path)
    try:
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
            if "entries" not in _tables(connection, str(path)):
                raise LimbeckError(f"{path} is not a ledger: it has no entries")
            _check_schema(connection, str(path))
            contents = _verified(connection, str(path))
            if stored is not None:
                contents.check_head(stored, str(head_file(path)))
            _check_no_others(connection, str(path))
    except sqlite3.Error as error:
        raise LimbeckError(f"{path} is not a ledger: {error}") from error
    return contents, stored is not None


def unfinished_run(path: Path, about: Mapping[str, Any]) -> str | None:
    """Find the run that the next one with the same public facts would resume, without writing anything.

    Parameters
    ----------
    path : Path
        The file of a ledger.
    about : mapping
        Public facts of the run.

    Returns
    -------
    str or None
        Identifier of the run that did not end; None if there is none.
    """
    with closing(_connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
        found = connection.execute(UNFINISHED, (text_of(about),)).fetchone()
    return found[0] if found else None


def text_of(about: Mapping[str, Any]) -> str:
    """Public facts of a run as a ledger stores them."""
    return json.dumps(about, sort_keys=True, default=repr)


def _connect(target: str | Path) -> sqlite3.Connection:
    uri = str(target).startswith("file:")
    connection = sqlite3.connect(target, LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=uri)
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _tables(connection: sqlite3.Connection, where: str) -> set[str]:
    """Names of the tables of a file; raise for a ledger of an earlier format."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "releases" in names:
        raise LimbeckError(
            f"{where} is a ledger of an earlier format: keep it as evidence, and start a new ledger whose budget is "
            "what is left"
        )
    return names


def _make_tables(connection: sqlite3.Connection, where: str) -> None:
    if (known := _tables(connection, where)) and "entries" not in known:
        raise LimbeckError(f"{where} cannot be used as a ledger: it holds other tables")
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        taken = f"EXISTS (SELECT 1 FROM {name} WHERE {SAME[name]})"
        for what, when in (("UPDATE", "1"), ("DELETE", "1"), ("INSERT", taken)):
            trigger = f"CREATE TRIGGER IF NOT EXISTS {name}_{what} BEFORE {what} ON {name}"
            connection.execute(f"{trigger} WHEN {when} {NEVER}")
    if "origin" not in known:
        connection.execute("INSERT INTO origin VALUES (1, ?)", (secrets.token_hex(SECRET),))


def _check_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise if there are tables, triggers or views that are not a ledger's own: they could suppress new entries."""
    with closing(sqlite3.connect(":memory:")) as usual:
        _make_tables(usual, where)
        own = set(usual.execute(SCHEMA))
    for name, statement in connection.execute(SCHEMA):
        if (name, statement) not in own:
            raise LimbeckError(f"{where} holds {name!r}, which is no part of a ledger; restore the ledger from a copy")


def _verified(connection: sqlite3.Connection, where: str) -> Contents:
    [(origin,)] = connection.execute("SELECT value FROM origin").fetchall() or [("",)]
    contents = Contents(where, origin)
    contents.take(_entries(connection, "id > ?", 0))
    return contents


def _check_no_others(connection: sqlite3.Connection, where: str) -> None:
    """Raise if there are entries with numbers below 1, which the chain does not cover."""
    for (number,) in connection.execute("SELECT id FROM entries WHERE id < 1 ORDER BY id"):
        raise LimbeckError(f"{where}: entry {number} was inserted; restore the ledger from a copy")


def _entries(connection: sqlite3.Connection, which: str, number: int) -> Iterator[Entry]:
    found = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE {which} ORDER BY id", (number,))
    return (Entry(*row) for row in found)
