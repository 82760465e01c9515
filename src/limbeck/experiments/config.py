"""Experiment files: the tables of a TOML file, checked.

An unknown key is an error that suggests the most similar known key.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, PlainValidator, StrictBool, StrictInt, ValidationError, model_validator

from limbeck.algorithms import algorithm_named
from limbeck.data.draw import Draw, FromFile
from limbeck.data.reading import Reading, reading_in
from limbeck.errors import LimbeckError
from limbeck.experiments.data_table import Data, Table, name_and_parameters
from limbeck.experiments.headline import DEFAULT_MODEL
from limbeck.experiments.headline import read_toml as read_toml
from limbeck.features.settings import NO_PUBLIC, Features, applied
from limbeck.models.named import model_from
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget, check_site_names
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise
from limbeck.protocol.task import Kind
from limbeck.tables import first_problem, from_table, named_party

T = TypeVar("T", bound="Table")


def model_in(value: Any) -> Model:
    """Model that a table with a `name` and its parameters describes."""
    name_and_parameters(value, "name", '{ name = "random-forest", max_depth = 6 }')
    return model_from(value)


def algorithm_in(value: Any) -> Algorithm:
    """Algorithm that a table with a `name` and its parameters describes.

    Parameters
    ----------
    value : dict
        Table `[algorithm]`.

    Returns
    -------
    Algorithm
        The algorithm.

    Examples
    --------
    >>> algorithm_in({"name": "fedkt", "partitions": 1}).partitions
    1
    """
    name, parameters = name_and_parameters(value, "name", 'name = "fedvote"')
    return from_table(algorithm_named(name), parameters)


def budget_in(value: Any) -> Budget:
    """Budget that a table with `epsilon`, `delta`, `observer` and `unit` describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write budget = { epsilon = 3.0, delta = 1e-5, observer = "public", unit = "example" }')
    return from_table(Budget, value)


def features_in(value: Any) -> Features:
    """Features that a table with a `kind` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write features = { kind = "auto", number = 300 }')
    return from_table(Features, value)


def training_in(value: Any) -> Training:
    """Training options that a table with `device`, `trainer` and so on describes."""
    if not isinstance(value, dict):
        raise LimbeckError('write training = { device = "auto", trainer = "auto" }')
    return from_table(Training, value)


class Party(Table):
    """Table `[[party]]`: settings of one party.

    Parameters
    ----------
    index : int
        Number of the party, from 0.
    name : str, optional
        Name of the party in a ledger that several runs share.
    model : Model, optional
        Model of the party; by default `[model]`.
    data : str, optional
        File of its private rows.
    test : str, optional
        File of its own test rows, on which the final model is measured for this party.
    reading : Reading, optional
        How its files are read, in place of `data.reading`.
    """

    index: StrictInt = Field(ge=0)
    name: str | None = None
    model: Annotated[Model | None, PlainValidator(model_in)] = None
    data: str | None = None
    test: str | None = None
    reading: Annotated[Reading | None, PlainValidator(reading_in)] = None


class Server(Table):
    """Table `[server]`.

    Parameters
    ----------
    model : Model
        Model of the server; by default `[model]`.
    """

    model: Annotated[Model, PlainValidator(model_in)]


class Source(Table):
    """Source of the rows: the part of a file that `limbeck data split` needs.

    Parameters
    ----------
    seed : int
        Seed of all randomness.
    data : Data
        Table `[data]`.
    party : list of Party
        Tables `[[party]]`.
    """

    seed: StrictInt = Field(0, ge=0)
    data: Data
    party: list[Party] = Field([])

    @model_validator(mode="after")
    def _parties_exist(self) -> "Source":
        indices = [party.index for party in self.party]
        for index in indices:
            if index >= self.parties:
                raise LimbeckError(f"[[party]] index = {index}, but there are {self.parties} parties, numbered from 0")
            if indices.count(index) > 1:
                raise LimbeckError(f"[[party]] index = {index} occurs twice; number the parties from 0")
        try:
            check_site_names([party.name for party in self.party if party.name is not None])
        except LimbeckError as error:
            raise LimbeckError(f"[[party]] name: {error}") from error
        return self

    @model_validator(mode="after")
    def _one_source(self) -> "Source":
        sources = {"data.name": self.data.name, "data.path": self.data.path, "[[party]] data": self.files or None}
        given = [key for key, value in sources.items() if value is not None]
        if self.data.name and self.data.classes:
            raise LimbeckError("data.classes is only for your own files: a named data set has its classes")
        if self.data.schema_file and self.data.classes:
            raise LimbeckError("data.classes and data.schema: the schema names the classes; remove data.classes")
        if self.data.name and self.data.text and self.data.text.column:
            raise LimbeckError("data.text.column is only for tables: a named data set has one text in each row")
        if self.data.schema_file and self.data.text:
            raise LimbeckError("data.text and data.schema: the schema names the column of texts; remove data.text")
        if len(given) != 1:
            raise LimbeckError(f"rows come from one of {', '.join(sources)}; given: {', '.join(given) or 'none'}")
        if self.files and len(self.files) != len(self.party):
            lacking = next(party.index for party in self.party if party.data is None)
            raise LimbeckError(f"[[party]] index = {lacking} has no data, but others have; give every party a file")
        tested = [party.index for party in self.party if party.test is not None]
        if tested and not self.files:
            raise LimbeckError(
                f"[[party]] index = {tested[0]}: test is for parties with files; give data.test, or data to every party"
            )
        return self

    @property
    def kind(self) -> Kind | None:
        """Kind of the labels, as in the file; None if it is found from the labels, in a simulation."""
        if self.data.task is None and self.data.limits is not None:
            return "regression"
        return self.data.task or ("multilabel" if isinstance(self.data.label, list) else None)

    @property
    def files(self) -> list[str]:
        """Files of the parties in party order; empty if rows are split among the parties."""
        return [party.data for party in sorted(self.party, key=lambda party: party.index) if party.data]

    @property
    def readings(self) -> list[Reading]:
        """How the files of each party are read, in party order."""
        return [party.reading or self.data.reading for party in sorted(self.party, key=lambda party: party.index)]

    @property
    def test_files(self) -> list[str | None]:
        """Files of the parties' own test rows in party order; empty if there are none."""
        files = [party.test for party in sorted(self.party, key=lambda party: party.index)]
        return files if any(files) else []

    @property
    def parties(self) -> int:
        """Number of parties."""
        return len(self.files) or self.data.parties

    @property
    def names(self) -> list[str] | None:
        """Names of the parties in a ledger; None if no party has a name."""
        known = {party.index: party.name for party in self.party if party.name is not None}
        return [known.get(index, f"party {index}") for index in range(self.parties)] if known else None


