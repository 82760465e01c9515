"""The hash chain of a ledger: an entry that was changed, removed or inserted is noticed.

Each entry holds the SHA-256 digest of its own fields and the digest before. The last one, the head, is also kept in a
file beside the ledger, so that entries removed from the end are noticed. What a secret mechanism drew is in no digest.
The chain starts from random bytes, the origin: without the ledger a head tells nothing about what is in it.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError
from limbeck.privacy.budget import Budget
from limbeck.protocol.release import Release

Head = tuple[int, str]  # how many entries there are, and the digest of the last
Position = tuple[str, str, str, int, int]  # kind, run, site, turn, number


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: a release, what was drawn for it, or a budget; `body` is JSON."""

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
        hidden = self.drawn is not None and self.kind == "drawn" and _is_secret(self.body)
        covered = astuple(replace(self, drawn=None) if hidden else self)[:-1]
        return sha256(json.dumps([before, *covered], default=lambda blob: ["blob", blob.hex()]).encode()).hexdigest()


def _is_secret(body: Any) -> bool:
    try:
        return json.loads(body)["secret"] is True
    except (ValueError, TypeError, KeyError):
        return False


@dataclass(slots=True)
class Contents:
    """The entries of a ledger that were verified, without what was drawn; `where` is the ledger's name in messages."""

    where: str
    origin: str
    digests: list[str] = field(default_factory=list)
    positions: dict[Position, int] = field(default_factory=dict)
    rows: list[tuple[str, str, Release]] = field(default_factory=list)  # when, in which run, and what
    budgets: list[Budget] = field(default_factory=list)

    @property
    def head(self) -> Head:
        return len(self.digests), self.before(len(self.digests) + 1)

    def before(self, number: int) -> str:
        """The digest that an entry is chained to."""
        return self.digests[number - 2] if number > 1 else self.origin

    @property
    def releases(self) -> list[tuple[str, Release]]:
        return [(run, row) for _, run, row in self.rows]

    def take(self, entries: Iterable[Entry]) -> None:
        """Verify the entries that follow those known already; raise at the first that does not fit."""
        for entry in entries:
            number = len(self.digests) + 1
            if entry.id != number:
                raise missing(self.where, number)
            if entry.digest != entry.digest_after(self.before(number)):
                raise changed(self.where, number)
            self._add(entry)

    def check_head(self, stored: Head, source: str) -> None:
        """Refuse a ledger that does not contain a head that was kept elsewhere."""
        number, digest = stored
        if number > len(self.digests):
            raise missing(self.where, len(self.digests) + 1, f": {source} names {number} entries")
        if self.digests and self.before(number + 1) != digest:
            raise changed(self.where, max(number, 1), f": {source} names another one")

    def _add(self, entry: Entry) -> None:
        self.digests.append(entry.digest)
        self.positions[entry.kind, entry.run, entry.site, entry.turn, entry.number] = entry.id
        try:
            if entry.kind == "release":
                self.rows.append((entry.at, entry.run, Release(**json.loads(entry.body))))
            if entry.kind == "budget":
                self.budgets.append(Budget(**json.loads(entry.body)))
        except (TypeError, ValueError) as error:
            raise LimbeckError(f"{self.where}: entry {entry.id} was written by another version: {error}") from error


def missing(where: str, number: int, why: str = "") -> LimbeckError:
    return LimbeckError(f"{where}: entry {number} is missing{why}; restore the ledger from a copy")


def changed(where: str, number: int, why: str = "") -> LimbeckError:
    message = f"{where}: entry {number} was changed, or was inserted or removed before it"
    return LimbeckError(f"{message}{why}; restore the ledger from a copy")


def head_file(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.head")


def read_head(ledger: Path) -> Head | None:
    """The head that is kept beside a ledger; None where there is no such file."""
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
    try:
        with AtomicFile(head_file(ledger), private=True) as file:
            file.write(f"{head[0]} {head[1]}\n".encode())
    except OSError as error:
        raise LimbeckError(f"{head_file(ledger)} cannot be written: {error.strerror}") from error
