"""The ledger on disk: what left, written before it leaves, never changed; a retry sends what was recorded."""

import json
import math
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError
from limbeck.privacy.accounting import epsilon_towards
from limbeck.protocol.release import Observer, Release
from limbeck.protocol.rows import Array

SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL, run TEXT NOT NULL, site TEXT NOT NULL, turn INTEGER NOT NULL, number INTEGER NOT NULL,
    row TEXT NOT NULL, drawn BLOB,
    UNIQUE (run, site, turn, number)
);
CREATE TRIGGER IF NOT EXISTS never_changed BEFORE UPDATE ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER IF NOT EXISTS never_deleted BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER IF NOT EXISTS never_replaced BEFORE INSERT ON releases
WHEN EXISTS (SELECT 1 FROM releases WHERE id = NEW.id
    OR (run = NEW.run AND site = NEW.site AND turn = NEW.turn AND number = NEW.number))
BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
"""
PATIENCE = 60.0  # seconds that a release waits for another program that writes to the same ledger


@dataclass(frozen=True, slots=True)
class Budget:
    """`budget = { epsilon, delta, towards }`: a ledger takes no release that would spend more towards this observer."""

    epsilon: float
    delta: float = 1e-5
    towards: Observer = "public"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise LimbeckError(f"budget.epsilon must be above 0 and finite, not {self.epsilon:g}")
        if not 0 < self.delta < 1:
            raise LimbeckError(f"budget.delta must lie between 0 and 1, not {self.delta:g}")

    def spent(self, releases: Sequence[Release]) -> float:
        return epsilon_towards(self.towards, releases, self.delta)

    def check(self, spent: Sequence[Release], more: Sequence[Release], what: str) -> None:
        """Refuse what would pass the budget, and say what is left."""
        after = self.spent([*spent, *more])
        if after > self.epsilon:
            before = self.spent(spent)
            left = f"{max(0.0, self.epsilon - before):.4g} of {self.epsilon:g} is left"
            raise LimbeckError(f"{what} would bring epsilon towards {self.towards} to {after:.4g}, but {left}")


@dataclass(slots=True)
class Book:
    """All ledgers of one run; in a file where a path is given. Several runs may share a file, and its budget.

    `cap` is what this run alone may spend.
    """

    path: Path | None = None
    run: str = ""
    budget: Budget | None = None
    cap: Budget | None = None
    _connection: Any = field(init=False)
    _lock: Any = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        try:
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path or ":memory:", timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise LimbeckError(f"{self.path} cannot be used as a ledger: {error}") from error

    def of(self, site: str) -> "SiteLedger":
        return SiteLedger(self, site)

    def releases(self, site: str | None = None, run: str | None = None, others: str | None = None) -> list[Release]:
        """Every row in the order of writing; of one site, of one run, or of all runs but one."""
        chosen = (
            "SELECT row FROM releases WHERE (?1 IS NULL OR site = ?1) AND (?2 IS NULL OR run = ?2) "
            "AND (?3 IS NULL OR run != ?3) ORDER BY id"
        )
        with self._lock:
            found = self._connection.execute(chosen, (site, run, others)).fetchall()
        return [Release(**json.loads(row)) for (row,) in found]

    def check_plan(self, planned: Sequence[Release]) -> None:
        """Refuse a run that cannot fit into the budget, before anyone trains."""
        if self.cap:
            self.cap.check([], planned, "this run")
        if self.budget:
            self.budget.check(self.releases(others=self.run), planned, "this run")

    def record(self, row: Release, noisy: Callable[[], Array] | None) -> tuple[bool, Array | None]:
        """Write a row, with what its mechanism drew; where it stands already, give what it drew then.

        The first is whether it stood there.
        """
        place = (self.run, row.site, row.turn, row.number)
        text = json.dumps(asdict(row), sort_keys=True)
        with self._lock, self._alone():
            where = "SELECT row, drawn FROM releases WHERE run = ? AND site = ? AND turn = ? AND number = ?"
            found = self._connection.execute(where, place).fetchone()
            if found is None:
                if self.cap:
                    self.cap.check(self.releases(run=self.run), [row], f"{row.site}: {row.what}")
                if self.budget:
                    self.budget.check(self.releases(), [row], f"{row.site}: {row.what}")
                drawn = None if noisy is None else save({"drawn": np.ascontiguousarray(noisy())})
                now = datetime.now(UTC).isoformat(timespec="seconds")
                insert = "INSERT INTO releases (at, run, site, turn, number, row, drawn) VALUES (?, ?, ?, ?, ?, ?, ?)"
                self._connection.execute(insert, (now, *place, text, drawn))
            elif found[0] != text:
                raise LimbeckError(f"{self.path}: {row.site} has released something else in this run before")
            else:
                drawn = found[1]
        return found is not None, None if drawn is None else load(drawn)["drawn"]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """From the look at what is spent to the commit nobody else spends: other programs wait."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise LimbeckError(f"{self.path} cannot be written to: {error}") from error
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class SiteLedger:
    """One site's part of a book."""

    book: Book
    site: str

    @property
    def rows(self) -> list[Release]:
        return self.book.releases(self.site, self.book.run)

    def write(self, row: Release) -> bool:
        return self.book.record(row, None)[0]

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        _, drawn = self.book.record(row, noisy)
        assert drawn is not None
        return drawn


def read_ledger(path: Path) -> list[tuple[str, str, Release]]:
    """When, in which run, and what: every row of a ledger's file."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT at, run, row FROM releases ORDER BY id").fetchall()
        return [(at, run, Release(**json.loads(row))) for at, run, row in found]
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise LimbeckError(f"{path} is not a ledger: {error}") from error
