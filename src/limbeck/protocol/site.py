"""Where an algorithm's halves run: the server is a site, a party is a silo."""

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256, shake_256
from typing import Any, TypeVar, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.disclosures import Declare, Disclosure, Facts, Origin, by_name
from limbeck.protocol.learning import FitError, Guarded, Job, Model, Trainer, guarded_results
from limbeck.protocol.messages import Acknowledgement, Message, is_private
from limbeck.protocol.release import Ledger, MemoryLedger, Noise, NoiseSource, Release
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.streams import stream

T = TypeVar("T")
V = TypeVar("V")
DISCLOSED = "disclosed"  # in a site's memory: how often each thing has left


@dataclass(slots=True, kw_only=True)
class Site:
    """The server's place: public rows, a kind of model, and two ways to act, `train` and `disclose`.

    `parties` take part, as was agreed. `private_level`: the algorithm protects something. `secret` are random bytes of
    this site's own, which with the identifier of the `run` decide how rows are cut; without them the seed decides, as
    in simulations.
    """

    public: PublicRows
    classes: int
    model: Model
    seed: int
    trainer: Trainer
    ledger: Ledger = field(default_factory=MemoryLedger)
    noise: Noise = "simulated"
    parties: int = 1
    private_level: bool = False
    secret: bytes | None = None
    run: str = ""
    turn: int = 0
    progress: bytes | None = None  # weights of the server's network as they stand between rounds, for learning curves
    memory: dict[str, Array | bytes] = field(default_factory=dict)
    declare: Declare = lambda run: ()
    predicted: dict[tuple[bytes, int], tuple[Array, Array]] = field(default_factory=dict)  # by packed models, kept
    rng: np.random.Generator = field(init=False)
    _declared: dict[str, Disclosure] | None = field(default=None, init=False)
    _released: list[Message] = field(default_factory=list, init=False)
    _trained: int = field(default=0, init=False)
    _releases: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.begin(self.turn)

    @property
    def name(self) -> str:
        return "server"

    @property
    def origin(self) -> Origin:
        return "server" if self.name == "server" else "party"

    @property
    def facts(self) -> Facts:
        """What everybody knows of the run."""
        return Facts(len(self.public), self.classes, self.parties, self.noise)

    def begin(self, turn: int) -> None:
        """Start answering request number `turn`: randomness depends on the seed, the site and the turn alone."""
        self.turn, self._trained, self._releases = turn, 0, 0
        self.rng = stream(self.seed, *self._stream_key, turn)
        self._released = []

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        """The only way to train: results in the order of the jobs.

        A job's seed depends on its place in this call alone, so that what two runs have in common is common work.
        """
        return self._fit(jobs, self._seeds(len(jobs)))

    def _seeds(self, count: int) -> list[int]:
        rng = stream(self.seed, *self._stream_key, self.turn, "train", self._trained)
        self._trained += 1
        return [int(seed) for seed in rng.integers(2**31, size=count)]

    def _fit(self, jobs: Sequence[Job[T]], seeds: Sequence[int]) -> list[T]:
        try:
            return self.trainer.run(jobs, self.classes, seeds)
        except FitError as error:
            raise LimbeckError(f"{self.name}: {error}") from error

    def silo(self, rows: Rows) -> "Silo":
        """One party that holds these rows, here at the server: a federation of one.

        It discloses what is declared for the server; its randomness is that of party 0.
        """
        shared = ("public", "classes", "model", "seed", "trainer", "ledger", "noise", "private_level", "secret", "run")
        own: dict[str, Any] = {name: getattr(self, name) for name in shared}
        return Silo(**own, declare=lambda run: self.declare(self.facts), party=0, private=rows, title=self.name)

    def disclose(self, what: str, value: V) -> V:
        """The only way out: record the declared disclosure `what`, and return what its mechanism makes of the value.

        The row is in the ledger before anything may leave. Asked again after a crash, noise is not drawn again.
        """
        if what not in self._declarations:
            raise LimbeckError(f"{self.name}: {what} was about to leave, but the algorithm does not declare it")
        declared, times = self._declarations[what], self._times(what)
        mechanism = declared.mechanism
        if times >= declared.times:
            raise LimbeckError(f"{self.name}: {what} is declared to leave {declared.times} times, not more")
        if mechanism.noisy and (asked := mechanism.asked(value, self.classes)) != declared.queries:
            raise LimbeckError(f"{self.name}: {what} is declared for {declared.queries} queries, not for {asked}")
        row = self._row(declared, times)
        source = NoiseSource(self.noise, self.seed, (*self._stream_key, self.turn, "noise", self._releases))
        self._releases += 1
        self._count(what, times + 1)
        if mechanism.noisy and not _is_secret(declared, self.noise):
            return cast(V, self.ledger.draw(row, lambda: mechanism.protect(value, source)))
        self.ledger.write(row)
        protected = mechanism.protect(value, source)
        if isinstance(protected, Message):
            for part in fields(protected):  # type: ignore[arg-type]
                if isinstance(array := getattr(protected, part.name), np.ndarray):
                    array.setflags(write=False)  # what was recorded cannot be changed afterwards
            self._released.append(protected)
        return cast(V, protected)

    @property
    def _declarations(self) -> dict[str, Disclosure]:
        if self._declared is None:
            self._declared = by_name(self.declare(self.facts), self.origin)
        return self._declared

    def _row(self, declared: Disclosure, times: int) -> Release:
        """The row of a disclosure's next release: one that was announced, or recorded before a crash, or a new one."""
        if not self.private_level:
            return declared.row(self.name, self.turn, self._releases, self.facts)
        known = [row for row in self.ledger.rows if row.what == declared.what]
        if times >= len(known) or _is_secret(declared, self.noise):  # a secret draw cannot be repeated: it is paid anew
            return declared.row(self.name, self.turn, self._next_number, self.facts)
        if known[times] != (row := declared.row(self.name, known[times].turn, known[times].number, self.facts)):
            raise LimbeckError(f"{row.site} has released something else in this run before")
        return row

    @property
    def _next_number(self) -> int:
        return 1 + max((row.number for row in self.ledger.rows if row.turn == self.turn), default=-1)

    def _times(self, what: str) -> int:
        """How often something has left this site in this run."""
        return int(json.loads(bytes(self.memory.get(DISCLOSED, b"{}"))).get(what, 0))

    def _count(self, what: str, times: int) -> None:
        known = json.loads(bytes(self.memory.get(DISCLOSED, b"{}")))
        self.memory[DISCLOSED] = json.dumps({**known, what: times}, sort_keys=True).encode()

    def check_released(self, message: Message) -> None:
        """Raise if a message that derives from private rows was not disclosed."""
        if is_private(message) and not any(message is passed for passed in self._released):
            raise LimbeckError(f"{self.name}: {type(message).__name__} was about to leave without being disclosed")

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("server",)


