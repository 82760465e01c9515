"""Envelopes between organisations: a question to one party and its answer, with everything that their checks need."""

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from limbeck.errors import LimbeckError
from limbeck.protocol.task import MULTICLASS, Task

MAGIC = b"limbeck1"
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # a run's name is also a file name
MAX_PARTIES = 100_000
LAST_TURN = 10**6
MAX_HEADER_BYTES = 16 * 2**20
ASSUMED_ROWS = 10**6  # for plans that must not depend on a party's row count


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a run, the same for all parties and questions: a party accepts or rejects them.

    Parameters
    ----------
    algorithm : str
        Name of the algorithm.
    parameters : mapping of str to object
        Its parameters, as in a TOML table.
    parties : int
        Number of parties.
    seed : int
        Seed of the run.
    classes : sequence of str
        Names of the classes.
    public : str
        Content hash of the public rows.
    schema : str or None
        How the rows of a table become numbers, as JSON.
    labelled : bool
        Whether the public rows have labels that everybody may use.
    features : str or None
        Hash of the map from rows to features; None if the rows stay as they are.
    task : Task
        Kind of the labels, and the public range of a numeric target.
    class_weights : sequence of float or None
        Weight of each class, at most 1, by which each party weights its rows; None if all rows count the same.
    """

    algorithm: str
    parameters: Mapping[str, Any]
    parties: int
    seed: int
    classes: Sequence[str]
    public: str
    schema: str | None = None
    labelled: bool = False
    features: str | None = None
    task: Task = MULTICLASS
    class_weights: Sequence[float] | None = None


class _Envelope:
    """A JSON header, followed by the bytes of the field that `payload` names."""

    __slots__ = ()
    payload: ClassVar[str]

    def encode(self) -> bytes:
        """Encode the envelope as bytes."""
        table = asdict(self)  # type: ignore[call-overload]
        data: bytes = table.pop(self.payload)
        header = json.dumps(table, sort_keys=True).encode()
        return MAGIC + struct.pack("<I", len(header)) + header + data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode an envelope, or raise LimbeckError if its format, fields or ranges are wrong."""
        start = len(MAGIC) + 4
        if data[: len(MAGIC)] != MAGIC or len(data) < start:
            raise LimbeckError("not an envelope of Limbeck")
        (length,) = struct.unpack("<I", data[len(MAGIC) : start])
        if length > min(MAX_HEADER_BYTES, len(data) - start):
            raise LimbeckError("the header of an envelope is longer than the envelope, or too long")
        try:
            table = json.loads(data[start : start + length])
            if not isinstance(table, dict):
                raise LimbeckError("the header of an envelope is not a JSON object")
            envelope = TypeAdapter(cls).validate_python({**table, cls.payload: data[start + length :]}, extra="forbid")
        except (ValueError, RecursionError) as error:
            raise LimbeckError(f"cannot read an envelope: {str(error).splitlines()[0][:200]}") from error
        envelope.check()
        return envelope

    def check(self) -> None:
        """Raise LimbeckError if a field is out of range."""


@dataclass(frozen=True, slots=True)
class RequestEnvelope(_Envelope):
    """A request to one party.

    A server can repeat a count with the answers of a late party. This is a run of its own, which copies the answers of
    the earlier run.

    Parameters
    ----------
    run : str
        Identifier of the run.
    turn : int
        Number of the request in the run, from 0.
    party : int
        Number of the party.
    terms : Terms
        Terms of the run.
    request : bytes
        The encoded request.
    counted : str or None
        The later run that counts the answer, where it is not `run`.
    after : str or None
        The earlier run whose answers `run` counts again.
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
        """All runs that the question belongs to."""
        return [name for name in (self.run, self.counted, self.after) if name is not None]

    @property
    def counted_in(self) -> str:
        """The run that counts the answer."""
        return self.counted or self.run

    @property
    def answered_in(self) -> str | None:
        """The earlier run whose answers are counted again; None where nothing is counted again."""
        return self.run if self.counted else self.after

    @property
    def hash(self) -> str:
        """SHA-256 of the request."""
        return hash_of(self.request)

    def check(self) -> None:
        for name in self.runs:
            if not RUN.fullmatch(name):
                raise LimbeckError(f"an envelope names the run {name[:40]!r}, which is not a valid run name")
        if not 0 <= self.turn <= LAST_TURN or not 0 < self.terms.parties <= MAX_PARTIES:
            raise LimbeckError(f"an envelope names turn {self.turn} or {self.terms.parties} parties: out of range")
        if self.terms.class_weights is not None:
            check_class_weights(self.terms.class_weights, self.terms.classes)


@dataclass(frozen=True, slots=True)
class ReplyEnvelope(_Envelope):
    """A party's answer to a question: a reply or a refusal.

    Parameters
    ----------
    run : str
        Identifier of the run.
    turn : int
        Number of the request in the run, from 0.
    party : int
        Number of the party.
    question : str
        Hash of the request that is answered.
    refusal : str or None
        Why the party does not reply, in words that reveal nothing about its rows.
    releases : sequence of mapping
        The rows that this answer wrote into the party's ledger.
    reply : bytes
        The encoded reply; empty with a refusal.
    """

    payload: ClassVar[str] = "reply"
    run: str
    turn: int
    party: int
    question: str
    refusal: str | None = None
    releases: Sequence[Mapping[str, Any]] = ()
    reply: bytes = field(default=b"", repr=False)

    def check_belongs_to(self, question: RequestEnvelope) -> None:
        """Raise LimbeckError if the answer is for another run, turn, party or request than the question."""
        for received, expected, what in (
            (self.run, question.run, "run"),
            (self.turn, question.turn, "turn"),
            (self.party, question.party, "party"),
            (self.question, question.hash, "question"),
        ):
            if received != expected:
                raise LimbeckError(f"an answer for {what} {str(received)[:40]!r}, not {str(expected)[:40]!r}")


def check_class_weights(weights: Sequence[float], classes: Sequence[str]) -> None:
    """Raise LimbeckError unless there is one weight from 0 to 1 for each class, and one of them is above 0."""
    if len(weights) != len(classes) or not all(0 <= weight <= 1 for weight in weights) or not any(weights):
        raise LimbeckError("class_weights must have a number from 0 to 1 for each class, at least one above 0")


def hash_of(data: bytes) -> str:
    """Return the SHA-256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
