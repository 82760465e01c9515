"""A party's folder: its key, its settings, what it has answered, and the ledger of all that ever left the house.

`join.json` and `key` come from `limbeck party init`; `party.toml` is the owner's word; `kept.sqlite` holds answers and
what algorithms remember between questions, `ledger.sqlite` every release of every run, `models/` what the party got.
"""

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt

from limbeck.consortium.joining import Join, read_join
from limbeck.data.own import private_rows, public_rows
from limbeck.data.schema import Schema
from limbeck.drafts import Draft
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Table, budget_in, check_table, model_in, read_toml, training_in
from limbeck.locks import locked
from limbeck.models.choice import Training
from limbeck.privacy.ledger import Book, Budget
from limbeck.protocol.codec import pack_memory, unpack_memory
from limbeck.protocol.learning import Model
from limbeck.protocol.letters import Terms
from limbeck.protocol.release import Noise, Observer
from limbeck.protocol.rows import Array, PublicRows, Rows

SETTINGS = """\
# What this party gives to the consortium, and on what terms. Nothing is asked of it before `limbeck party start`.
data = "private.csv"       # your rows: CSV, Parquet or NPZ. They stay where they are
# label = "outcome"        # the column of the classes, where it has another name than the consortium's
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
    """`[[agree]]`: an algorithm, how it must protect what leaves, and what one run of it may spend."""

    algorithm: str
    levels: list[Literal["L0", "L1", "L2"]] | None = None
    epsilon: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = None
    delta: Annotated[StrictFloat, Field(gt=0, lt=1)] = 1e-5
    towards: Observer = "server"

    @property
    def cap(self) -> Budget | None:
        return Budget(float(self.epsilon), self.delta, self.towards) if self.epsilon is not None else None


class Settings(Table):
    """`party.toml`"""

    data: str
    label: str | None = None  # the column of the classes, where it has another name here
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
        return private_rows(self.path / self.settings.data, self.join.classes, self.schema, self.settings.label)

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

    def book(self, run: str, cap: Budget | None) -> Book:
        """The ledger that outlives runs, with the owner's budget for all of them and his cap for this one."""
        return Book(self._own("ledger.sqlite"), run, self.settings.budget, cap)

    @cached_property
    def kept(self) -> "Kept":
        return Kept(self._own("kept.sqlite"))

    def _own(self, name: str) -> Path:
        """A file of the folder that nobody but its owner may read, wherever it is copied to."""
        path = self.path / name
        if not path.exists():
            path.touch(mode=0o600)
        return path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One program at a time speaks for a party."""
        with locked(self.path / "lock", f"{self.path}: another program speaks for this party already"):
            yield


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


def rejoin(folder: PartyFolder, join_file: Path) -> None:
    """Take a new join file, of the same party: the coordinator has changed what will be asked."""
    join = read_join(join_file)
    if (join.party, join.index) != (folder.join.party, folder.join.index):
        raise LimbeckError(
            f"{join_file} invites {join.party}, number {join.index}: this folder is {folder.join.party}'s"
        )
    with folder.alone(), Draft(folder.path / "join.json") as file:
        file.write(join.to_json().encode())


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
    told = privacy if isinstance(privacy, Mapping) else {}
    if isinstance(told.get("level"), str):
        lines.append(f"levels = {json.dumps([told['level']])}")
    source = told if told.get("epsilon") is not None and told.get("level") != "L0" else join.algorithm
    wanted, delta = source.get("epsilon"), source.get("delta")
    public = told.get("level") == "L1" or (source is join.algorithm and join.algorithm.get("noised_by") == "server")
    if isinstance(wanted, int | float) and 0 < wanted < float("inf"):
        lines += [
            f"epsilon = {float(wanted)}             # of one run, at most, at this delta, towards whom",
            f"delta = {delta if isinstance(delta, float) else 1e-5}",
            f'towards = "{"public" if public else "server"}"',
        ]
    else:
        lines.append("# epsilon = 3.0            # without it a run may tell anything, bare answers included")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that a person must decide about."""

    number: int
    run: str
    turn: int
    question: str
    what: str
    decision: str | None


class Kept:
    """What a party has answered, and what its algorithms remember: a question that comes again gets the same answer."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(
                """
                CREATE TABLE IF NOT EXISTS answers (
                    run TEXT, turn INTEGER, question TEXT, letter BLOB, PRIMARY KEY (run, turn));
                CREATE TABLE IF NOT EXISTS memories (run TEXT PRIMARY KEY, memory BLOB NOT NULL);
                CREATE TABLE IF NOT EXISTS counted (run TEXT, place TEXT, PRIMARY KEY (run, place));
                CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, terms TEXT NOT NULL);
                CREATE TABLE IF NOT EXISTS requests (
                    number INTEGER PRIMARY KEY, run TEXT, turn INTEGER, question TEXT, what TEXT, decision TEXT,
                    UNIQUE (run, turn, question));
                """
            )
        except sqlite3.Error as error:
            raise LimbeckError(f"{path} does not hold what a party keeps: {error}") from error

    def answer(self, run: str, turn: int) -> tuple[str, bytes] | None:
        """The hash of the question, and the answer that was given."""
        found = self._connection.execute("SELECT question, letter FROM answers WHERE run = ? AND turn = ?", (run, turn))
        known: tuple[str, bytes] | None = found.fetchone()
        return known

    def was_counted(self, run: str, where: str) -> bool:
        """Whether what the server releases in `where` of this party's answers in a run stands in the ledger."""
        found = self._connection.execute("SELECT 1 FROM counted WHERE run = ? AND place = ?", (run, where))
        return found.fetchone() is not None

    def count(self, run: str, where: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO counted VALUES (?, ?)", (run, where))

    def had_other_terms(self, run: str, terms: Terms) -> bool:
        known = self._connection.execute("SELECT terms FROM runs WHERE run = ?", (run,)).fetchone()
        return known is not None and known[0] != _told(terms)

    def settle(self, run: str, terms: Terms) -> None:
        """The terms of the first question that is agreed to are its run's for good."""
        self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (run, _told(terms)))

    def memory(self, run: str) -> dict[str, Array | bytes]:
        found = self._connection.execute("SELECT memory FROM memories WHERE run = ?", (run,)).fetchone()
        return unpack_memory(found[0]) if found else {}

    def keep(self, run: str, turn: int, question: str, letter: bytes, memory: Mapping[str, Any]) -> None:
        """The answer and the memory that it leaves, both or neither."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (run, turn, question, letter))
            self._connection.execute("REPLACE INTO memories VALUES (?, ?)", (run, pack_memory(memory)))

    def request(self, run: str, turn: int, question: str, what: str) -> Waiting:
        """A request that needs a decision, known by the hash of its letter; and the decision where there is one."""
        row = (run, turn, question, what)
        self._connection.execute("INSERT OR IGNORE INTO requests VALUES (NULL, ?, ?, ?, ?, NULL)", row)
        return next(w for w in self.requests() if (w.run, w.turn, w.question) == (run, turn, question))

    def requests(self) -> list[Waiting]:
        return [Waiting(*row) for row in self._connection.execute("SELECT * FROM requests ORDER BY number")]

    def decide(self, number: int, decision: str) -> None:
        self._connection.execute(
            "UPDATE requests SET decision = ? WHERE number = ? AND decision IS NULL", (decision, number)
        )


def _told(terms: Terms) -> str:
    return json.dumps(asdict(terms), sort_keys=True)