def _is_secret(declared: Disclosure, noise: Noise) -> bool:
    """Whether what is drawn is written down nowhere."""
    return noise == "secure" and declared.mechanism.secret


@dataclass(slots=True, kw_only=True)
class Silo(Site):
    """A party's place: its private rows, and a memory that survives its process."""

    party: int
    private: Rows
    title: str | None = None
    _is_announced: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.title or f"party {self.party}"

    @property
    def facts(self) -> Facts:
        """With the number of its rows in a simulation."""
        rows = len(self.private) if self.noise == "simulated" else None
        return Facts(len(self.public), self.classes, self.parties, self.noise, rows)

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("party", self.party)

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        """As at the server; at a private level a job that fails gives its substitute, and nobody outside notices."""
        seeds = self._seeds(len(jobs))
        if not self.private_level:
            return self._fit(jobs, seeds)
        self._announce()
        results = self._fit([Guarded(job) for job in jobs], seeds)
        return guarded_results(jobs, results, self.classes, seeds, self.name)

    def _announce(self) -> None:
        """Write the rows of all that this party is to release, before it trains: a failure costs what success would."""
        if self._is_announced:
            return
        for declared in self._declarations.values():
            if declared.is_free or _is_secret(declared, self.noise):
                continue
            known = sum(row.what == declared.what for row in self.ledger.rows)
            for _ in range(known, declared.times):
                self.ledger.write(declared.row(self.name, self.turn, self._next_number, self.facts))
        self._is_announced = True

    def hidden_bytes(self, purpose: str, count: int) -> bytes:
        """Bytes that nobody outside can know, the same whenever this run asks; in simulations from the seed."""
        if self.secret is None:
            return self.rng.bytes(count)
        key = hmac.digest(self.secret, f"{self.run}\0{self.name}\0{purpose}".encode(), sha256)
        return shake_256(key).digest(count)

    def hidden_order(self, purpose: str, count: int) -> Array:
        """A random order of so many rows, as hidden as `hidden_bytes`."""
        if self.secret is None:
            return self.rng.permutation(count)
        return np.argsort(np.frombuffer(self.hidden_bytes(purpose, 8 * count), np.uint64), kind="stable")

    def install(self, model: bytes) -> Acknowledgement:
        """Keep a fitted model as this party's own."""
        self.memory["model"] = model
        return Acknowledgement()

    @property
    def installed(self) -> bytes | None:
        model = self.memory.get("model")
        return model if isinstance(model, bytes) else None
