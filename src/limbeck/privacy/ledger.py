"""The ledger: a release is recorded before it leaves and never changed; a retry sends what was recorded."""

import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError
from limbeck.privacy.budget import Budget as Budget
from limbeck.privacy.budget import check_tightens, in_force
from limbeck.privacy.chain import Entry, Head
from limbeck.privacy.mechanisms import MECHANISMS
from limbeck.privacy.sites import check_site_names as check_site_names
from limbeck.privacy.sites import over_runs as over_runs
from limbeck.privacy.store import LedgerFile
from limbeck.privacy.store import files_of as files_of
from limbeck.privacy.store import read_contents as read_contents
from limbeck.protocol.release import Release
from limbeck.protocol.rows import Array

IDENTIFIER = 16  # random bytes


@dataclass(slots=True)
class LedgerStore:
    """All ledgers of one run; in a file where a path is given. Several runs may share a file, and its budgets.

    A budget is kept in the ledger from the first release that it allows, and stays in force for every later run. `cap`
    is what this run alone may spend.
    """

    path: Path | None = None
    run: str = ""
    budget: Budget | None = None
    cap: Budget | None = None
    _store: LedgerFile = field(init=False)
    _secret: bytes | None = field(default=None, init=False)
    _lock: Any = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        self._store = LedgerFile(self.path)
        if self.budget:
            try:
                check_tightens(self.budget, self._store.contents.budgets, self._store.where)
            except LimbeckError:
                self.close()
                raise

    @property
    def head(self) -> Head:
        """How many entries there are, and the digest of the last one."""
        with self._lock:
            return self._store.catch_up().head

    def check_head(self, stored: Head, source: str) -> None:
        """Refuse a ledger that does not contain a head that was kept elsewhere."""
        with self._lock:
            self._store.catch_up().check_head(stored, source)

    @property
    def budgets(self) -> list[Budget]:
        """The budgets in force: those that the ledger keeps, and this run's."""
        with self._lock:
            stored = self._store.catch_up().budgets
        return in_force([*stored, self.budget] if self.budget else stored)

    @property
    def secret(self) -> bytes:
        """Random bytes of whoever keeps the ledger, the same whenever it is opened."""
        with self._lock:
            if self._secret is None:
                self._secret = self._store.secret()
            return self._secret

    def begin(self, about: Mapping[str, Any], resumes: bool = True) -> bool:
        """Give the run an identifier: a random one, or that of a run with the same public facts that did not end.

        Without names or files nobody knows whether party 0 is the same as before: such a run never `resumes`.

        Return True if a run is resumed that has released something.
        """
        facts = json.dumps(about, sort_keys=True, default=repr)
        same = "SELECT run FROM runs WHERE about = ? AND run NOT IN (SELECT run FROM ended) ORDER BY rowid DESC LIMIT 1"
        with self._lock, self._store.alone():
            found = self._store.execute(same, facts) if resumes else []
            self.run = found[0][0] if found else secrets.token_hex(IDENTIFIER)
            if not found:
                self._store.execute("INSERT INTO runs VALUES (?, ?)", self.run, facts)
            return any(run == self.run for run, _ in self._store.catch_up().releases)

    def end(self) -> None:
        """Mark the run as ended: it is never resumed."""
        new = "INSERT INTO ended SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM ended WHERE run = ?1)"
        with self._lock, self._store.alone():
            self._store.execute(new, self.run)

    @property
    def started(self) -> str | None:
        """When the first entry of this run was written (UTC, ISO 8601), also where the run was resumed later."""
        with self._lock:
            return min((at for at, run, _ in self._store.catch_up().rows if run == self.run), default=None)

    def of(self, site: str) -> "SiteLedger":
        return SiteLedger(self, site)

    def releases(self, site: str | None = None, run: str | None = None) -> list[Release]:
        """Every release in the order of writing; of one site, or of one run."""
        with self._lock:
            known = self._store.catch_up().releases
        return [row for known_run, row in known if run in (None, known_run) and site in (None, row.site)]

    def check_plan(self, planned: Sequence[Release]) -> None:
        """Refuse a run that would exceed what may be spent, before any training."""
        if self.cap:
            self.cap.check([], planned, "this run")
        self._check_budgets(planned, "this run", without=self.run)

    def _check_budgets(self, more: Sequence[Release], what: str, without: str | None = None) -> None:
        """Refuse what would exceed a budget, added to all that was released; `without` leaves out one run."""
        if not (budgets := self.budgets):
            return
        with self._lock:
            spent = [each for each in self._store.catch_up().releases if each[0] != without]
        before, after = over_runs(spent), over_runs([*spent, *((self.run, row) for row in more)])
        for budget in budgets:
            budget.check(before, after, what)

    def record(self, row: Release, noisy: Callable[[], Array] | None) -> tuple[bool, Array | None]:
        """Write a release, and what its mechanism draws; what was drawn before is not drawn again.

        A release may be written first and drawn later. Return whether it was recorded before, and what was drawn.
        """
        with self._lock:
            with self._store.alone():
                self._store.catch_up()
                known, drawn = self._recorded(row), self._find("drawn", row)
                new = [] if known else self._allowed(row)
                if drawn is None and noisy is not None:
                    drawn = self._drawn(row, noisy())
                    new.append(drawn)
                self._store.append(new)
            if new:
                self._store.keep_head()
        return known is not None, None if drawn is None or drawn.drawn is None else load(drawn.drawn)["drawn"]

    def _recorded(self, row: Release) -> Entry | None:
        """This release, where it is recorded; or refuse another one at its place."""
        known = self._find("release", row)
        if known and known.body != _text(row):
            raise LimbeckError(f"{self._store.where}: {row.site} has released something else in this run before")
        return known

    def _find(self, kind: str, row: Release) -> Entry | None:
        return self._store.find((kind, self.run, row.site, row.turn, row.number))

    def _allowed(self, row: Release) -> list[Entry]:
        """A new release, after the budget that allows it where the ledger does not keep that yet; or refuse."""
        what = f"{row.site}: {row.what}"
        if self.cap:
            own = self.releases(run=self.run)
            self.cap.check(own, [*own, row], what)
        self._check_budgets([row], what)
        new, stored = [self._entry("release", row, _text(row))], self._store.contents.budgets
        if self.budget is not None and self.budget not in stored:
            new.insert(0, Entry(0, _now(), "budget", self.run, "", 0, len(stored), _text(self.budget), None))
        return new

    def _drawn(self, row: Release, value: Array) -> Entry:
        secret = row.mechanism in MECHANISMS and MECHANISMS[row.mechanism].secret
        data = save({"drawn": np.ascontiguousarray(value)})
        return self._entry("drawn", row, json.dumps({"secret": secret}), data)

    def _entry(self, kind: str, row: Release, body: str, drawn: bytes | None = None) -> Entry:
        return Entry(0, _now(), kind, self.run, row.site, row.turn, row.number, body, drawn)

    def close(self) -> None:
        self._store.close()


@dataclass(frozen=True, slots=True)
class SiteLedger:
    """One site's part of a book."""

    store: LedgerStore
    site: str

    @property
    def rows(self) -> list[Release]:
        return self.store.releases(self.site, self.store.run)

    def write(self, row: Release) -> bool:
        return self.store.record(row, None)[0]

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        _, drawn = self.store.record(row, noisy)
        assert drawn is not None
        return drawn


def read_ledger(path: Path) -> list[tuple[str, str, Release]]:
    """When, in which run, and what: every release in a ledger's file, which is verified."""
    return read_contents(path)[0].rows


def _text(row: Release | Budget) -> str:
    return json.dumps(asdict(row), sort_keys=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
