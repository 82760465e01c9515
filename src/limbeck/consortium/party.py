"""A party's folder: its key, its secret, its settings, what it has answered, and the ledger of all that ever left it.

`join.json`, `key` and `secret` come from `limbeck party init`; `party.toml` is the owner's; `answers.sqlite` holds
answers and what algorithms remember between questions, `ledger.sqlite` every release of every run, `checked.json` which
rows were checked, `models/` the models that the party got. Nobody but the owner may read them.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt, model_validator

from limbeck.atomic_files import private_file
from limbeck.consortium.agreement import Parameters, read_parameters
from limbeck.consortium.files import new_folder, private_folder, read_or_create_secret, write_private
from limbeck.consortium.joining import Join, read_join
from limbeck.consortium.proposal import settings_for
from limbeck.data.own import private_rows, public_rows
from limbeck.data.schema import Schema
from limbeck.engines.database import Database
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Table, check_table, model_in, read_toml, training_in
from limbeck.locks import locked
from limbeck.models.trainers import Training
from limbeck.privacy.chain import Head
from limbeck.privacy.ledger import Budget, LedgerStore
from limbeck.protocol.codec import pack_memory, unpack_memory
from limbeck.protocol.envelopes import Terms
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise, Observer
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.tables import from_table

CHECKED = "checked.json"  # what `limbeck.consortium.checking` recorded
SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    run TEXT, turn INTEGER, question TEXT, answer BLOB, PRIMARY KEY (run, turn));
CREATE TABLE IF NOT EXISTS memories (run TEXT PRIMARY KEY, memory BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counted (run TEXT, place TEXT, PRIMARY KEY (run, place));
CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, terms TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, run TEXT, turn INTEGER, question TEXT, what TEXT, decision TEXT,
    UNIQUE (run, turn, question));
"""
NO_LIMIT = "there is no limit to what runs may spend: write a [budget], or unprotected = true above [model]"


def budget_in(value: Any) -> Budget:
    """`[budget]` of party.toml: here it is meant for the server unless it names another observer."""
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "server", unit = "example" }')
    return from_table(Budget, {"observer": "server", **value})


class Agreed(Table):
    """`[[agree]]`: an algorithm, its levels and parameters, and what one run of it may spend."""

    algorithm: str
    levels: list[Literal["L0", "L1", "L2"]] | None = None
    parameters: dict[str, Any] | None = None
    epsilon: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = None
    delta: Annotated[StrictFloat, Field(gt=0, lt=1)] = 1e-5
    observer: Observer = "server"
    unit: Literal["example", "party", "both"] = "example"
    rows_per_person: StrictInt = Field(1, ge=1)

    @property
    def cap(self) -> Budget | None:
        if self.epsilon is None:
            return None
        return Budget(float(self.epsilon), self.delta, self.observer, self.unit, self.rows_per_person)

    def bounds(self, kind: type) -> Parameters | None:
        """What the parameters may be; None where the owner leaves them open."""
        if self.parameters is None:
            return None
        try:
            return read_parameters(kind, self.parameters)
        except LimbeckError as error:
            raise LimbeckError(f"party.toml: agree.parameters of {self.algorithm}: {error}") from error


class PartySettings(Table):
    """`party.toml`"""

    data: str
    label: str | None = None  # the column of the classes, where it has another name here
    public: str
    approve: StrictBool = False
    simulation: StrictBool = False  # noise and cuts come from the server's seed: for tests
    unprotected: StrictBool = False  # the owner's decision to have no budget
    model: Annotated[Model, PlainValidator(model_in)]
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    processes: StrictInt | None = Field(None, ge=1)
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    agree: list[Agreed] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_one_limit(self) -> "PartySettings":
        if self.budget and self.unprotected:
            raise LimbeckError("unprotected = true and [budget] contradict each other: remove one")
        return self

    @property
    def is_decided(self) -> bool:
        """Whether the owner chose a budget, or none."""
        return self.budget is not None or self.unprotected

    @property
    def noise(self) -> Noise:
        return "simulated" if self.simulation else "secure"


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
    def table(self) -> dict[str, Any]:
        return read_toml(self.path / "party.toml")

    @cached_property
    def settings(self) -> PartySettings:
        """What the owner wrote; the owner's own models (`python:module:factory`) lie in the folder."""
        if (own := str(self.path.resolve())) not in sys.path:
            sys.path.insert(0, own)
        return check_table(PartySettings, self.table, str(self.path / "party.toml"))

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

    def ledger_store(self, run: str, cap: Budget | None) -> LedgerStore:
        """The ledger of all runs, with the owner's budget for all of them and the cap for this one."""
        ledger_store = LedgerStore(private_file(self.path / "ledger.sqlite"), run, self.settings.budget, cap)
        if head := self.answer_store.head:
            ledger_store.check_head(head, str(self.answer_store.path))
        return ledger_store

    @cached_property
    def answer_store(self) -> "AnswerStore":
        return AnswerStore(self.path / "answers.sqlite")

    @cached_property
    def secret(self) -> bytes | None:
        """Random bytes that decide, with a run's name, how rows are cut; None in a simulation, where the seed does."""
        return None if self.settings.simulation else read_or_create_secret(self.path / "secret")

    def work(self) -> Path:
        """The folder where a question lies while it is answered."""
        return private_folder(self.path / "work")

    def alone(self) -> AbstractContextManager[None]:
        """One program at a time speaks for a party."""
        return locked(self.path / "lock", f"{self.path}: another program speaks for this party already")