MODEL = {"name": DEFAULT_MODEL}


class Experiment(Source):
    """A whole experiment file.

    Parameters
    ----------
    noise : {"secure", "simulated"}, optional
        Noise of private releases; by default secure for the user's own files, simulated for named data sets.
    budget : Budget, optional
        Largest epsilon that all runs of the ledger may spend.
    ledger : str, optional
        Ledger file that several runs share.
    bounds : bool
        Whether to measure what each party's model would reach with the rows of all parties; only in simulations.
    model : Model
        Table `[model]`; by default a random forest.
    server : Server, optional
        Table `[server]`.
    training : Training
        Table `[training]`.
    features : Features, optional
        Table `[features]`: what all rows are mapped to.
    algorithm : Algorithm
        Table `[algorithm]`.
    """

    noise: Noise | None = None
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    ledger: str | None = None
    bounds: StrictBool = False
    model: Annotated[Model, PlainValidator(model_in)] = Field(default_factory=lambda: model_in(MODEL))
    server: Server | None = None
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    features: Annotated[Features | None, PlainValidator(features_in)] = None
    algorithm: Annotated[Algorithm, PlainValidator(algorithm_in)]

    @model_validator(mode="after")
    def _features_go_where_they_are_applied(self) -> "Experiment":
        algorithm, features = applied(self.algorithm, self.features)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "features", features)
        if features is not None and self.data.public is None:
            raise LimbeckError(NO_PUBLIC)
        return self

    @property
    def kind(self) -> Kind | None:
        found = Source.kind.fget(self)  # type: ignore[attr-defined]
        is_real = self.algorithm.is_private and self.noise_source == "secure"
        return found or ("multiclass" if is_real and not self.data.schema_file else None)

    @property
    def noise_source(self) -> Noise:
        """Noise of private releases: as in the file, else secure for the user's own files."""
        return self.noise or ("secure" if self.files or self.data.path else "simulated")

    def takes_from_private(self, part: Draw | FromFile | None) -> bool:
        """Whether public or test rows are drawn from the user's own private file."""
        return self.data.path is not None and isinstance(part, Draw) and part.name is None

    @property
    def server_model(self) -> Model:
        """Model of the server."""
        return self.server.model if self.server else self.model

    @property
    def models(self) -> list[Model]:
        """Models of all parties, then that of the server."""
        return [*(self.model_of(party) for party in range(self.parties)), self.server_model]

    def model_of(self, party: int) -> Model:
        """Model of a party."""
        return {entry.index: entry.model for entry in self.party}.get(party) or self.model


def check_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Check a table of a file.

    Parameters
    ----------
    kind : type
        Class of the table, for example `Experiment`.
    table : mapping
        The table.
    where : str
        The file, for error messages.

    Returns
    -------
    Table
        Instance of `kind`.

    Raises
    ------
    LimbeckError
        With the file, the key and the first problem.
    """
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        raise LimbeckError(f"{where}: {named_party(first_problem(error), table)}") from error
