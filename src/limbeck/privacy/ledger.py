"""The ledger: a release is recorded before it leaves and is never changed. A retry sends the recorded value."""

import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError
from limbeck.privacy.budget import Budget as Budget
from limbeck.privacy.budget import check_tightens, in_force
from limbeck.privacy.chain import Contents, Entry, Head
from limbeck.privacy.mechanisms import MECHANISMS
from limbeck.privacy.over_runs import check_site_names as check_site_names
from limbeck.privacy.over_runs import over_runs as over_runs
from limbeck.privacy.store import UNFINISHED, LedgerFile, text_of
from limbeck.privacy.store import files_of as files_of
from limbeck.privacy.store import read_contents as read_contents
from limbeck.privacy.store import unfinished_run as unfinished_run
from limbeck.protocol.release import Release
from limbeck.protocol.rows import Array

IDENTIFIER = 16  # random bytes


@dataclass(slots=True)
class LedgerStore:
    """The ledgers of all sites in one run, in memory or in a file that several runs can share.

    Parameters
    ----------
    path : Path, optional
        SQLite file; without it the ledger is in memory.
    run : str
        Identifier of the run; `begin` sets it.
    budget : Budget, optional
        What all runs in the file together may spend. The ledger keeps it from the first release that it allows, and it
        stays in force for every later run.
    cap : Budget, optional
        What this run alone may spend.

    Raises
    ------
    LimbeckError
        If the file is not a ledger, was changed, or keeps a smaller budget.
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
        """Number of entries, and digest of the last one."""
        with self._lock:
            return self._store.catch_up().head

    def check_head(self, stored: Head, source: str) -> None:
        """Raise `LimbeckError` unless the ledger contains a head that was kept in `source`."""
        with self._lock:
            self._store.catch_up().check_head(stored, source)

    @property
    def budgets(self) -> list[Budget]:
        """Budgets in force: those that the ledger keeps, and that of this run."""
        with self._lock:
            return self._in_force(self._store.catch_up())

    def _in_force(self, contents: Contents) -> list[Budget]:
        return in_force([*contents.budgets, self.budget] if self.budget else contents.budgets)

    @property
    def secret(self) -> bytes:
        """Secret random bytes of the site, which stay the same when the ledger is opened again."""
        with self._lock:
            if self._secret is None:
                self._secret = self._store.secret()
            return self._secret

    def begin(self, about: Mapping[str, Any], resumes: bool = True) -> bool:
        """Give the run an identifier: that of a run with the same public facts that did not end, or a random one.

        Parameters
        ----------
        about : mapping
            Public facts of the run.
        resumes : bool
            Whether an earlier run may be resumed. It may not if parties have neither names nor files, because nobody
            then knows whether party 0 is the same as before.

        Returns
        -------
        bool
            Whether a run is resumed that has released something.
        """
        facts = text_of(about)
        with self._lock, self._store.alone():
            found = self._store.execute(UNFINISHED, facts) if resumes else []
            self.run = found[0][0] if found else secrets.token_hex(IDENTIFIER)
            if not found:
                self._store.execute("INSERT INTO runs VALUES (?, ?)", self.run, facts)
            return any(run == self.run for run, _ in self._store.catch_up().releases)

    def end(self) -> None:
        """Mark the run as ended, so that it is never resumed."""
        new = "INSERT INTO ended SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM ended WHERE run = ?1)"
        with self._lock, self._store.alone():
            self._store.execute(new, self.run)

    @property
    def started(self) -> str | None:
        """Time of the first release of this run (UTC, ISO 8601), also if the run was resumed; None without releases."""
        with self._lock:
            return min((at for at, run, _ in self._store.catch_up().rows if run == self.run), default=None)

    def of(self, site: str) -> "SiteLedger":
        """Ledger of one site."""
        return SiteLedger(self, site)

    def releases(self, site: str | None = None, run: str | None = None) -> list[Release]:
        """All releases in the order of writing, or those of one site or one run."""
        with self._lock:
            contents = self._store.catch_up()
            if site is not None and run is not None:
                return list(contents.of_site.get((run, site), ()))
            return [row for known, row in contents.releases if run in (None, known) and site in (None, row.site)]

    def check_plan(self, planned: Sequence[Release]) -> None:
        """Raise `LimbeckError` if the planned releases of a run would exceed a budget."""
        if self.cap:
            self.cap.check([], planned, "this run")
        with self._lock:
            self._check_budgets(self._store.catch_up(), planned, "this run", without=self.run)

    def _check_budgets(
        self, contents: Contents, more: Sequence[Release], what: str, without: str | None = None
    ) -> None:
        """Raise if all releases so far and some more exceed a budget; releases of the run `without` do not count."""
        if budgets := self._in_force(contents):
            spent = [each for each in contents.releases if each[0] != without]
            check_within(budgets, spent, [(self.run, row) for row in more], what)

    def record(self, row: Release, noisy: Callable[[], Array] | None) -> tuple[bool, Array | None]:
        """Record a release and what its mechanism draws. A recorded value is not drawn again.

        Parameters
        ----------
        row : Release
            The release.
        noisy : function, optional
            Applies the mechanism; None to record the release first and draw later.

        Returns
        -------
        (bool, array or None)
            Whether the release was already recorded, and what was drawn for it.

        Raises
        ------
        LimbeckError
            If the release would exceed a budget, or if another one was recorded in its place.
        """
        with self._lock:
            with self._store.alone():
                self._store.catch_up()
                known, drawn = self._recorded(row), self._find("drawn", row)
                new = [] if known else self._allowed(row)
                if drawn is None and noisy is not None:
                    drawn = self._drawn(row, noisy())
                    new.append(drawn)
                new = self._store.append(new)
            if new:
                self._store.committed(new)
        return known is not None, None if drawn is None or drawn.drawn is None else load(drawn.drawn)["drawn"]

    def _recorded(self, row: Release) -> Entry | None:
        """Entry of this release, or None; raise if another release was recorded in its place."""
        known = self._find("release", row)
        if known and known.body != _text(row):
            raise LimbeckError(f"{self._store.where}: {row.site} has released something else in this run before")
        return known

    def _find(self, kind: str, row: Release) -> Entry | None:
        return self._store.find((kind, self.run, row.site, row.turn, row.number))

    def _allowed(self, row: Release) -> list[Entry]:
        """Entries for a new release, after its budget if the ledger does not keep it yet; raise beyond a budget."""
        what = f"{row.site}: {row.what}"
        if self.cap:
            own = self.releases(run=self.run)
            self.cap.check(own, [*own, row], what)
        self._check_budgets(self._store.contents, [row], what)
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
        """Close the file."""
        self._store.close()


@dataclass(frozen=True, slots=True)
class SiteLedger:
    """Part of a ledger that belongs to one site in one run.

    Parameters
    ----------
    store : LedgerStore
        The ledger.
    site : str
        Name of the site.
    """

    store: LedgerStore
    site: str

    @property
    def rows(self) -> list[Release]:
        """Releases of this site in this run."""
        return self.store.releases(self.site, self.store.run)

    def write(self, row: Release) -> bool:
        """Record a release, or raise. Return True if it was already recorded."""
        return self.store.record(row, None)[0]

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        """Record and return what the mechanism draws for a release; return the recorded draw if there is one."""
        _, drawn = self.store.record(row, noisy)
        assert drawn is not None
        return drawn


def check_within(
    budgets: Sequence[Budget], spent: Sequence[tuple[str, Release]], more: Sequence[tuple[str, Release]], what: str
) -> None:
    """Raise `LimbeckError` if releases exceed a budget.

    Parameters
    ----------
    budgets : sequence of Budget
        The budgets.
    spent : sequence of (str, Release)
        Releases so far, each with the identifier of its run.
    more : sequence of (str, Release)
        New releases.
    what : str
        Name of the new ones in the message.
    """
    before, after = over_runs(spent), over_runs([*spent, *more])
    for budget in budgets:
        budget.check(before, after, what)


def read_ledger(path: Path) -> list[tuple[str, str, Release]]:
    """Verify the file of a ledger, and return time, run and content of each release."""
    return read_contents(path)[0].rows


def _text(row: Release | Budget) -> str:
    return json.dumps({part.name: getattr(row, part.name) for part in fields(row)}, sort_keys=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
