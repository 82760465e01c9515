"""Sites, where an algorithm runs: the server, and a silo for each party."""

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256, shake_256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.disclosures import Declare, Disclosure, Facts, Origin, by_name
from limbeck.protocol.learning import FitError, Guarded, Job, Model, Trainer, guarded_results
from limbeck.protocol.messages import Acknowledgement, Message, is_private
from limbeck.protocol.release import Ledger, MemoryLedger, Noise, NoiseSource, Release
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.streams import stream
from limbeck.protocol.task import MULTICLASS, Task

T = TypeVar("T")
V = TypeVar("V")
DISCLOSED = "disclosed"  # key in a site's memory: how often each value has left


@dataclass(slots=True, kw_only=True)
class Site:
    """The server's side of a run: public rows, a model, and two ways to act, `train` and `disclose`.

    Parameters
    ----------
    public : PublicRows
        The public rows.
    classes : int
        Number of classes.
    model : Model
        The model of this site, not fitted.
    seed : int
        Seed of the run.
    trainer : Trainer
        How jobs run.
    ledger : Ledger
        The releases of this site.
    noise : {"simulated", "secure"}
        Where noise comes from: the seed, or the operating system.
    parties : int
        Number of parties of the run.
    private_level : bool
        Whether the algorithm protects something. Failed trainings at a party are then replaced by substitutes.
    secret : bytes or None
        Random bytes that only this site knows. With `run` they decide how rows are cut into subsets. None in
        simulations, where the seed decides.
    run : str
        Identifier of the run.
    turn : int
        Number of the request that is answered, from 0.
    progress : bytes or None
        Weights of the server's network between two rounds, for learning curves.
    memory : dict of str to array or bytes
        What the site remembers between requests, also when its process ends.
    declare : callable
        The algorithm's `disclosures`.
    predicted : dict
        Labels that packed models have predicted.
    folder : Path
        Folder that paths of the algorithm are relative to, at the server.
    task : Task
        Kind of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.models.jobs import FitAndVote
    >>> from limbeck.models.named import model_from
    >>> from limbeck.models.pool import PoolTrainer
    >>> from limbeck.privacy.mechanisms import Unprotected
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([0, 0, 1, 1])
    >>> site = Site(
    ...     public=PublicRows(x), classes=2, model=model_from({"name": "naive-bayes"}), seed=0, trainer=PoolTrainer(1),
    ...     declare=lambda run: [Disclosure("server", "labels", Unprotected(), "public", run.public)],
    ... )
    >>> [labels] = site.train([FitAndVote(site.model, x, y, site.public.x)])
    >>> site.disclose("labels", labels).tolist()
    [0, 0, 1, 1]
    >>> site.ledger.rows[0].observer
    'public'
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
    progress: bytes | None = None
    memory: dict[str, Array | bytes] = field(default_factory=dict)
    declare: Declare = lambda run: ()
    predicted: dict[tuple[bytes, int], Array] = field(default_factory=dict)
    folder: Path = Path()
    task: Task = MULTICLASS
    _rng: np.random.Generator | None = field(default=None, init=False)
    _declared: dict[str, Disclosure] | None = field(default=None, init=False)
    _released: list[Message] = field(default_factory=list, init=False)
    _trained: int = field(default=0, init=False)
    _releases: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.begin(self.turn)

    @property
    def name(self) -> str:
        """Name of the site in messages and in the ledger: "server", or for example "party 3"."""
        return "server"

    @property
    def origin(self) -> Origin:
        """Which disclosures this site may release: those of the server, or those of a party."""
        return "server" if self.name == "server" else "party"

    @property
    def facts(self) -> Facts:
        """Public facts of the run; in a simulation also the row count of the party."""
        return Facts(len(self.public), self.classes, self.parties, self.noise, task=self.task)

    def begin(self, turn: int) -> None:
        """Start to answer request number `turn`: randomness depends on the seed, the site and the turn alone."""
        self.turn, self._trained, self._releases = turn, 0, 0
        self._rng = None
        self._released = []

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of this site for this turn, made when it is first used."""
        if self._rng is None:
            self._rng = stream(self.seed, *self._stream_key, self.turn)
        return self._rng

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Train: run jobs, and return their results. There is no other way to train.

        Parameters
        ----------
        jobs : sequence of Job
            The jobs. Those of one call run together.

        Returns
        -------
        list
            The results, in the order of the jobs. At a party and a private level, a failed or invalid result is
            replaced by the job's substitute.

        Raises
        ------
        LimbeckError
            If a job fails, except at a party and a private level.

        Notes
        -----
        The seed of a job depends on the run's seed, the site, the turn, the call and the job's position in it. Two runs
        with equal jobs can therefore share their results.
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
        """Make a silo with these rows at the server, as a federation of one party.

        It releases what is declared for the server. Its randomness is that of party 0.

        Parameters
        ----------
        rows : Rows
            Labelled rows that the server has.

        Returns
        -------
        Silo
            The silo; it has the server's model, trainer and ledger.
        """
        shared = (
            "public",
            "classes",
            "model",
            "seed",
            "trainer",
            "ledger",
            "noise",
            "private_level",
            "secret",
            "run",
            "task",
        )
        own: dict[str, Any] = {name: getattr(self, name) for name in shared}
        return Silo(**own, declare=lambda run: self.declare(self.facts), party=0, private=rows, title=self.name)

    def disclose(self, what: str, value: V) -> V:
        """Release a value: write the ledger row, apply the declared mechanism, and return its result.

        There is no other way out of a site. The row is written before the value can leave. After a crash, noise that
        was recorded is not drawn again.

        Parameters
        ----------
        what : str
            Name of a disclosure that the algorithm declares for this site.
        value : object
            The unprotected value.

        Returns
        -------
        object
            The protected value. A message that is returned may leave the site; its arrays are read-only.

        Raises
        ------
        LimbeckError
            If the value is not declared, has left as often as declared, or answers another number of queries.
        """
        if what not in self._declarations:
            raise LimbeckError(f"{self.name}: {what} was about to leave, but the algorithm does not declare it")
        declared, times = self._declarations[what], self._times(what)
        mechanism = declared.mechanism
        if times >= declared.times:
            raise LimbeckError(f"{self.name}: {what} is declared to leave {declared.times} times, not more often")
        if mechanism.noisy and (asked := mechanism.asked(value, self.classes)) != declared.queries:
            raise LimbeckError(
                f"{self.name}: {what} is declared for {declared.queries} queries, but the value answers {asked}"
            )
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
                    array.setflags(write=False)  # a released value must not change after it was recorded
            self._released.append(protected)
        return cast(V, protected)

    @property
    def _declarations(self) -> dict[str, Disclosure]:
        if self._declared is None:
            self._declared = by_name(self.declare(self.facts), self.origin)
        return self._declared

    def _row(self, declared: Disclosure, times: int) -> Release:
        """The row of a disclosure's next release: an announced one, one from before a crash, or a new one."""
        if not self.private_level:
            return declared.row(self.name, self.turn, self._releases, self.facts)
        known = [row for row in self.ledger.rows if row.what == declared.what]
        if times >= len(known) or _is_secret(declared, self.noise):  # a secret draw is not recorded: it costs again
            return declared.row(self.name, self.turn, self._next_number, self.facts)
        if known[times] != (row := declared.row(self.name, known[times].turn, known[times].number, self.facts)):
            raise LimbeckError(
                f"{row.site}: the ledger has another release of {declared.what} in this run; start a new run"
            )
        return row

    @property
    def _next_number(self) -> int:
        return 1 + max((row.number for row in self.ledger.rows if row.turn == self.turn), default=-1)

    def _times(self, what: str) -> int:
        """How often a value has left this site in this run."""
        return int(json.loads(bytes(self.memory.get(DISCLOSED, b"{}"))).get(what, 0))

    def _count(self, what: str, times: int) -> None:
        known = json.loads(bytes(self.memory.get(DISCLOSED, b"{}")))
        self.memory[DISCLOSED] = json.dumps({**known, what: times}, sort_keys=True).encode()

    def check_released(self, message: Message) -> None:
        """Raise LimbeckError if a private message was not returned by `disclose` in this turn.

        Parameters
        ----------
        message : Message
            A request or reply that is about to leave.
        """
        if is_private(message) and not any(message is passed for passed in self._released):
            raise LimbeckError(f"{self.name}: {type(message).__name__} was about to leave without being disclosed")

    def forget_released(self) -> None:
        """Forget the messages that `disclose` returned: they have left, and none of them leaves again in this turn."""
        self._released = []

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("server",)


