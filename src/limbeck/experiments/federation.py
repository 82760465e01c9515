"""A federation, ready to run: who holds what, and who learns with what."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from limbeck.data.mapping import cache_of, mapped
from limbeck.data.schema import Schema
from limbeck.data.sets import data_folder
from limbeck.data.suitability import GOOD_COVERAGE, MIN_ROWS, coverage
from limbeck.engines.engine import Engine
from limbeck.engines.in_process import InProcess
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.clock import Clock
from limbeck.experiments.curve import Curve
from limbeck.experiments.metrics import Metrics, constant_accuracy, mean_metrics
from limbeck.experiments.record import SERVER, PartyRecord, RunRecord, delta_of, owner_part, published, record_of
from limbeck.experiments.result import Classifier, Result, labelled
from limbeck.models.jobs import is_gradient_trained
from limbeck.models.smoke_test import smoke_test
from limbeck.privacy.guarantees import guarantees
from limbeck.privacy.ledger import LedgerStore, check_site_names
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.learning import Model, Trainer
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array, PublicRows, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Rows and models by party; `classes` are the names behind the class numbers.

    `names` are the parties' names, by which a ledger that several runs share knows them whatever their order; without
    names they are party 0, party 1 and so on.
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
    public_is_from_same_source: bool = False  # drawn at random from the same rows as the private ones
    public_is_labelled: bool = False
    classes_are_private: bool = False  # read off the labels of private rows
    tests_private_rows: bool = False  # the test rows are taken out of a user's own private file
    config: Mapping[str, Any]
    noise: Noise = "simulated"
    ledger_store: LedgerStore = field(default_factory=LedgerStore)
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            if len(self.names) != len(self.private):
                raise LimbeckError(f"names: {len(self.names)} names for {len(self.private)} parties; give one for each")
            check_site_names(
                [name for name, numbered in zip(self.names, self._numbered, strict=True) if name != numbered]
            )
        if self.algorithm.needs_public_rows and not self.public:
            raise LimbeckError(f"{self.algorithm.name} needs public rows: set data.public (Python: public=...)")
        if self.algorithm.needs_one_network:
            check_one_network(self.algorithm.name, self.models, self.server_model)
        if self.is_real and self.classes_are_private:
            raise LimbeckError(
                "the names of the classes would be read off private rows and stand in the model: name them with "
                "data.classes or data.schema (Python: classes=[...])"
            )
        if self.algorithm.needs_public_labels and not self.public_is_labelled:
            raise LimbeckError(
                f"{self.algorithm.name} needs labelled public rows: draw them from the data set itself, or from "
                'another one with labels = "own" or "shared" (Python: public=(X, y))'
            )

    @property
    def is_real(self) -> bool:
        """Whether private rows are protected, and not in a simulation: then the record is fit to be passed on."""
        return self.algorithm.is_private and self.noise == "secure"

    @property
    def titles(self) -> list[str]:
        """What the ledger calls the parties."""
        return list(self.names) if self.names else self._numbered

    @property
    def _numbered(self) -> list[str]:
        return [f"party {party}" for party in range(len(self.private))]

    def sites(self, trainer: Trainer) -> tuple[Site, list[Silo]]:
        """The server and the silos; labels of public rows go only to an algorithm that needs them."""
        run = RunContext(
            algorithm=self.algorithm,
            public=self._public_rows(),
            classes=len(self.classes),
            seed=self.seed,
            parties=len(self.private),
            noise=self.noise,
            name=self.ledger_store.run,
        )
        secret = self.ledger_store.secret if self.noise == "secure" else None
        silos = [
            run.party(party, rows, model, trainer, self.ledger_store.of(title), secret, title=title)
            for party, (rows, model, title) in enumerate(zip(self.private, self.models, self.titles, strict=True))
        ]
        return run.server(self.server_model, trainer, self.ledger_store.of(SERVER), secret), silos

    def check_plan(self) -> None:
        """Refuse, before anyone trains, noise that cannot be had and a run that cannot fit into its budget."""
        public = len(self.public) if self.public else 0
        facts = Facts(public, len(self.classes), len(self.private), self.noise)
        rows = None if self.noise == "secure" else [len(rows) for rows in self.private]
        releases = planned_releases(self.algorithm.disclosures, facts, rows)
        guarantees(releases, delta_of(self.algorithm, releases), self.algorithm.rows_per_person)
        known = dict(zip(self._numbered, self.titles, strict=True))
        self.ledger_store.check_plan([replace(row, site=known.get(row.site, row.site)) for row in releases])
        self._warn_of_few_rows()
        if self.ledger_store.budgets and not self.algorithm.is_private:
            warnings.warn("there is a budget, but nothing is noised: see privacy.md", LimbeckWarning, stacklevel=2)

    def _warn_of_few_rows(self) -> None:
        """At a private level too few rows are no reason to refuse, for refusing would tell how many there are."""
        subsets = getattr(self.algorithm, "subsets", None)
        if subsets is None or not self.algorithm.is_private:
            return
        few = [(len(rows), title) for rows, title in zip(self.private, self.titles, strict=True) if len(rows) < subsets]
        if few:
            rows, title = min(few)
            warnings.warn(
                f"algorithm.subsets: {title} has {rows} rows, fewer than {subsets} subsets, so that some of its "
                f"teachers vote for a fixed class; at most {rows} subsets would suit it",
                LimbeckWarning,
                stacklevel=3,
            )

    def smoke_test(self, known: set[str] | None = None) -> None:
        """Refuse models that cannot be fitted or packed, before anyone trains.

        `known` are descriptions of models that were rehearsed on such rows before; it grows.
        """
        known = set() if known is None else known
        for model in {id(model): model for model in [*self.models, self.server_model]}.values():
            if repr(model.description) not in known:
                smoke_test(model, self.private[0].x.shape[1:], len(self.classes))
                known.add(repr(model.description))

    def warn_of_strange_public_rows(self) -> None:
        """Each party looks for itself whether the public rows lie near its own."""
        if self.public is None or self.public_is_from_same_source or len(self.public) < MIN_ROWS:
            return
        large = [(party, rows) for party, rows in enumerate(self.private) if len(rows) >= MIN_ROWS]
        poor = [party for party, rows in large if coverage(self.public.x, rows.x) < GOOD_COVERAGE]
        if poor:
            warnings.warn(
                f"the public rows suit {len(poor)} of {len(self.private)} parties poorly (the first: party {poor[0]}): "
                "most of their rows have no public row near them; `limbeck data fit` tells more",
                LimbeckWarning,
                stacklevel=2,
            )

    def run(self, trainer: Trainer, clock: Clock | None = None, smoke_tested: set[str] | None = None) -> Result:
        """Run in this process; the trainer decides on how many cores."""
        clock = clock or Clock()
        with clock.phase("smoke test"):
            self.check_plan()
            self.smoke_test(smoke_tested)
            self.warn_of_strange_public_rows()
        engine = InProcess(self.algorithm, *self.sites(trainer), trainer)
        return self.finish(engine, clock)

    def finish(self, engine: Engine, clock: Clock) -> Result:
        """Run under any engine, score what came of it and write it down."""
        curve = Curve(self.test) if self.test else None
        if curve:
            engine.watch = curve.look
        with clock.phase("learn"):
            outcome = engine.run()
        installed = {silo.party: silo.installed for silo in engine.silos if silo.installed and not outcome.model}
        with clock.phase("score"):
            by_party = {party: curve.metrics(onnx) for party, onnx in installed.items()} if curve else {}
            metrics = curve.metrics(outcome.model) if outcome.model and curve else None
        if by_party:
            metrics = mean_metrics(list(by_party.values()))
        model = self._classifier(outcome.model) if outcome.model else None
        models = {party: self._classifier(onnx) for party, onnx in installed.items()}
        whole = self._record(engine, outcome, metrics, by_party, clock, curve.points if curve else [])
        if not self.is_real:
            return Result(model, models, whole)
        return Result(model, models, published(whole, self.tests_private_rows), owner_part(whole, engine.rejections))

    def check_bounds(self) -> Algorithm:
        """The algorithm that gives the bound, or why there is none."""
        bound = self.algorithm.upper_bound()
        if bound is None or self.test is None:
            raise LimbeckError(f"bounds = true: {self.algorithm.name} has no bound to compare with, or no test rows")
        if self.noise == "secure":
            raise LimbeckError('bounds = true pools all private rows: it is for simulations, noise = "simulated"')
        return bound

    def bounds(self, trainer: Trainer) -> dict[str, list[float | None]]:
        """What the parties' models would reach if all rows were everybody's: the accuracy of each."""
        record = replace(self, algorithm=self.check_bounds(), ledger_store=LedgerStore()).run(trainer).record
        return {record.algorithm: [party.metrics.accuracy if party.metrics else None for party in record.parties]}

    def _classifier(self, onnx: bytes) -> Classifier:
        row = self.private[0].x.shape[1:]
        return Classifier(labelled(onnx, self.classes, row, self.schema), self.classes, row, self.schema)

    def _public_rows(self) -> PublicRows:
        if self.public is None:
            return PublicRows(self.private[0].x[:0])
        shared = mapped(self.public.x, cache_of(data_folder()))
        return PublicRows(shared, self.public.y if self.algorithm.needs_public_labels else None)

    def _record(
        self,
        engine: Engine,
        outcome: Outcome,
        metrics: Metrics | None,
        by_party: Mapping[int, Metrics],
        clock: Clock,
        curve: Sequence[Mapping[str, Any]],
    ) -> RunRecord:
        traffic = engine.traffic
        parties = [
            PartyRecord(
                index=silo.party,
                rows=len(silo.private),
                classes=np.bincount(silo.private.y, minlength=len(self.classes)).tolist(),
                model=silo.model.description,
                bytes={"up": traffic.up(silo.party), "down": traffic.down(silo.party)},
                metrics=by_party.get(silo.party),
                name=self.names[silo.party] if self.names else None,
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
                "classes_are_private": self.classes_are_private,
            },
            noise=self.noise,
            metrics=metrics,
            constant=constant_accuracy(list(self.private), self.test, len(self.classes)) if self.test else None,
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
    """Refuse, for an algorithm that hands out weights, models that have none or others than the server's."""
    if not is_gradient_trained(server_model):
        raise LimbeckError(f"{algorithm} hands out the weights of a network: a {server_model.name} has none")
    for party, model in enumerate(models):
        if not is_gradient_trained(model) or model.architecture != server_model.architecture:
            raise LimbeckError(
                f"{algorithm} hands out weights: party {party} has another network ({_model_text(model)}) than the "
                f"server ({_model_text(server_model)})"
            )


def _model_text(model: Any) -> str:
    """A model's name and parameters."""
    parameters = {key: value for key, value in model.description.items() if key not in ("name", "recipe", "repr")}
    return " ".join([model.name, *(f"{key}={value}" for key, value in parameters.items())])
