"""A party's folder: its key, its settings, what it has answered, and the ledger of all that ever left the house.

`join.json` and `key` come from `limbeck party init`; `party.toml` is the owner's word; `kept.sqlite` holds answers and
what algorithms remember between questions, `ledger.sqlite` every release of every run, `models/` what the party got.
"""

import fcntl
import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt

from limbeck.consortium.joining import Join, read_join
from limbeck.data.own import private_rows, public_rows
from limbeck.data.schema import Schema
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Table, budget_in, check_table, model_in, read_toml, training_in
from limbeck.models.choice import Training
from limbeck.privacy.ledger import Book, Budget
from limbeck.protocol.codec import pack_memory, unpack_memory
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array, PublicRows, Rows

SETTINGS = """\
# What this party gives to the consortium, and on what terms. Nothing is asked of it before `limbeck party start`.
data = "private.csv"       # your rows: CSV, Parquet or NPZ. They stay where they are
public = "public.csv"      # the consortium's public rows, as you were given them
approve = false            # true: a person must say `limbeck party approve` to every request

[model]                    # whatever suits your rows
name = "random-forest"

# No release may bring epsilon beyond this, over all runs together; without it there is no limit.
# [budget]
# epsilon = 3.0
# delta = 1e-5
# towards = "server"       # or "public"

# What you agree to. Anything else is refused.
[[agree]]
"""


class Agreed(Table):
    """`[[agree]]`: an algorithm, and how it must protect what leaves."""

    algorithm: str
    levels: list[str] | None = None
    epsilon: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = None  # at most, where the algorithm has one


class Settings(Table):
    """`party.toml`"""

    data: str
    public: str
    approve: StrictBool = False
    noise: Noise = "secure"
    model: Annotated[Model, PlainValidator(model_in)]
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    processes: StrictInt | None = Field(None, ge=1)
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    agree: list[Agreed] = Field(min_length=1)


class PartyFolder:
    """A folder that `limbeck party init` made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "join.json").exists():
            raise LimbeckError(f"{path} is not a party's folder: limbeck party init {path} JOIN_FILE makes one")

    @cached_property
    def join(self) -> Join:
        return read_join(self.path / "join.json")

    @cached_property
    def settings(self) -> Settings:
        """What the owner wrote; models of his own (`python:module:factory`) lie in the folder."""
        sys.path.insert(0, str(self.path.resolve()))
        return check_table(Settings, read_toml(self.path / "party.toml"), str(self.path / "party.toml"))

    @cached_property
    def schema(self) -> Schema | None:
        return Schema.from_json(self.join.schema, "the join file") if self.join.schema else None

    def private(self) -> Rows:
        return private_rows(self.path / self.settings.data, self.join.classes, self.schema)

    def public(self, labelled: bool) -> PublicRows:
        """The public rows; they must be those of the join file."""
        path = self.path / self.settings.public
        rows = public_rows(path, self.schema)
        public = PublicRows(rows.x, rows.y if labelled else None)
        if public.hash != self.join.public:
            raise LimbeckError(
                f"{path} holds other public rows ({public.hash[:12]}) than the consortium's ({self.join.public[:12]})"
            )
        return public

    def book(self, run: str) -> Book:
        """The ledger that outlives runs, with the owner's budget."""
        return Book(self.path / "ledger.sqlite", run, self.settings.budget)

    @cached_property
    def kept(self) -> "Kept":
        return Kept(self.path / "kept.sqlite")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One program at a time speaks for a party."""
        handle = os.open(self.path / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise LimbeckError(f"{self.path}: another program speaks for this party already") from error
        try:
            yield
        finally:
            os.close(handle)


def init(path: Path, join_file: Path) -> Path:
    """Make a party's folder and its key; what comes back is the public key, for the coordinator."""
    from limbeck.engines.flower.keys import write_party_key

    join = read_join(join_file)
    if path.exists() and any(path.iterdir()):
        raise LimbeckError(f"{path} is not empty: name a new folder")
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    (path / "party.toml").write_text(SETTINGS + _agreement(join), encoding="utf-8")
    public = write_party_key(path, join.party)
    (path / "join.json").write_text(join.to_json(), encoding="utf-8")
    return public


def rekey(folder: PartyFolder) -> Path:
    """A new key in the place of the old one, which is gone; the coordinator must admit it."""
    from limbeck.engines.flower.keys import write_party_key

    with folder.alone():
        (folder.path / "key").unlink(missing_ok=True)
        return write_party_key(folder.path, folder.join.party)


def _agreement(join: Join) -> str:
    """The proposal of the join file, as `[[agree]]` says it."""
    lines = [f"algorithm = {json.dumps(str(join.algorithm.get('name')))}"]
    privacy = join.algorithm.get("privacy")
    if isinstance(privacy, Mapping):
        lines.append(f"levels = {json.dumps([privacy.get('level')])}")
        if isinstance(privacy.get("epsilon"), float):
            lines.append(f"epsilon = {privacy['epsilon']}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that a person must decide about."""

    number: int
    run: str
    turn: int
    what: str
    decision: str | None


class Kept:
    """What a party has answered, and what its algorithms remember: a question that comes again gets the same answer."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(
            """
            CREATE TABLE IF NOT EXISTS answers (
                run TEXT, turn INTEGER, question TEXT, letter BLOB, PRIMARY KEY (run, turn));
            CREATE TABLE IF NOT EXISTS memories (run TEXT PRIMARY KEY, memory BLOB NOT NULL);
            CREATE TABLE IF NOT EXISTS requests (
                number INTEGER PRIMARY KEY, run TEXT, turn INTEGER, what TEXT, decision TEXT, UNIQUE (run, turn));
            """
        )

    def answer(self, run: str, turn: int) -> tuple[str, bytes] | None:
        """The hash of the question, and the answer that was given."""
        found = self._connection.execute("SELECT question, letter FROM answers WHERE run = ? AND turn = ?", (run, turn))
        known: tuple[str, bytes] | None = found.fetchone()
        return known

    def memory(self, run: str) -> dict[str, Array | bytes]:
        found = self._connection.execute("SELECT memory FROM memories WHERE run = ?", (run,)).fetchone()
        return unpack_memory(found[0]) if found else {}

    def keep(self, run: str, turn: int, question: str, letter: bytes, memory: Mapping[str, Any]) -> None:
        """The answer and the memory that it leaves, both or neither."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (run, turn, question, letter))
            self._connection.execute("REPLACE INTO memories VALUES (?, ?)", (run, pack_memory(memory)))

    def request(self, run: str, turn: int, what: str) -> Waiting:
        """A request that needs a decision, and the decision where there is one."""
        self._connection.execute("INSERT OR IGNORE INTO requests VALUES (NULL, ?, ?, ?, NULL)", (run, turn, what))
        return next(w for w in self.requests() if (w.run, w.turn) == (run, turn))

    def requests(self) -> list[Waiting]:
        return [Waiting(*row) for row in self._connection.execute("SELECT * FROM requests ORDER BY number")]

    def decide(self, number: int, decision: str) -> None:
        self._connection.execute(
            "UPDATE requests SET decision = ? WHERE number = ? AND decision IS NULL", (decision, number)
        )
