"""A party's folder: key, secret, settings, answers, and the ledger of everything that ever left it.

`limbeck party init` makes `join.json`, `key` and `secret`. The owner edits `party.toml`. `answers.sqlite` has the
answers and what algorithms remember between questions, `ledger.sqlite` every release of every run, `checked.json` which
rows were checked, and `models/` the models that the party received. Only the owner may read them.
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
from limbeck.data.reading import UNSTATED, Reading, reading_in
from limbeck.data.schema import Schema
from limbeck.engines.database import Database
from limbeck.errors import LimbeckError
from limbeck.experiments.config import check_table, model_in, read_toml, training_in
from limbeck.experiments.data_table import Table
from limbeck.experiments.mapping import vectors_of
from limbeck.features.files import read_map
from limbeck.features.map import FeatureMap
from limbeck.locks import locked
from limbeck.models.trainers import Training
from limbeck.privacy.chain import Head
from limbeck.privacy.ledger import Budget, LedgerStore
from limbeck.protocol.codec import pack_memory, unpack_memory
from limbeck.protocol.envelopes import Terms
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise, Observer
from limbeck.protocol.rows import Array, PublicRows, Rows, content_hash
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
    """Budget of the table `[budget]` in party.toml; the default observer is the server."""
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "server", unit = "example" }')
    return from_table(Budget, {"observer": "server", **value})


class Agreed(Table):
    """Table `[[agree]]`: an algorithm that the owner agrees to, and what one run of it may spend.

    Parameters
    ----------
    algorithm : str
        Name of the algorithm.
    levels : list of {"L0", "L1", "L2"}, optional
        Accepted privacy levels; by default all.
    parameters : dict, optional
        Accepted parameters; by default all.
    epsilon : float, optional
        Largest epsilon of one run.
    delta : float
        Delta of epsilon.
    observer : str
        Observer of epsilon.
    unit : {"example", "party", "both"}
        Unit of privacy of epsilon.
    rows_per_person : int
        Largest number of rows of one person.
    """

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
        """What one run may spend; None if there is no limit."""
        if self.epsilon is None:
            return None
        return Budget(float(self.epsilon), self.delta, self.observer, self.unit, self.rows_per_person)

    def bounds(self, kind: type) -> Parameters | None:
        """Bounds of the parameters of the algorithm `kind`; None if the owner accepts all."""
        if self.parameters is None:
            return None
        try:
            return read_parameters(kind, self.parameters)
        except LimbeckError as error:
            raise LimbeckError(f"party.toml: agree.parameters of {self.algorithm}: {error}") from error


class PartySettings(Table):
    """The file `party.toml`.

    Parameters
    ----------
    data : str
        File of private rows.
    label : str, optional
        Column of the classes, if it has another name than the consortium's.
    ignore : list of str
        Columns of the private rows that are left out, besides those that the consortium leaves out.
    reading : Reading
        How the tables are read: separator, decimal mark and so on; what is not stated is found.
    public : str
        File of public rows.
    test : str, optional
        File of the party's own test rows, which no model learns from.
    features : str, optional
        File of the feature map, if the join file names one.
    approve : bool
        Whether a person must approve every request.
    simulation : bool
        For tests only: noise and partitions come from the server's seed.
    unprotected : bool
        The owner's decision to have no budget.
    model : Model
        Model of the party.
    training : Training
        Table `[training]`.
    processes : int, optional
        Training processes; by default one.
    budget : Budget, optional
        Largest epsilon that all runs together may spend.
    agree : list of Agreed
        Tables `[[agree]]`.
    """

    data: str
    label: str | None = None
    ignore: list[str] = Field([])
    reading: Annotated[Reading, PlainValidator(reading_in)] = UNSTATED
    public: str
    test: str | None = None
    features: str | None = None
    approve: StrictBool = False
    simulation: StrictBool = False
    unprotected: StrictBool = False
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
        """Whether the owner chose a budget, or chose to have none."""
        return self.budget is not None or self.unprotected

    @property
    def noise(self) -> Noise:
        """Noise of the party's releases."""
        return "simulated" if self.simulation else "secure"


