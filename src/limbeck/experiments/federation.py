"""A federation that is ready to run: the rows and the models of all parties and of the server."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from limbeck.data.arrays import data_folder
from limbeck.data.mapping import cache_of, mapped
from limbeck.data.schema import Schema
from limbeck.data.suitability import GOOD_COVERAGE, MIN_ROWS, coverage
from limbeck.engines.engine import Engine
from limbeck.engines.in_process import InProcess
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.clock import Clock
from limbeck.experiments.curve import Curve
from limbeck.experiments.metrics import Metrics, constant_metric, mean_metrics, score
from limbeck.experiments.record import (
    SERVER,
    PartyRecord,
    RunRecord,
    delta_of,
    owner_part,
    published,
    record_of,
    task_facts,
)
from limbeck.experiments.result import FinishedRun, Predictor, labelled
from limbeck.experiments.weighting import check_server_takes_weights, check_uses_weights
from limbeck.features.map import FeatureMap
from limbeck.features.packing import packed_behind
from limbeck.features.settings import hash_of_map
from limbeck.models.jobs import is_gradient_trained
from limbeck.models.named import reads_tokens
from limbeck.models.onnx import PackedModel
from limbeck.models.smoke_test import smoke_test
from limbeck.models.tasks import for_task
from limbeck.privacy.available import check_can_draw
from limbeck.privacy.guarantees import guarantees
from limbeck.privacy.ledger import LedgerStore, check_site_names
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.learning import Model, Trainer
from limbeck.protocol.release import Noise, Release
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import MULTICLASS, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """A federation that is ready to run in this process.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    seed : int
        The seed of all random numbers, except secure noise.
    classes : array of shape (classes,)
        The class names, in the order of the class numbers.
    private : sequence of Rows
        The private rows of each party.
    models : sequence of Model
        The model of each party.
    server_model : Model
        The model of the server.
    public : Rows or None
        The public rows.
    test : Rows or None
        The test rows.
    schema : Schema or None
        The columns of the tables, or the texts, that rows come from.
    features : FeatureMap or None
        The map that made all rows from raw rows; None if rows are raw.
    public_hash : str
        The content hash of the raw public rows, if rows were mapped.
    public_is_from_same_source : bool
        Whether public and private rows are drawn at random from the same rows.
    public_is_labelled : bool
        Whether the labels of the public rows are known.
    classes_are_private : bool
        Whether the classes were read from the labels of private rows.
    own_tests : sequence of (Rows or None)
        The test rows of each party's own; empty if no party has any.
    tests_private_rows : bool
        Whether the test rows were taken from users' private files.
    config : mapping
        The configuration, for the record.
    noise : {"simulated", "secure"}
        Where noise comes from.
    ledger_store : LedgerStore
        The store of the ledger.
    names : sequence of str or None
        The parties' names, by which a ledger that several runs share knows them; None means party 0, party 1 and so on.
    folder : Path
        Folder that paths of the algorithm are relative to.
    task : Task
        Kind of the labels.

    Raises
    ------
    LimbeckError
        If rows, models, names or classes do not suit the algorithm.
    """

    algorithm: Algorithm
    seed: int
    classes: Array
    private: Sequence[Rows]
    models: Sequence[Model]
    server_model: Model
    public: Rows | None = None
    test: Rows | None = None
    schema: Schema | None = None
    features: FeatureMap | None = None
    public_hash: str = ""
    public_is_from_same_source: bool = False
    public_is_labelled: bool = False
    classes_are_private: bool = False
    own_tests: Sequence[Rows | None] = ()
    tests_private_rows: bool = False
    config: Mapping[str, Any]
    noise: Noise = "simulated"
    ledger_store: LedgerStore = field(default_factory=LedgerStore)
    names: Sequence[str] | None = None
    folder: Path = Path()
    task: Task = MULTICLASS

    def __post_init__(self) -> None:
        self.algorithm.check_task(self.task)
        if self.names is not None:
            if len(self.names) != len(self.private):
                raise LimbeckError(f"names: {len(self.names)} names for {len(self.private)} parties; give one for each")
            check_site_names(
                [name for name, numbered in zip(self.names, self._numbered, strict=True) if name != numbered]
            )
        if self.algorithm.needs_public_rows and not self.public:
            raise LimbeckError(f"{self.algorithm.name} needs public rows: set data.public (Python: public=...)")
        check_server_takes_weights(self.algorithm, self.server_model, self.task.kind)
        if any(rows.weight is not None for rows in self.private):
            check_uses_weights(self.algorithm, self.models, self.server_model, self.task.kind)
        if self.algorithm.needs_one_network:
            check_one_network(self.algorithm.name, self.models, self.server_model)
        if self.is_real and self.classes_are_private and self.task.kind == "regression":
            raise LimbeckError(
                "the range of the target would be read from private labels: give it by data.range or data.schema "
                "(Python: limits=(low, high))"
            )
        if self.is_real and self.classes_are_private:
            raise LimbeckError(
                "the class names would be read from private labels and stored in the model: give them by data.classes "
                "or data.schema (Python: classes=[...]), or data.range for numbers (Python: limits=(low, high))"
            )
        if self.task.kind == "regression" and len(self.classes) != 1:
            raise LimbeckError(f"classes: a numeric target has one name, not {len(self.classes)}")
        if self.algorithm.needs_public_labels and not self.public_is_labelled:
            raise LimbeckError(
                f"{self.algorithm.name} needs labelled public rows: draw them from the data set itself, or from "
                'another one with labels = "own" or "shared" (Python: public=(X, y))'
            )

    @property
    def is_real(self) -> bool:
        """Whether the run is private and its noise secure, so that its record has only public and released facts."""
        return self.algorithm.is_private and self.noise == "secure"

    @property
    def are_tokens(self) -> bool:
        """Whether the rows are token numbers of texts, not mapped to features."""
        return self.features is None and self.schema is not None and self.schema.text is not None

    @property
    def titles(self) -> list[str]:
        """The parties' names in the ledger."""
        return list(self.names) if self.names else self._numbered

    @property
    def _numbered(self) -> list[str]:
        return [f"party {party}" for party in range(len(self.private))]

    def sites(self, trainer: Trainer) -> tuple[Site, list[Silo]]:
        """Make the server's site and the silos; public labels go only to algorithms that need them.

        Parameters
        ----------
        trainer : Trainer
            The trainer of all sites.

        Returns
        -------
        (Site, list of Silo)
            The server, and the silo of each party.
        """
        run = RunContext(
            algorithm=self.algorithm,
            public=self._public_rows(),
            classes=len(self.classes),
            seed=self.seed,
            parties=len(self.private),
            noise=self.noise,
            name=self.ledger_store.run,
            folder=self.folder,
            task=self.task,
        )
        secret = self.ledger_store.secret if self.noise == "secure" else None
        silos = [
            run.party(party, rows, model, trainer, self.ledger_store.of(title), secret, title=title)
            for party, (rows, model, title) in enumerate(zip(self.private, self.models, self.titles, strict=True))
        ]
        return run.server(self.server_model, trainer, self.ledger_store.of(SERVER), secret), silos

    def planned(self) -> list[Release]:
        """List what the run will release, by the parties' names in the ledger."""
        public = len(self.public) if self.public else 0
        facts = Facts(public, len(self.classes), len(self.private), self.noise, task=self.task)
        rows = None if self.noise == "secure" else [len(rows) for rows in self.private]
        known = dict(zip(self._numbered, self.titles, strict=True))
        releases = planned_releases(self.algorithm.disclosures, facts, rows)
        return [replace(row, site=known.get(row.site, row.site)) for row in releases]

    def check_plan(self) -> None:
        """Raise before any training if the noise cannot be calibrated or the run would exceed its budget."""
        releases = self.planned()
        check_can_draw(releases)
        guarantees(releases, delta_of(self.algorithm, releases), self.algorithm.rows_per_person)
        self.ledger_store.check_plan(releases)
        self._warn_of_few_rows()
        if self.ledger_store.budgets and not self.algorithm.is_private:
            warnings.warn("there is a budget, but nothing gets noise: see privacy.md", LimbeckWarning, stacklevel=2)

    def _warn_of_few_rows(self) -> None:
        """Warn at a private level, where an error would reveal how many rows there are."""
        subsets = self.algorithm.min_rows
        few = [(len(rows), title) for rows, title in zip(self.private, self.titles, strict=True) if len(rows) < subsets]
        if few and self.algorithm.is_private:
            rows, title = min(few)
            warnings.warn(
                f"algorithm.subsets: {title} has {rows} rows, fewer than {subsets} subsets: some of its teachers "
                f"vote for a fixed class; use at most {rows} subsets",
                LimbeckWarning,
                stacklevel=3,
            )

    def smoke_test(self, known: set[str] | None = None) -> None:
        """Raise before any training if a model cannot be fitted or packed.

        Parameters
        ----------
        known : set of str or None
            Descriptions of models that were tested on such rows before; those tested now are added.
        """
        known = set() if known is None else known
        for model in {id(model): model for model in [*self.models, self.server_model]}.values():
            if repr(model.description) not in known:
                smoke_test(for_task(model, self.task.kind), self.private[0].x.shape[1:], len(self.classes))
                known.add(repr(model.description))

    def warn_of_strange_public_rows(self) -> None:
        """Warn if most private rows of a party have no public row near them."""
        if self.public is None or self.public_is_from_same_source or len(self.public) < MIN_ROWS or self.are_tokens:
            return
        large = [(party, rows) for party, rows in enumerate(self.private) if len(rows) >= MIN_ROWS]
        poor = [party for party, rows in large if coverage(self.public.x, rows.x) < GOOD_COVERAGE]
        if poor:
            warnings.warn(
                f"the public rows suit {len(poor)} of {len(self.private)} parties poorly (the first: party {poor[0]}): "
                "most of their rows have no public row near them; `limbeck data fit` shows details",
                LimbeckWarning,
                stacklevel=2,
            )

    def warn_of_unread_texts(self) -> None:
        """Warn if models take the token numbers of texts as quantities."""
        models = [] if self.algorithm.applies_features else [*self.models, self.server_model]
        poor = [model.name for model in models if not reads_tokens(model.name)]
        if self.are_tokens and poor:
            warnings.warn(
                f"{poor[0]} takes the token numbers of texts as quantities: use the model tfidf-linear, text-cnn or "
                'bag-of-embeddings, or features = { kind = "tfidf" }',
                LimbeckWarning,
                stacklevel=2,
            )

    def run(self, trainer: Trainer, clock: Clock | None = None, smoke_tested: set[str] | None = None) -> FinishedRun:
        """Run in this process.

        Parameters
        ----------
        trainer : Trainer
            The trainer of all sites.
        clock : Clock or None
            Measures the time of each phase; None means a new clock.
        smoke_tested : set of str or None
            Descriptions of models that need no smoke test.

        Returns
        -------
        FinishedRun
            The models and the record.
        """
        clock = clock or Clock()
        with clock.phase("smoke test"):
            self.check_plan()
            self.smoke_test(smoke_tested)
            self.warn_of_strange_public_rows()
            self.warn_of_unread_texts()
        engine = InProcess(self.algorithm, *self.sites(trainer), trainer)
        return self.finish(engine, clock)

    def finish(self, engine: Engine, clock: Clock) -> FinishedRun:
        """Run under any engine, measure the models, and make the record.

        Parameters
        ----------
        engine : Engine
            The engine, with the sites of this federation.
        clock : Clock
            Measures the time of each phase.

        Returns
        -------
        FinishedRun
            The models and the record.
        """
        curve = Curve(self.test, self.task) if self.test else None
        if curve:
            engine.watch = curve.look
        with clock.phase("learn"):
            outcome = engine.run()
        installed = {silo.party: silo.installed for silo in engine.silos if silo.installed and not outcome.model}
        with clock.phase("score"):
            by_party = {party: curve.metrics(onnx) for party, onnx in installed.items()} if curve else {}
            metrics = curve.metrics(outcome.model) if outcome.model and curve else None
            own_tests = self._on_own_tests(outcome.model, installed)
        if by_party:
            metrics = mean_metrics(list(by_party.values()))
        model = self._classifier(outcome.model) if outcome.model else None
        models = {party: self._classifier(onnx) for party, onnx in installed.items()}
        whole = self._record(engine, outcome, metrics, by_party, own_tests, clock, curve.points if curve else [])
        if not self.is_real:
            return FinishedRun(model, models, whole)
        record = published(whole, self.tests_private_rows)
        return FinishedRun(model, models, record, owner_part(whole, engine.rejections))

    def _on_own_tests(self, final: bytes | None, installed: Mapping[int, bytes]) -> dict[int, Metrics]:
        """Metrics of the final model, or of each party's own model, on the test rows of each party's own."""
        models = {party: final or installed.get(party) for party in range(len(self.private))}
        pairs = [(party, models[party], rows) for party, rows in enumerate(self.own_tests)]
        return {party: score(PackedModel(onnx), rows, self.task) for party, onnx, rows in pairs if onnx and rows}

    def check_bounds(self) -> Algorithm:
        """The algorithm that gives the upper bound; raises if there is none."""
        bound = self.algorithm.upper_bound()
        if bound is None or self.test is None:
            raise LimbeckError(f"bounds = true: {self.algorithm.name} has no upper bound, or there are no test rows")
        if self.noise == "secure":
            raise LimbeckError('bounds = true pools all private rows: it needs noise = "simulated"')
        return bound

    def bounds(self, trainer: Trainer) -> dict[str, list[float | None]]:
        """The accuracy that each party's model would reach with the rows of all parties.

        Parameters
        ----------
        trainer : Trainer
            The trainer of all sites.

        Returns
        -------
        dict of str to list
            By the name of the bound's algorithm, the accuracy of each party's model, or None.
        """
        record = replace(self, algorithm=self.check_bounds(), ledger_store=LedgerStore()).run(trainer).record
        return {record.algorithm: [party.headline(self.task.kind) for party in record.parties]}

    def _classifier(self, onnx: bytes) -> Predictor:
        row = self.features.row if self.features else self.private[0].x.shape[1:]
        onnx = packed_behind(self.features, onnx) if self.features else onnx
        packed = labelled(onnx, self.classes, row, self.schema, self.task)
        return Predictor(packed, self.classes, row, self.schema, self.task, self.algorithm.name)

    def _public_rows(self) -> PublicRows:
        if self.public is None:
            return PublicRows(self.private[0].x[:0])
        shared = mapped(self.public.x, cache_of(data_folder()))
        labels = self.public.y if self.algorithm.needs_public_labels else None
        return PublicRows(shared, labels, self.public_hash, self.are_tokens)

    def _record(
        self,
        engine: Engine,
        outcome: Outcome,
        metrics: Metrics | None,
        by_party: Mapping[int, Metrics],
        own_tests: Mapping[int, Metrics],
        clock: Clock,
        curve: Sequence[Mapping[str, Any]],
    ) -> RunRecord:
        traffic = engine.traffic
        parties = [
            PartyRecord(
                index=silo.party,
                rows=len(silo.private),
                classes=self.task.counts(silo.private.y, len(self.classes)).tolist(),
                model=silo.model.description,
                bytes={"up": traffic.up(silo.party), "down": traffic.down(silo.party)},
                metrics=by_party.get(silo.party),
                name=self.names[silo.party] if self.names else None,
                tested=len(self.own_tests[silo.party] or ()) if self.own_tests else 0,
                own_test=own_tests.get(silo.party),
            )
            for silo in engine.silos
        ]
        return record_of(
            self.algorithm,
            engine,
            outcome,
            [row for site in (*engine.silos, engine.server) for row in site.ledger.rows],
            parties,
            seed=self.seed,
            config=self.config,
            data={
                "classes": [str(name) for name in self.classes],
                "private": sum(map(len, self.private)),
                "public": len(self.public) if self.public else 0,
                "test": len(self.test) if self.test else 0,
                "public_hash": engine.server.public.hash,
                **hash_of_map(self.algorithm, self.features, engine.server.public, self.seed, self.folder),
                "classes_are_private": self.classes_are_private,
                **task_facts(self.task),
            },
            noise=self.noise,
            metrics=metrics,
            constant=constant_metric(list(self.private), self.test, len(self.classes), self.task)
            if self.test
            else None,
            timing={
                **clock.timing(),
                "run": self.ledger_store.run or None,
                "date": min(filter(None, (clock.started, self.ledger_store.started))).split("T")[0],
                "engine": engine.name,
                "training": dict(engine.server.trainer.description),
                "requests": [{"request": e.request, "seconds": e.seconds} for e in traffic.exchanges],
            },
            curve=curve,
        )


def check_one_network(algorithm: str, models: Sequence[Any], server_model: Any) -> None:
    """Raise unless all models are the server's network, for an algorithm that sends weights.

    Parameters
    ----------
    algorithm : str
        The name of the algorithm.
    models : sequence of Model
        The parties' models.
    server_model : Model
        The server's model.

    Raises
    ------
    LimbeckError
        If a model is not a network, or not the same as the server's.
    """
    if not is_gradient_trained(server_model):
        raise LimbeckError(f"{algorithm} sends the weights of a network, but a {server_model.name} has none")
    for party, model in enumerate(models):
        if not is_gradient_trained(model) or model.architecture != server_model.architecture:
            raise LimbeckError(
                f"{algorithm} sends weights, but party {party} has another network ({_model_text(model)}) than the "
                f"server ({_model_text(server_model)})"
            )


def _model_text(model: Any) -> str:
    """A model's name and parameters."""
    parameters = {key: value for key, value in model.description.items() if key not in ("name", "recipe", "repr")}
    return " ".join([model.name, *(f"{key}={value}" for key, value in parameters.items())])