def init(path: Path, join_file: Path) -> Path:
    """Make a party's folder and its key; what comes back is the public key, for the coordinator."""
    from limbeck.engines.flower.keys import write_party_key

    join = read_join(join_file)
    text = settings_for(join)
    new_folder(path)
    (path / "party.toml").write_text(text, encoding="utf-8")
    public = write_party_key(path, join.party)
    read_or_create_secret(path / "secret")
    (path / "join.json").write_text(join.to_json(), encoding="utf-8")
    return public


def rejoin(folder: PartyFolder, join_file: Path) -> None:
    """Take a new join file, of the same party: the coordinator has changed what will be asked."""
    join = read_join(join_file)
    if (join.party, join.index) != (folder.join.party, folder.join.index):
        raise LimbeckError(
            f"{join_file} invites {join.party}, number {join.index}: this folder is {folder.join.party}'s"
        )
    with folder.alone():
        write_private(folder.path / "join.json", join.to_json().encode())
        (folder.path / CHECKED).unlink(missing_ok=True)


def rekey(folder: PartyFolder) -> Path:
    """A new key in the place of the old one, which is gone; the coordinator must admit it."""
    from limbeck.engines.flower.keys import write_party_key

    with folder.alone():
        (folder.path / "key").unlink(missing_ok=True)
        return write_party_key(folder.path, folder.join.party)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that a person must decide about."""

    number: int
    run: str
    turn: int
    question: str
    what: str
    decision: str | None


class AnswerStore(Database):
    """What a party has answered, and what its algorithms remember: a question that comes again gets the same answer."""

    schema = SCHEMA

    def answer(self, run: str, turn: int) -> tuple[str, bytes] | None:
        """The hash of the question, and the answer that was given."""
        found = self._rows("SELECT question, answer FROM answers WHERE run = ? AND turn = ?", run, turn)
        return found[0] if found else None

    def turn_before(self, run: str, turn: int) -> int:
        """The last turn of a run before this one that was answered; -1 where there is none."""
        query = "SELECT coalesce(max(turn), -1) FROM answers WHERE run = ? AND turn < ?"
        return int(self._rows(query, run, turn)[0][0])

    def was_counted(self, run: str, where: str) -> bool:
        """Whether what the server releases in `where` of this party's answers in a run stands in the ledger."""
        return bool(self._rows("SELECT 1 FROM counted WHERE run = ? AND place = ?", run, where))

    def count(self, run: str, where: str) -> None:
        self._rows("INSERT OR IGNORE INTO counted VALUES (?, ?)", run, where)

    def had_other_terms(self, run: str, terms: Terms) -> bool:
        known = self._rows("SELECT terms FROM runs WHERE run = ?", run)
        return bool(known) and known[0][0] != _terms_json(terms)

    def record_terms(self, run: str, terms: Terms) -> None:
        """The terms of the first question that is agreed to are its run's for good."""
        self._rows("INSERT OR IGNORE INTO runs VALUES (?, ?)", run, _terms_json(terms))

    def memory(self, run: str) -> dict[str, Array | bytes]:
        found = self._rows("SELECT memory FROM memories WHERE run = ?", run)
        return unpack_memory(found[0][0]) if found else {}

    @property
    def head(self) -> Head | None:
        """The ledger's head at the last answer: a ledger that lacks it was put back, or begun anew."""
        found = self._rows("SELECT number, digest FROM head")
        return found[0] if found else None

    def keep(self, run: str, turn: int, question: str, answer: bytes, memory: Mapping[str, Any], head: Head) -> None:
        """The answer, the memory that it leaves and the ledger's head, all or none."""
        with self.at_once():
            self._rows("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", run, turn, question, answer)
            self._rows("REPLACE INTO memories VALUES (?, ?)", run, pack_memory(memory))
            self._rows("REPLACE INTO head VALUES (1, ?, ?)", *head)

    def request(self, run: str, turn: int, question: str, what: str) -> Waiting:
        """A request that needs a decision, known by the hash of its letter; and the decision where there is one."""
        self._rows("INSERT OR IGNORE INTO requests VALUES (NULL, ?, ?, ?, ?, NULL)", run, turn, question, what)
        return next(w for w in self.requests() if (w.run, w.turn, w.question) == (run, turn, question))

    def requests(self) -> list[Waiting]:
        return [Waiting(*row) for row in self._rows("SELECT * FROM requests ORDER BY number")]

    def decide(self, number: int, decision: str) -> None:
        self._rows("UPDATE requests SET decision = ? WHERE number = ? AND decision IS NULL", decision, number)


def _terms_json(terms: Terms) -> str:
    return json.dumps(asdict(terms), sort_keys=True)