class PartyFolder:
    """A party's folder.

    Parameters
    ----------
    path : Path
        A folder that `limbeck party init` made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "join.json").exists():
            raise LimbeckError(f"{path} is not a party's folder: limbeck party init {path} JOIN_FILE makes one")

    @cached_property
    def join(self) -> Join:
        """Content of the join file."""
        return read_join(self.path / "join.json")

    @cached_property
    def table(self) -> dict[str, Any]:
        """Content of party.toml."""
        return read_toml(self.path / "party.toml")

    @cached_property
    def settings(self) -> PartySettings:
        """Checked settings; the owner's own models (`python:module:factory`) are in the folder."""
        if (own := str(self.path.resolve())) not in sys.path:
            sys.path.insert(0, own)
        return check_table(PartySettings, self.table, str(self.path / "party.toml"))

    @cached_property
    def schema(self) -> Schema | None:
        """Schema of tables; None for arrays."""
        return Schema.from_json(self.join.schema, "the join file") if self.join.schema else None

    def raw_rows(self, file: str) -> Rows:
        """Read a file of the party's own rows."""
        path, join, own = self.path / file, self.join, self.settings
        return private_rows(path, join.classes, self.schema, own.label, join.task, how=own.reading, ignore=own.ignore)

    def _mapped(self, rows: Rows) -> Rows:
        return vectors_of(self.features, rows) if self.features else rows

    def private(self) -> Rows:
        """Read the private rows, and map them to features if the consortium has them."""
        return self._mapped(self.raw_rows(self.settings.data))

    def test(self) -> Rows:
        """Read the party's own test rows, and map them in the same way; an error if it has none."""
        if self.settings.test is None:
            raise LimbeckError(f"{self.path / 'party.toml'}: test is missing: name the file of this party's test rows")
        return self._mapped(self.raw_rows(self.settings.test))

    @cached_property
    def raw_public(self) -> Rows:
        """Public rows, which must be those of the join file."""
        path = self.path / self.settings.public
        task = self.join.task if self.join.labelled else None
        rows = public_rows(path, self.schema, task, self.settings.reading)
        if (found := content_hash(rows.x)) != self.join.public:
            raise LimbeckError(
                f"{path} holds other public rows ({found[:12]}) than the join file ({self.join.public[:12]})"
            )
        return rows

    def public(self, labelled: bool) -> PublicRows:
        """Public rows, mapped to features if the consortium has them; with labels if `labelled`."""
        x = self.features.vectors(self.raw_public.x) if self.features else self.raw_public.x
        tokens = self.features is None and self.schema is not None and self.schema.text is not None
        return PublicRows(x, self.raw_public.y if labelled else None, self.join.public, tokens)

    @cached_property
    def features(self) -> FeatureMap | None:
        """Feature map, which must be that of the join file; None if there is none."""
        return self.read_features(tried=True)

    def read_features(self, tried: bool) -> FeatureMap | None:
        """Read the feature map; `tried` says that its network was tried in a limited process at this site before."""
        if self.join.features is None:
            return None
        if self.settings.features is None:
            raise LimbeckError(
                f"{self.path / 'party.toml'}: features is missing: name the file of the consortium's feature map"
            )
        path = self.path / self.settings.features
        found = read_map(path, self.raw_public.x.shape[1:], tried)
        if found.hash != self.join.features:
            raise LimbeckError(
                f"{path} holds another feature map ({found.hash[:12]}) than the join file ({self.join.features[:12]})"
            )
        return found

    def ledger_store(self, run: str, cap: Budget | None) -> LedgerStore:
        """Ledger of all runs, with the owner's budget for all runs and the cap of this run."""
        ledger_store = LedgerStore(private_file(self.path / "ledger.sqlite"), run, self.settings.budget, cap)
        if head := self.answer_store.head:
            ledger_store.check_head(head, str(self.answer_store.path))
        return ledger_store

    @cached_property
    def answer_store(self) -> "AnswerStore":
        """Store of the party's answers."""
        return AnswerStore(self.path / "answers.sqlite")

    @cached_property
    def secret(self) -> bytes | None:
        """Random bytes that determine, with the name of a run, how rows are partitioned; None in a simulation."""
        return None if self.settings.simulation else read_or_create_secret(self.path / "secret")

    def work(self) -> Path:
        """Folder of a question while it is answered."""
        return private_folder(self.path / "work")

    def alone(self) -> AbstractContextManager[None]:
        """Context manager that locks the folder: only one program at a time answers for a party."""
        return locked(self.path / "lock", f"{self.path}: another program answers for this party already; stop it first")


def init(path: Path, join_file: Path) -> Path:
    """Make a party's folder and its key; returns the file of the public key, for the coordinator."""
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
    """Replace the join file by a new one for the same party; the coordinator has changed what will be asked."""
    join = read_join(join_file)
    if (join.party, join.index) != (folder.join.party, folder.join.index):
        raise LimbeckError(
            f"{join_file} invites {join.party}, number {join.index}: this folder is {folder.join.party}'s"
        )
    with folder.alone():
        write_private(folder.path / "join.json", join.to_json().encode())
        (folder.path / CHECKED).unlink(missing_ok=True)


