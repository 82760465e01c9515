"""Experiments of a coordinator: the private rows are in other organisations."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, StrictBool, StrictFloat, StrictInt, model_validator

from limbeck.data.files import read_table
from limbeck.data.label_columns import with_positive_last
from limbeck.data.labels import check_labels
from limbeck.data.own import ARRAYS, private_rows, public_rows
from limbeck.data.schema import Schema, read_schema, schema_of, schema_of_texts
from limbeck.data.sets import is_file_of_texts
from limbeck.data.texts import column_of
from limbeck.data.tokens import Tokens
from limbeck.data.weights import ClassWeights, check_class_weights, factors_of
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.config import (
    MODEL,
    algorithm_in,
    budget_in,
    check_table,
    features_in,
    model_in,
    read_toml,
    training_in,
)
from limbeck.experiments.data_table import Columns, Table
from limbeck.experiments.mapping import vectors_of
from limbeck.experiments.weighting import check_server_takes_weights, check_uses_weights
from limbeck.features.files import read_map, source_of_map, write_map
from limbeck.features.map import FeatureMap
from limbeck.features.sentences import rule_of_texts
from limbeck.features.settings import Features, applied, fitted_on, network_digest
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.envelopes import Terms
from limbeck.protocol.learning import Model
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import PublicRows, Rows, content_hash
from limbeck.protocol.task import Kind, Task


class Shared(Columns):
    """Table `[data]`: what all parties know, and the coordinator's test rows.

    Parameters
    ----------
    public : str
        File of public rows.
    labelled : bool
        Whether all parties may use the labels of the public rows.
    classes : list of str
        All classes, in order; by default the names of the label columns for several labels a row and for a number.
    class_weights : mapping of str to float, optional
        Weights of classes, by which every party weights its rows; a class without one has the weight 1.
    test : str, optional
        File of test rows.
    """

    public: str
    labelled: StrictBool = False
    classes: list[str] = Field([], min_length=1)
    class_weights: Annotated[ClassWeights | None, PlainValidator(check_class_weights)] = None
    test: str | None = None

    @model_validator(mode="after")
    def _labels_are_named(self) -> "Shared":
        check_labels(self.label, self.task, self.limits, self.classes)
        names = list(self.labels_of_tables) or ["target"] * (self.kind == "regression")
        if self.kind == "regression" and self.limits is None:
            raise LimbeckError(
                'range is missing: task = "regression" needs the public range of the target, [low, high]'
            )
        object.__setattr__(self, "classes", self.classes or ([] if self.kind == "multiclass" else names))
        if len(self.classes) < (2 if self.kind == "multiclass" else 1):
            raise LimbeckError("classes is missing: list all classes, in order")
        object.__setattr__(self, "classes", list(with_positive_last(self.classes, self.positive)))
        self.factors  # noqa: B018  (raises if class_weights do not suit the classes)
        return self

    @property
    def factors(self) -> list[float] | None:
        """Weight of each class, the largest 1; None if there are none."""
        found = factors_of(self.class_weights, self.classes, self.kind, is_private=False)
        return None if found is None else found.tolist()

    @property
    def kind(self) -> Kind:
        """Kind of the labels."""
        several: Kind = "multilabel" if isinstance(self.label, list) else "multiclass"
        return self.task or ("regression" if self.limits else several)

    @property
    def whole_task(self) -> Task:
        """Task with its range."""
        return Task(self.kind, *map(float, self.limits or ()))


class RunConfiguration(Table):
    """A whole experiment file.

    Parameters
    ----------
    seed : int
        Seed of the server.
    noise : {"secure", "simulated"}
        Noise of the server's releases.
    quorum : int, optional
        Fewest parties that must answer; by default all.
    deadline : float
        Seconds that each request waits for answers.
    budget : Budget, optional
        Largest epsilon that all runs of the server's ledger may spend.
    data : Shared
        Table `[data]`.
    model : Model
        Model of the server; by default a random forest.
    training : Training
        Table `[training]`.
    features : Features, optional
        Table `[features]`: what all rows are mapped to.
    algorithm : Algorithm
        Table `[algorithm]`.
    """

    seed: StrictInt = Field(0, ge=0)
    noise: Noise = "secure"
    quorum: StrictInt | None = Field(None, ge=1)
    deadline: Annotated[StrictFloat | StrictInt, Field(gt=0)] = 3600.0
    budget: Annotated[Budget | None, PlainValidator(budget_in)] = None
    data: Shared
    model: Annotated[Model, PlainValidator(model_in)] = Field(default_factory=lambda: model_in(MODEL))
    training: Annotated[Training, PlainValidator(training_in)] = Training()
    features: Annotated[Features | None, PlainValidator(features_in)] = None
    algorithm: Annotated[Algorithm, PlainValidator(algorithm_in)]

    @model_validator(mode="after")
    def _suits_the_algorithm(self) -> "RunConfiguration":
        algorithm, features = applied(self.algorithm, self.features)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "features", features)
        self.algorithm.check_task(self.data.whole_task)
        check_server_takes_weights(self.algorithm, self.model, self.data.kind)
        if self.data.class_weights is not None:  # the parties check their own models
            check_uses_weights(self.algorithm, [], self.model, self.data.kind)
        if self.algorithm.needs_public_labels and not self.data.labelled:
            raise LimbeckError(
                f"{self.algorithm.name} needs labelled public rows: an NPZ file with y_train, and data.labelled = true"
            )
        if self.algorithm.needs_population and self.noise == "secure":
            raise LimbeckError(
                f"{self.algorithm.name} between organisations needs algorithm.population: a number of rows that every "
                "party has at least"
            )
        return self


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """An experiment with its rows.

    Parameters
    ----------
    configuration : RunConfiguration
        The checked experiment.
    table : dict
        Its TOML table.
    public : Rows
        Public rows, mapped to features if the experiment has them.
    test : Rows or None
        Test rows, mapped in the same way.
    schema : Schema or None
        Schema of tables.
    public_hash : str
        Content hash of the raw public rows.
    features : FeatureMap or None
        The map.
    folder : Path
        Folder that paths are relative to.
    """

    configuration: RunConfiguration
    table: dict[str, Any]
    public: Rows
    test: Rows | None
    schema: Schema | None
    public_hash: str
    features: FeatureMap | None = None
    folder: Path = Path()

    @property
    def public_rows(self) -> PublicRows:
        """Public rows, with labels only if the algorithm needs them."""
        labels = self.public.y if self.configuration.algorithm.needs_public_labels else None
        tokens = self.features is None and self.schema is not None and self.schema.text is not None
        return PublicRows(self.public.x, labels, self.public_hash, tokens)

    @property
    def row(self) -> tuple[int, ...]:
        """Shape of a raw row."""
        return self.features.row if self.features else self.public.x.shape[1:]

    def quorum(self, parties: int, removed: Sequence[int] = ()) -> int:
        """Fewest parties that must answer: as configured, or all that were not removed."""
        return self.configuration.quorum or max(1, parties - len(removed))

    def terms(self, parties: int) -> Terms:
        """Terms of a run with so many parties."""
        return Terms(
            algorithm=self.configuration.algorithm.name,
            parameters=asdict(self.configuration.algorithm),  # type: ignore[call-overload]
            parties=parties,
            seed=self.configuration.seed,
            classes=self.configuration.data.classes,
            public=self.public_hash,
            schema=self.schema.to_json() if self.schema else None,
            labelled=self.configuration.data.labelled,
            features=self.features.hash if self.features else None,
            task=self.configuration.data.whole_task,
            class_weights=self.configuration.data.factors,
        )


def prepare_run(file: Path, is_checked: bool = False) -> PreparedRun:
    """Read an experiment and its public and test rows; paths are relative to the file.

    Parameters
    ----------
    file : Path
        The experiment.
    is_checked : bool
        Whether warnings about columns of the public rows were shown before, when parties were invited.

    Returns
    -------
    PreparedRun
        The experiment with its rows.
    """
    table = read_toml(file)
    configuration = check_table(RunConfiguration, table, str(file))
    data, base = configuration.data, file.parent
    path = base / data.public
    rule = rule_of_texts(data.text, configuration.algorithm, configuration.features, base)
    with warnings.catch_warnings():
        if is_checked:
            warnings.simplefilter("ignore", LimbeckWarning)
        schema = _schema(path, data, file, rule)
    public = public_rows(path, schema, data.whole_task if data.labelled else None, data.reading)
    test = (
        private_rows(base / data.test, data.classes, schema, None, data.whole_task, False, data.reading)
        if data.test
        else None
    )
    if test is not None and test.x.shape[1:] != public.x.shape[1:]:
        raise LimbeckError(f"{file}: test rows have the shape {test.x.shape[1:]}, public rows {public.x.shape[1:]}")
    known = content_hash(public.x)
    features = _features(configuration, public, file, known, schema is not None and schema.text is not None)
    if features:
        public, test = vectors_of(features, public), vectors_of(features, test) if test else None
    return PreparedRun(configuration, table, public, test, schema, known, features, base)


def features_file(file: Path) -> Path:
    """File of the feature map of an experiment, beside the experiment; every party gets it."""
    return file.with_suffix(".features.safetensors")


def _features(
    configuration: RunConfiguration, public: Rows, file: Path, known: str, of_tokens: bool
) -> FeatureMap | None:
    """Map of the experiment. It stays in its file: another machine would not fit the same one to the bit."""
    chosen, path = configuration.features, features_file(file)
    if chosen is None:
        return None
    network = network_digest(configuration.algorithm, chosen, file.parent)
    source = json.dumps([asdict(chosen), configuration.seed, known, network], sort_keys=True)
    if not path.exists() or source_of_map(path) != source:
        found = fitted_on(chosen, public.x, configuration.seed, file.parent, of_tokens)
        assert found is not None
        write_map(path, found, source)
    return read_map(path, public.x.shape[1:], tried=True)


def _schema(path: Path, data: Shared, file: Path, rule: Tokens | None) -> Schema | None:
    """Schema of the consortium: of tables, or of texts in arrays; None for other arrays."""
    if path.suffix.lower() not in ARRAYS:
        if data.schema_file and data.text:
            raise LimbeckError(f"{file}: data.schema names the column of texts; remove data.text")
        schema = read_schema(file.parent / data.schema_file) if data.schema_file else _learned(path, data, file, rule)
        if data.schema_file and schema.text:
            schema.text.check_encoder(rule)
        return schema
    if data.schema_file:
        raise LimbeckError(f"{file}: data.schema is for tables; {data.public} holds arrays")
    if is_file_of_texts(path):
        return schema_of_texts(rule or Tokens(), data.classes)
    if data.text:
        raise LimbeckError(f"{file}: data.text: {data.public} holds no texts; remove data.text")
    return None


def _learned(path: Path, data: Shared, file: Path, rule: Tokens | None) -> Schema:
    if data.label is None:
        raise LimbeckError(f"{file}: data.label is missing: name the column that has the classes or the numeric target")
    label = tuple(data.classes) if data.kind == "multilabel" else data.labels_of_tables[0]
    limits = (data.whole_task.low, data.whole_task.high) if data.kind == "regression" else None
    public, ignored = read_table(path, data.reading), (*data.ignore, *filter(None, [data.row_id]))
    text = (
        column_of(public.without(*ignored), data.labels_of_tables, data.text.column, rule or Tokens())
        if data.text
        else None
    )
    return schema_of(public, label, data.classes, text, data.kind, limits, data.row_id, data.ignore)
