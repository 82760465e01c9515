"""Where an algorithm's halves run: the server is a site, a party is a silo."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256, shake_256
from typing import Any, TypeVar, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.guard import guarded_results
from limbeck.protocol.learning import FitError, Guarded, Job, Model, Trainer
from limbeck.protocol.messages import Done, Message, is_private
from limbeck.protocol.release import (
    Asked,
    Chance,
    Ledger,
    Mechanism,
    MemoryLedger,
    Noise,
    Observer,
    Release,
    release_row,
)
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.streams import stream

T = TypeVar("T")
V = TypeVar("V")
W = TypeVar("W")


def _gives(mechanism: Mechanism[Any, Any]) -> str:
    """What comes of a mechanism, in the ledger's words."""
    return str(getattr(mechanism, "gives", "labels"))


def _make_read_only(message: Message) -> None:
    for part in fields(message):  # type: ignore[arg-type]
        if isinstance(value := getattr(message, part.name), np.ndarray):
            value.setflags(write=False)


@dataclass(slots=True, kw_only=True)
class Site:
    """The server's place: public rows, a kind of model, and the two doors `train` and `release`.

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
    rng: np.random.Generator = field(init=False)
    _released: list[Message] = field(default_factory=list, init=False)
    _trained: int = field(default=0, init=False)
    _releases: int = field(default=0, init=False)
    _announced: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.begin(self.turn)

    @property
    def name(self) -> str:
        return "server"

    def begin(self, turn: int) -> None:
        """Start answering request number `turn`: chance depends on the seed, the site and the turn alone."""
        self.turn, self._trained, self._releases, self._announced = turn, 0, 0, 0
        self.rng = stream(self.seed, *self._stream_key, turn)
        self._released = []

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        """The only door to training: results in the order of the jobs.

        A job's seed depends on its place in this call alone, so that what two runs have in common is common work.
        """
        return self._fit(jobs, self._seeds(len(jobs)))

    def _seeds(self, count: int) -> list[int]:
        chance = stream(self.seed, *self._stream_key, self.turn, "train", self._trained)
        self._trained += 1
        return [int(seed) for seed in chance.integers(2**31, size=count)]

    def _fit(self, jobs: Sequence[Job[T]], seeds: Sequence[int]) -> list[T]:
        try:
            return self.trainer.run(jobs, self.classes, seeds)
        except FitError as error:
            raise LimbeckError(f"{self.name}: {error}") from error

    def silo(self, rows: Rows) -> "Silo":
        """One party that holds these rows, here at the server: what a federation of one would be.

        What it releases, the server does; its chance is that of party 0.
        """
        return Silo(
            public=self.public,
            classes=self.classes,
            model=self.model,
            seed=self.seed,
            trainer=self.trainer,
            ledger=self.ledger,
            noise=self.noise,
            parties=1,
            private_level=self.private_level,
            secret=self.secret,
            run=self.run,
            party=0,
            private=rows,
            title=self.name,
        )

    def announce(
        self,
        mechanism: Mechanism[Any, Any],
        observer: Observer,
        queries: int = 1,
        voters: int | None = None,
        abstentions: bool = False,
        what: str | None = None,
        turn: int | None = None,
    ) -> None:
        """Write the ledger's row of a release before the training that it needs: a failure costs what success would.

        Rows are announced in the order in which they are released later.
        """
        asked = Asked(queries, self.classes, voters, abstentions, self.noise)
        at, number = (self.turn, max(self._announced, self._releases)) if turn is None else (turn, 0)
        self._announced = number + 1 if turn is None else self._announced
        self.ledger.write(release_row(self.name, at, number, what or _gives(mechanism), mechanism, observer, asked))

    def release(
        self,
        value: V,
        mechanism: Mechanism[V, W],
        observer: Observer,
        queries: int = 1,
        voters: int | None = None,
        abstentions: bool = False,
    ) -> W:
        """The only door out: the ledger's row is written before what comes of the mechanism may leave.

        `voters` (an upper bound where there are `abstentions`) is a public fact that accountants can use. How many
        queries noise answers, the mechanism counts itself.
        """
        what = type(value).__name__ if isinstance(value, Message) else _gives(mechanism)
        if mechanism.noisy:
            queries = mechanism.asked(value, self.classes)
        asked = Asked(queries, self.classes, voters, abstentions, self.noise)
        row = release_row(self.name, self.turn, self._releases, what, mechanism, observer, asked)
        self._releases += 1
        chance = Chance(self.noise, self.seed, (*self._stream_key, self.turn, "noise", row.number))
        if mechanism.noisy and self.noise == "secure" and getattr(mechanism, "secret", False):
            self._write_anew(row)
            return mechanism.protect(value, chance)
        if mechanism.noisy:
            return cast(W, self.ledger.draw(row, lambda: cast(Array, mechanism.protect(value, chance))))
        self.ledger.write(row)
        protected = mechanism.protect(value, chance)
        if isinstance(protected, Message):
            _make_read_only(protected)
            self._released.append(protected)
        return protected

    def _write_anew(self, row: Release) -> None:
        """What is drawn in secret cannot be drawn the same again: a retry after a kill is paid for again."""
        retry = 0
        while self.ledger.write(replace(row, number=-retry) if retry else row):
            retry += 1

    def check_released(self, message: Message) -> None:
        """Refuse to let out what derives from private rows and did not go through `release`."""
        if is_private(message) and not any(message is passed for passed in self._released):
            raise LimbeckError(f"{self.name}: {type(message).__name__} was about to leave without a release")

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("server",)


@dataclass(slots=True, kw_only=True)
class Silo(Site):
    """A party's place: its private rows, and a memory that survives its process."""

    party: int
    private: Rows
    title: str | None = None
    memory: dict[str, Array | bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.title or f"party {self.party}"

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("party", self.party)

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        """As at the server; at a private level a job that fails gives its substitute, and nobody outside notices."""
        seeds = self._seeds(len(jobs))
        if not self.private_level:
            return self._fit(jobs, seeds)
        results = self._fit([Guarded(job) for job in jobs], seeds)
        return guarded_results(jobs, results, self.classes, seeds, self.name)

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

    def adopt(self, model: bytes) -> Done:
        """Keep a fitted model as this party's own."""
        self.memory["model"] = model
        return Done()

    @property
    def adopted(self) -> bytes | None:
        model = self.memory.get("model")
        return model if isinstance(model, bytes) else None