def rekey(folder: PartyFolder) -> Path:
    """Replace the key by a new one, which the coordinator must admit; returns the file of the public key."""
    from limbeck.engines.flower.keys import write_party_key

    with folder.alone():
        (folder.path / "key").unlink(missing_ok=True)
        return write_party_key(folder.path, folder.join.party)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that needs a person's approval.

    Parameters
    ----------
    number : int
        Number of the request in the folder.
    run : str
        The run.
    turn : int
        Turn of the run.
    question : str
        Hash of the question.
    what : str
        Description for the person.
    decision : str or None
        "approved", "denied", or None.
    """

    number: int
    run: str
    turn: int
    question: str
    what: str
    decision: str | None


class AnswerStore(Database):
    """A party's answers, and what its algorithms remember. A repeated question gets the same answer."""

    schema = SCHEMA

    def answer(self, run: str, turn: int) -> tuple[str, bytes] | None:
        """Hash of the question at a turn, and its answer; None if there was none."""
        found = self._rows("SELECT question, answer FROM answers WHERE run = ? AND turn = ?", run, turn)
        return found[0] if found else None

    def turn_before(self, run: str, turn: int) -> int:
        """Last answered turn of a run before this one; -1 if there is none."""
        query = "SELECT coalesce(max(turn), -1) FROM answers WHERE run = ? AND turn < ?"
        return int(self._rows(query, run, turn)[0][0])

    def was_counted(self, run: str, where: str) -> bool:
        """Whether the ledger has been charged for what the server releases of a run's answers in the run `where`."""
        return bool(self._rows("SELECT 1 FROM counted WHERE run = ? AND place = ?", run, where))

    def count(self, run: str, where: str) -> None:
        """Record that the ledger has been charged."""
        self._rows("INSERT OR IGNORE INTO counted VALUES (?, ?)", run, where)

    def had_other_terms(self, run: str, terms: Terms) -> bool:
        """Whether other terms are recorded for a run."""
        known = self._rows("SELECT terms FROM runs WHERE run = ?", run)
        return bool(known) and known[0][0] != _terms_json(terms)

    def record_terms(self, run: str, terms: Terms) -> None:
        """Record the terms of a run's first accepted question; they are final."""
        self._rows("INSERT OR IGNORE INTO runs VALUES (?, ?)", run, _terms_json(terms))

    def memory(self, run: str) -> dict[str, Array | bytes]:
        """What the algorithm remembers of a run."""
        found = self._rows("SELECT memory FROM memories WHERE run = ?", run)
        return unpack_memory(found[0][0]) if found else {}

    @property
    def head(self) -> Head | None:
        """Head of the ledger at the last answer; a ledger without it was replaced by an older or a new one."""
        found = self._rows("SELECT number, digest FROM head")
        return found[0] if found else None

    def keep(self, run: str, turn: int, question: str, answer: bytes, memory: Mapping[str, Any], head: Head) -> None:
        """Store an answer, the memory after it and the ledger's head in one transaction.

        Parameters
        ----------
        run : str
            The run.
        turn : int
            Turn of the run.
        question : str
            Hash of the question.
        answer : bytes
            Encoded answer.
        memory : mapping
            What the algorithm remembers.
        head : tuple of int and str
            Head of the ledger.
        """
        with self.at_once():
            self._rows("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", run, turn, question, answer)
            self._rows("REPLACE INTO memories VALUES (?, ?)", run, pack_memory(memory))
            self._rows("REPLACE INTO head VALUES (1, ?, ?)", *head)

    def request(self, run: str, turn: int, question: str, what: str) -> Waiting:
        """Record a request that needs approval, and return it with its decision.

        Parameters
        ----------
        run : str
            The run.
        turn : int
            Turn of the run.
        question : str
            Hash of the question.
        what : str
            Description for the person.

        Returns
        -------
        Waiting
            The request, recorded now or before.
        """
        self._rows("INSERT OR IGNORE INTO requests VALUES (NULL, ?, ?, ?, ?, NULL)", run, turn, question, what)
        return next(w for w in self.requests() if (w.run, w.turn, w.question) == (run, turn, question))

    def requests(self) -> list[Waiting]:
        """All requests that needed approval."""
        return [Waiting(*row) for row in self._rows("SELECT * FROM requests ORDER BY number")]

    def decide(self, number: int, decision: str) -> None:
        """Record a decision, unless there is one."""
        self._rows("UPDATE requests SET decision = ? WHERE number = ? AND decision IS NULL", decision, number)


def _terms_json(terms: Terms) -> str:
    return json.dumps(asdict(terms), sort_keys=True)