def _is_secret(declared: Disclosure, noise: Noise) -> bool:
    """Whether the result of the mechanism is recorded nowhere."""
    return noise == "secure" and declared.mechanism.secret


@dataclass(slots=True, kw_only=True)
class Silo(Site):
    """A party's side of a run: a site with private rows.

    Parameters
    ----------
    public : PublicRows
        The public rows.
    classes : int
        Number of classes.
    model : Model
        The model of this site, not fitted.
    seed : int
        Seed of the run.
    trainer : Trainer
        How jobs run.
    ledger : Ledger
        The releases of this site.
    noise : {"simulated", "secure"}
        Where noise comes from: the seed, or the operating system.
    parties : int
        Number of parties of the run.
    private_level : bool
        Whether the algorithm protects something. Failed trainings at a party are then replaced by substitutes.
    secret : bytes or None
        Random bytes that only this site knows. With `run` they decide how rows are cut into subsets. None in
        simulations, where the seed decides.
    run : str
        Identifier of the run.
    turn : int
        Number of the request that is answered, from 0.
    progress : bytes or None
        Weights of the server's network between two rounds, for learning curves.
    memory : dict of str to array or bytes
        What the site remembers between requests, also when its process ends.
    declare : callable
        The algorithm's `disclosures`.
    predicted : dict
        Labels that packed models have predicted.
    folder : Path
        Not used at a party.
    task : Task
        Kind of the labels.
    party : int
        Number of the party, from 0.
    private : Rows
        The private rows. They never leave the silo.
    title : str or None
        Name instead of "party" and the number.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.models.named import model_from
    >>> from limbeck.models.pool import PoolTrainer
    >>> from limbeck.privacy.mechanisms import Unprotected
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([0, 0, 1, 1])
    >>> silo = Silo(
    ...     party=3, private=Rows(x, y), public=PublicRows(x), classes=2, model=model_from({"name": "naive-bayes"}),
    ...     seed=0, trainer=PoolTrainer(1), declare=lambda run: [Disclosure("party", "rows", Unprotected(), "server")],
    ... )
    >>> silo.disclose("rows", len(silo.private))
    4
    >>> [(row.site, row.what) for row in silo.ledger.rows]
    [('party 3', 'rows')]
    >>> silo.disclose("labels", silo.private.y)
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: party 3: labels was about to leave, but the algorithm does not declare it
    """

    party: int
    private: Rows
    title: str | None = None
    _is_announced: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.title or f"party {self.party}"

    @property
    def facts(self) -> Facts:
        rows = len(self.private) if self.noise == "simulated" else None
        return Facts(len(self.public), self.classes, self.parties, self.noise, rows, self.task)

    @property
    def _stream_key(self) -> tuple[str | int, ...]:
        return ("party", self.party)

    def train(self, jobs: Sequence[Job[T]]) -> list[T]:
        seeds = self._seeds(len(jobs))
        if not self.private_level:
            return self._fit(jobs, seeds)
        self._announce()
        results = self._fit([Guarded(job) for job in jobs], seeds)
        return guarded_results(jobs, results, self.classes, seeds, self.name)

    def _announce(self) -> None:
        """Write the rows of all declared releases before training, so that a failure costs the same epsilon."""
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
        """Return random bytes that nobody outside this site can know.

        Parameters
        ----------
        purpose : str
            Name of the use. With a secret, the same run and purpose give the same bytes.
        count : int
            Number of bytes.

        Returns
        -------
        bytes
            From the site's secret; in simulations from the seed.
        """
        if self.secret is None:
            return self.rng.bytes(count)
        key = hmac.digest(self.secret, f"{self.run}\0{self.name}\0{purpose}".encode(), sha256)
        return shake_256(key).digest(count)

    def hidden_order(self, purpose: str, count: int) -> Array:
        """Return a random order of rows that nobody outside this site can know.

        Parameters
        ----------
        purpose : str
            Name of the use, as in `hidden_bytes`.
        count : int
            Number of rows.

        Returns
        -------
        array of shape (count,)
            Row numbers.
        """
        if self.secret is None:
            return self.rng.permutation(count)
        return np.argsort(np.frombuffer(self.hidden_bytes(purpose, 8 * count), np.uint64), kind="stable")

    def install(self, model: bytes) -> Acknowledgement:
        """Keep a packed model (ONNX) as the result of this party, and return an acknowledgement."""
        self.memory["model"] = model
        return Acknowledgement()

    @property
    def installed(self) -> bytes | None:
        """The installed model as ONNX; None before one is installed."""
        model = self.memory.get("model")
        return model if isinstance(model, bytes) else None
