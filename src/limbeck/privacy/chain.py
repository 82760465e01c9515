"""The hash chain of a ledger: an entry that was changed, removed or inserted is noticed.

Each entry contains the SHA-256 digest of its own fields and of the digest before. The last digest, the head, is also
kept in a file beside the ledger, so that entries removed from the end are noticed. No digest covers what a secret
mechanism drew. The chain starts from random bytes, the origin: without the ledger, a head reveals nothing about its
entries.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError
from limbeck.privacy.budget import Budget
from limbeck.protocol.release import Release

Head = tuple[int, str]  # number of entries, digest of the last one
Position = tuple[str, str, str, int, int]  # kind, run, site, turn, number


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a ledger: a release, what was drawn for it, or a budget.

    Parameters
    ----------
    id : int
        Number of the entry, from 1.
    at : str
        Time of writing (UTC, ISO 8601).
    kind : {"release", "drawn", "budget"}
        Kind of entry.
    run : str
        Identifier of the run.
    site : str
        Name of the site; empty for a budget.
    turn : int
        Turn of the run in which the value was released.
    number : int
        Number of the release of this site in this turn.
    body : str
        The content, as JSON.
    drawn : bytes, optional
        What a mechanism drew, as safetensors.
    digest : str
        Digest of this entry, in hexadecimal.
    """

    id: int
    at: str
    kind: str
    run: str
    site: str
    turn: int
    number: int
    body: str
    drawn: bytes | None
    digest: str = ""

    def digest_after(self, before: str) -> str:
        """Digest of this entry after an entry with the digest `before`."""
        hidden = self.drawn is not None and self.kind == "drawn" and _is_secret(self.body)
        drawn = None if hidden else self.drawn
        covered = (self.id, self.at, self.kind, self.run, self.site, self.turn, self.number, self.body, drawn)
        return sha256(json.dumps([before, *covered], default=lambda blob: ["blob", blob.hex()]).encode()).hexdigest()


def _is_secret(body: Any) -> bool:
    try:
        return json.loads(body)["secret"] is True
    except (ValueError, TypeError, KeyError):
        return False


@dataclass(slots=True)
class Contents:
    """The verified entries of a ledger, without what was drawn.

    Parameters
    ----------
    where : str
        Name of the ledger in messages.
    origin : str
        Random start of the chain, in hexadecimal.
    digests : list of str
        Digests of all entries.
    positions : dict of tuple to int
        Numbers of the entries, by kind, run, site, turn and number.
    rows : list of (str, str, Release)
        Time, run and content of each release.
    of_site : dict of (str, str) to list of Release
        The releases of each run and site.
    budgets : list of Budget
        Budgets in the order of writing.
    """

    where: str
    origin: str
    digests: list[str] = field(default_factory=list)
    positions: dict[Position, int] = field(default_factory=dict)
    rows: list[tuple[str, str, Release]] = field(default_factory=list)
    of_site: dict[tuple[str, str], list[Release]] = field(default_factory=dict)
    budgets: list[Budget] = field(default_factory=list)

    @property
    def head(self) -> Head:
        """Number of entries, and digest of the last one."""
        return len(self.digests), self.before(len(self.digests) + 1)

    def before(self, number: int) -> str:
        """Digest that the entry with this number is chained to."""
        return self.digests[number - 2] if number > 1 else self.origin

    @property
    def releases(self) -> list[tuple[str, Release]]:
        """Run and content of each release."""
        return [(run, row) for _, run, row in self.rows]

    def take(self, entries: Iterable[Entry]) -> None:
        """Verify and add the next entries; raise `LimbeckError` at the first that does not fit the chain."""
        for entry in entries:
            number = len(self.digests) + 1
            if entry.id != number:
                raise missing(self.where, number)
            if entry.digest != entry.digest_after(self.before(number)):
                raise changed(self.where, number)
            self._add(entry)

    def check_head(self, stored: Head, source: str) -> None:
        """Raise `LimbeckError` unless the ledger contains a head that was kept elsewhere.

        Parameters
        ----------
        stored : (int, str)
            The head: number of entries and digest of the last one.
        source : str
            Where it was kept, for the message.
        """
        number, digest = stored
        if number > len(self.digests):
            raise missing(self.where, len(self.digests) + 1, f": {source} names {number} entries")
        if self.digests and self.before(number + 1) != digest:
            raise changed(self.where, max(number, 1), f": {source} names another digest")

    def _add(self, entry: Entry) -> None:
        self.digests.append(entry.digest)
        self.positions[entry.kind, entry.run, entry.site, entry.turn, entry.number] = entry.id
        try:
            if entry.kind == "release":
                row = Release(**json.loads(entry.body))
                self.rows.append((entry.at, entry.run, row))
                self.of_site.setdefault((entry.run, row.site), []).append(row)
            if entry.kind == "budget":
                self.budgets.append(Budget(**json.loads(entry.body)))
        except (TypeError, ValueError) as error:
            message = f"{self.where}: entry {entry.id} was written by another version of Limbeck: {error}"
            raise LimbeckError(message) from error


def missing(where: str, number: int, why: str = "") -> LimbeckError:
    """Error for an entry that is missing."""
    return LimbeckError(f"{where}: entry {number} is missing{why}; restore the ledger from a copy")


def changed(where: str, number: int, why: str = "") -> LimbeckError:
    """Error for an entry that does not fit the chain."""
    message = f"{where}: entry {number} was changed, or an entry was inserted or removed before it"
    return LimbeckError(f"{message}{why}; restore the ledger from a copy")


def head_file(ledger: Path) -> Path:
    """Path of the file beside a ledger that keeps its head."""
    return ledger.with_name(f"{ledger.name}.head")


def read_head(ledger: Path) -> Head | None:
    """Head that is kept beside a ledger; None if there is no such file."""
    path = head_file(ledger)
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise LimbeckError(f"cannot read {path}: {error}") from error
    if not (found := re.fullmatch(r"(\d+) ([0-9a-f]{64})\n?", text)):
        raise LimbeckError(f"{path} must hold the number of entries and the digest of the last one, in one line")
    return int(found[1]), found[2]


def write_head(ledger: Path, head: Head) -> None:
    """Replace the head that is kept beside a ledger."""
    try:
        with AtomicFile(head_file(ledger), private=True) as file:
            file.write(f"{head[0]} {head[1]}\n".encode())
    except OSError as error:
        raise LimbeckError(f"{head_file(ledger)} cannot be written: {error.strerror}") from error
