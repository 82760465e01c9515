"""Letters between organisations: a question to one party and its answer, each with all that is needed to judge it."""

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from limbeck.errors import LimbeckError

MAGIC = b"limbeck1"
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # a run's name is the name of files, too
MAX_PARTIES = 100_000
LAST_TURN = 10**6
MAX_HEADER_BYTES = 16 * 2**20
ASSUMED_ROWS = 10**6  # rows, where a plan must not depend on how many a party has


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run is, the same for all parties and all its questions: what a party agrees to, or refuses."""

    algorithm: str
    parameters: Mapping[str, Any]
    parties: int
    seed: int
    classes: Sequence[str]
    public: str  # the hash of the public rows
    schema: str | None = None  # how rows of a table become numbers, as JSON
    labelled: bool = False  # the public rows have labels that everybody may use


class _Envelope:
    """A header of JSON, and the bytes of the field that `payload` names."""

    __slots__ = ()
    payload: ClassVar[str]

    def encode(self) -> bytes:
        table = asdict(self)  # type: ignore[call-overload]
        data: bytes = table.pop(self.payload)
        header = json.dumps(table, sort_keys=True).encode()
        return MAGIC + struct.pack("<I", len(header)) + header + data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        start = len(MAGIC) + 4
        if data[: len(MAGIC)] != MAGIC or len(data) < start:
            raise LimbeckError("not a letter of Limbeck's")
        (length,) = struct.unpack("<I", data[len(MAGIC) : start])
        if length > min(MAX_HEADER_BYTES, len(data) - start):
            raise LimbeckError("a letter whose heading is longer than itself")
        try:
            table = json.loads(data[start : start + length])
            if not isinstance(table, dict):
                raise LimbeckError("a letter whose heading is no table")
            envelope = TypeAdapter(cls).validate_python({**table, cls.payload: data[start + length :]}, extra="forbid")
        except (ValueError, RecursionError) as error:
            raise LimbeckError(f"a letter that cannot be read: {str(error).splitlines()[0][:200]}") from error
        envelope.check()
        return envelope

    def check(self) -> None:
        """Raise if the fields are out of range."""


@dataclass(frozen=True, slots=True)
class Question(_Envelope):
    """A request to one party; `request` are its bytes on the wire.

    Where a server counts again with a late party, its answers are `counted` in another run than the one that it missed,
    and questions of that other run come `after` the one whose answers are counted again.
    """

    payload: ClassVar[str] = "request"
    run: str
    turn: int
    party: int
    terms: Terms
    request: bytes = field(repr=False)
    counted: str | None = None
    after: str | None = None

    @property
    def runs(self) -> list[str]:
        """All runs that the question is about."""
        return [name for name in (self.run, self.counted, self.after) if name is not None]

    @property
    def counted_in(self) -> str:
        return self.counted or self.run

    @property
    def answered_in(self) -> str | None:
        """The run in which parties told what is counted again; None where nothing is."""
        return self.run if self.counted else self.after

    @property
    def hash(self) -> str:
        return hash_of(self.request)

    def check(self) -> None:
        for name in self.runs:
            if not RUN.fullmatch(name):
                raise LimbeckError(f"a letter of a run with the name {name[:40]!r}")
        if not 0 <= self.turn <= LAST_TURN or not 0 < self.terms.parties <= MAX_PARTIES:
            raise LimbeckError(f"a letter of turn {self.turn}, for {self.terms.parties} parties")


@dataclass(frozen=True, slots=True)
class Answer(_Envelope):
    """What a party says: `reply` are its reply's bytes, or there is a `refusal` that both sides can read.

    `question` is the hash of the request that is answered, `releases` are the rows that this answer wrote into the
    party's ledger.
    """

    payload: ClassVar[str] = "reply"
    run: str
    turn: int
    party: int
    question: str
    refusal: str | None = None
    releases: Sequence[Mapping[str, Any]] = ()
    reply: bytes = field(default=b"", repr=False)

    def check_belongs_to(self, question: Question) -> None:
        """Refuse what answers something else, or comes from somebody else than it says."""
        for received, expected, what in (
            (self.run, question.run, "run"),
            (self.turn, question.turn, "turn"),
            (self.party, question.party, "party"),
            (self.question, question.hash, "question"),
        ):
            if received != expected:
                raise LimbeckError(f"it speaks of {what} {str(received)[:40]!r}, not {str(expected)[:40]!r}")


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
