"""The journal: an append-only file of requests and answers, from which an interrupted run resumes."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from limbeck.engines.database import Database, one_error
from limbeck.errors import LimbeckError
from limbeck.protocol.codec import decode
from limbeck.protocol.messages import Acknowledgement, Request

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS questions (turn INTEGER PRIMARY KEY, request BLOB NOT NULL, asked TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    turn INTEGER NOT NULL, party INTEGER NOT NULL, at TEXT NOT NULL, envelope BLOB NOT NULL,
    PRIMARY KEY (turn, party)
);
CREATE TABLE IF NOT EXISTS closed (turn INTEGER PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (at TEXT NOT NULL, turn INTEGER NOT NULL, party INTEGER NOT NULL, what TEXT NOT NULL);
"""
for _table in ("about", "questions", "answers", "closed", "events"):
    for _verb in ("UPDATE", "DELETE"):
        SCHEMA += (
            f"CREATE TRIGGER IF NOT EXISTS never_{_verb.lower()}_{_table} BEFORE {_verb} ON {_table} "
            "BEGIN SELECT RAISE(ABORT, 'a journal is never changed'); END;"
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something unexpected in a run.

    Parameters
    ----------
    at : str
        Time (UTC, ISO 8601).
    turn : int
        Turn of the run.
    party : int
        The party; -1 for the server.
    what : str
        Description.
    """

    at: str
    turn: int
    party: int
    what: str


class Journal(Database):
    """Journal of one run. A turn is open until it is closed; parties may only answer an open turn.

    Parameters
    ----------
    path : Path
        The file.
    new : bool
        Whether to create it if it does not exist.
    """

    schema = SCHEMA

    def __init__(self, path: Path, new: bool = False) -> None:
        if not new and not path.exists():
            raise LimbeckError(f"{path} does not exist: there is no such run")
        super().__init__(path)

    def begin(self, about: Mapping[str, Any]) -> None:
        """Record the settings of the run; if the run resumes, they must be the same.

        Parameters
        ----------
        about : mapping
            Settings, as JSON.
        """
        with self.at_once():
            for key, value in about.items():
                text = json.dumps(value, sort_keys=True)
                known = self._rows("SELECT value FROM about WHERE key = ?", key)
                if not known:
                    self._rows("INSERT INTO about VALUES (?, ?)", key, text)
                elif known[0][0] != text:
                    raise LimbeckError(f"{self.path}: this run began with another {key}; start a new run")

    def about(self) -> dict[str, Any]:
        """Settings of the run; an error if the program ended before it recorded them."""
        known = self._rows("SELECT key, value FROM about")
        if not known:
            raise LimbeckError(f"{self.path}: this run never began; its folder can be deleted")
        return {key: json.loads(value) for key, value in known}

    def ask(self, turn: int, request: bytes, asked: Sequence[int]) -> None:
        """Record a request; a run that resumes must send the same.

        Parameters
        ----------
        turn : int
            Turn of the run.
        request : bytes
            Encoded request.
        asked : sequence of int
            Parties that are asked.
        """
        known = self._rows("SELECT request, asked FROM questions WHERE turn = ?", turn)
        if not known:
            self._rows("INSERT INTO questions VALUES (?, ?, ?)", turn, request, json.dumps(list(asked)))
        elif known[0] != (request, json.dumps(list(asked))):
            raise LimbeckError(
                f"{self.path}: the request at turn {turn} differs from the recorded one (other data, versions or "
                "settings?); start a new run"
            )

    def answer(self, turn: int, party: int, data: bytes) -> None:
        """Record the answer of a party."""
        self._rows("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", turn, party, _now(), data)

    def answers(self, turn: int) -> dict[int, bytes]:
        """Recorded answers of a turn, by party."""
        return dict(self._rows("SELECT party, envelope FROM answers WHERE turn = ? ORDER BY party", turn))

    def close(self, turn: int) -> None:
        """Close a turn."""
        self._rows("INSERT OR IGNORE INTO closed VALUES (?, ?)", turn, _now())

    def is_closed(self, turn: int) -> bool:
        """Whether a turn is closed."""
        return bool(self._rows("SELECT 1 FROM closed WHERE turn = ?", turn))

    def note(self, turn: int, party: int, what: str) -> None:
        """Record an event."""
        self._rows("INSERT INTO events VALUES (?, ?, ?, ?)", _now(), turn, party, what)

    def events(self) -> list[Event]:
        """All events, in order."""
        return [Event(*row) for row in self._rows("SELECT * FROM events ORDER BY rowid")]

    def questions(self) -> dict[int, tuple[bytes, list[int]]]:
        """Recorded requests by turn: the encoded request, and the parties that were asked."""
        found = self._rows("SELECT turn, request, asked FROM questions ORDER BY turn")
        return {turn: (request, json.loads(asked)) for turn, request, asked in found}

    def requests_for_results(self) -> dict[int, tuple[bytes, list[int]]]:
        """Those recorded requests that ask for results, not only to take a model, as `questions` returns them."""
        return {turn: asked for turn, asked in self.questions().items() if _asks_for_results(asked[0])}


def was_begun(path: Path) -> bool:
    """Whether the run of a journal began; a program may have ended before it recorded anything."""
    if not path.exists():
        return False
    with one_error(path), closing(sqlite3.connect(path, timeout=60.0)) as connection:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
        return known is not None and connection.execute("SELECT 1 FROM about").fetchone() is not None


def _asks_for_results(request: bytes) -> bool:
    message, _ = decode(request)
    return isinstance(message, Request) and message.reply() is not Acknowledgement


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
