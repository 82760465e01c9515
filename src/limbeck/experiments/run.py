"""Run an experiment from a TOML file, or from arrays in Python."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from limbeck.data.draw import Draw
from limbeck.data.own import SplitRows
from limbeck.data.reading import Reading
from limbeck.data.schema import Schema
from limbeck.data.weights import ClassWeights, factors_of, weighted, without_weights
from limbeck.errors import LimbeckError, LimbeckWarning, located
from limbeck.experiments.arguments import algorithm_given, check_numbers, check_settings
from limbeck.experiments.choosing import with_algorithm
from limbeck.experiments.clock import Clock
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.federation import Federation
from limbeck.experiments.given import check_pair, model_for, models_for, named_parties, rows_given, rule_given
from limbeck.experiments.mapping import MappedRows, map_rows
from limbeck.experiments.overrides import override
from limbeck.experiments.record import task_facts
from limbeck.experiments.result import FinishedRun
from limbeck.experiments.splitting import split_rows
from limbeck.experiments.tables_given import TableArguments, for_model, numbers_given
from limbeck.experiments.usefulness import warn_if_no_better
from limbeck.features.settings import Features, applied, network_digest
from limbeck.models.caching import CachingTrainer
from limbeck.models.clusters.connecting import connected
from limbeck.models.clusters.trainer import Workers
from limbeck.models.pool import Watch, unwatched
from limbeck.models.trainers import Training, finish, trainer_for
from limbeck.privacy.ledger import Budget, LedgerStore
from limbeck.progress import watcher
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Trainer
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import content_hash
from limbeck.protocol.task import Kind


def federation_of(
    experiment: Experiment,
    config: Mapping[str, Any],
    rows: SplitRows | MappedRows,
    ledger_store: LedgerStore | None = None,
    base: Path = Path(),
) -> Federation:
    """Make the federation that an experiment describes.

    Parameters
    ----------
    experiment : Experiment
        The content of the TOML file.
    config : mapping
        The table of the file, for the record.
    rows : SplitRows or MappedRows
        The rows of the parties, and public and test rows; raw, or mapped to the features of the experiment.
    ledger_store : LedgerStore or None
        The store of the ledger; None means a new one in memory.
    base : Path
        The folder to which the paths of the experiment are relative.

    Returns
    -------
    Federation
        The federation.

    Raises
    ------
    LimbeckError
        If a named data set has no test rows, or the number of public rows would depend on that of private rows.
    """
    raw = rows if isinstance(rows, SplitRows) else rows.rows
    if raw.test is None and experiment.data.name:
        name = experiment.data.name if isinstance(experiment.data.name, str) else " and ".join(experiment.data.name)
        raise LimbeckError(f"{name} has no official test rows: set data.test to a number or share of rows")
    _check_public_share(experiment)
    is_private, labels = experiment.algorithm.is_private, [own.y for own in raw.private]
    factors = factors_of(experiment.data.class_weights, raw.classes, raw.task.kind, is_private, labels)
    mapped = map_rows(rows, experiment.features, experiment.seed, base) if isinstance(rows, SplitRows) else rows
    partitioned, titles = mapped.rows, [f"party {party}" for party in range(experiment.parties)]
    return Federation(
        algorithm=experiment.algorithm,
        seed=experiment.seed,
        classes=np.array(partitioned.classes),
        private=weighted(partitioned.private, [None] * len(titles), factors, titles, is_private),
        models=[experiment.model_of(party) for party in range(experiment.parties)],
        server_model=experiment.server_model,
        public=partitioned.public,
        test=partitioned.test,
        schema=partitioned.schema,
        features=mapped.features,
        public_hash=mapped.public_hash,
        classes_are_private=partitioned.classes_are_private,
        own_tests=partitioned.own_tests,
        tests_private_rows=experiment.takes_from_private(experiment.data.test)
        or (bool(partitioned.own_tests) and experiment.data.test is None),
        public_is_from_same_source=isinstance(experiment.data.public, Draw) and experiment.data.public.name is None,
        public_is_labelled=partitioned.public_is_labelled,
        config=config,
        noise=experiment.noise_source,
        ledger_store=ledger_store or LedgerStore(budget=experiment.budget),
        names=experiment.names,
        folder=base,
        task=partitioned.task,
    )


def _check_public_share(experiment: Experiment) -> None:
    """Raise in a real run if the number of public rows, which is known, would reveal that of private rows."""
    public = experiment.data.public
    if not experiment.algorithm.is_private or experiment.noise_source != "secure":
        return
    if experiment.takes_from_private(public) and isinstance(public, Draw) and isinstance(public.amount, float):
        raise LimbeckError(
            f"data.public = {public.amount:g} is a share of private rows, which would reveal how many there are: "
            "give a number of rows, or a file of public rows"
        )


def run_experiment(
    experiment: Experiment,
    config: Mapping[str, Any],
    processes: int | None = None,
    watch: Watch = unwatched,
    base: Path = Path(),
    ledger: Path | None = None,
    cluster: Workers | None = None,
) -> FinishedRun:
    """Split the rows of an experiment and run it.

    An interrupted run is resumed, and releases again what it released before. In a ledger that the experiment names,
    and that several runs may share, a finished run is never repeated: the same experiment is a new run.

    Parameters
    ----------
    experiment : Experiment
        The content of the TOML file.
    config : mapping
        The table of the file, for the record.
    processes : int or None
        Number of processes that train; None lets the trainer choose.
    watch : callable
        Wraps the iterable of finished training jobs, given their number; for a progress bar.
    base : Path
        The folder to which the paths of the experiment are relative.
    ledger : Path or None
        The ledger's file; None keeps it in memory.
    cluster : Workers or None
        The cluster whose workers train, in the place of processes.

    Returns
    -------
    FinishedRun
        The models and the record.
    """
    clock = Clock()
    with closing(LedgerStore(ledger, budget=experiment.budget)) as ledger_store:
        with clock.phase("data"):
            federation = federation_of(experiment, config, split_rows(experiment, base), ledger_store, base)
        if experiment.bounds:
            federation.check_bounds()
        trainer = trainer_for(
            experiment.training, experiment.models, processes, watch, base, federation.is_real, cluster
        )
        shared = CachingTrainer(trainer) if experiment.bounds else trainer
        result = _recorded(federation, shared, clock, shares=experiment.ledger is not None)
    if experiment.bounds:
        result = replace(result, record=replace(result.record, bounds=federation.bounds(shared)))
    finish(trainer)
    return result


def _recorded(federation: Federation, trainer: Trainer, clock: Clock | None, shares: bool) -> FinishedRun:
    """Run a federation under its identifier in the ledger; `shares` marks the end, so that other runs may follow."""
    known = federation.names is not None or "data" in federation.config  # which organisation party 0 is
    if federation.ledger_store.begin(facts_of(federation), resumes=known):
        warnings.warn(
            f"{federation.ledger_store.path} holds a run with the same settings that did not end: it is resumed, and "
            "its releases are used again; for a new run use another seed or another ledger",
            LimbeckWarning,
            stacklevel=3,
        )
    result = federation.run(trainer, clock)
    if shares:
        federation.ledger_store.end()
    warn_if_no_better(result.record)
    path = federation.ledger_store.path
    return replace(result, ledger=path.absolute()) if path else result


def facts_of(federation: Federation) -> dict[str, Any]:
    """Return the public facts that distinguish runs; nothing here is computed from private rows."""
    algorithm, public = federation.algorithm, federation.public
    network = network_digest(algorithm, None, federation.folder)
    return {
        **({"network": network} if network else {}),
        **({"features": federation.features.hash} if federation.features else {}),
        "algorithm": {"name": algorithm.name, **asdict(cast(Any, algorithm))},
        "seed": federation.seed,
        "classes": None if federation.classes_are_private else federation.classes.tolist(),
        **({} if federation.classes_are_private else task_facts(federation.task)),
        "models": [dict(model.description) for model in federation.models],
        "server": dict(federation.server_model.description),
        "parties": list(federation.names or []) or len(federation.private),
        "public": public and content_hash(public.x),
        "labels": content_hash(public.y) if public and algorithm.needs_public_labels else None,
        "noise": federation.noise,
        "data": {key: federation.config.get(key) for key in ("data", "party")},
        **{key: federation.config[key] for key in ("class_weights", "sample_weight") if key in federation.config},
    }


def ledger_of(experiment: Experiment, base: Path) -> Path | None:
    """The path of the ledger that an experiment names; None if it names none."""
    return base / experiment.ledger if experiment.ledger else None


def run_file(
    file: str | Path,
    settings: Sequence[str] = (),
    processes: int | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
    cluster: str | None = None,
) -> FinishedRun:
    """Run the experiment of a TOML file, as `limbeck run FILE --set ...` does, without writing a run's folder.

    Parameters
    ----------
    file : str or Path
        The TOML file.
    settings : sequence of str
        Changes of single keys, such as `"data.parties=10"`.
    processes : int or None
        Number of processes that train; None lets the trainer choose.
    watch : callable or None
        Wraps the iterable of finished training jobs, given their number; for a progress bar of your own.
    progress : bool or None
        Whether to show a progress bar on stderr; None shows it in a terminal and in a notebook only.
    cluster : str or None
        Address of the cluster whose workers train, in the place of processes: `"dask://HOST:PORT"`,
        `"ray://HOST:PORT"` or `"ray://auto"`.

    Returns
    -------
    FinishedRun
        The models and the record.

    Raises
    ------
    LimbeckError
        If the file or a setting is wrong, or the run is not possible.

    Notes
    -----
    Only a ledger that the file names is written.

    Examples
    --------
    >>> import tempfile
    >>> import limbeck as lb
    >>> text = '''
    ... data = { name = "iris", parties = 2, public = 0.3, test = 0.2 }
    ... model = { name = "decision-tree" }
    ... algorithm = { name = "fedkt", partitions = 1, subsets = 2 }
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "fedkt.toml")
    ...     _ = file.write_text(text)
    ...     result = lb.run_file(file, ["algorithm.subsets=3", "seed=1"])
    >>> result.record.config["algorithm"]["subsets"], result.accuracy > 0.5
    (3, True)
    """
    table, _ = override(read_toml(Path(file)), settings)
    table, _ = with_algorithm(table)
    experiment = check_table(Experiment, table, str(file))
    base = Path(file).parent
    with connected(cluster, processes) as workers, located(Path(file)):
        watched = watch or watcher(progress) or unwatched
        return run_experiment(experiment, table, processes, watched, base, ledger_of(experiment, base), workers)


def run(
    algorithm: Algorithm | str | Mapping[str, Any],
    parties: Any,
    public: Any = None,
    models: Any = "random-forest",
    server_model: Any = None,
    test: Any = None,
    features: Features | None = None,
    seed: int = 0,
    classes: Sequence[Any] | None = None,
    task: Kind | None = None,
    limits: tuple[float, float] | None = None,
    positive: Any = None,
    label: str | Sequence[str] | None = None,
    row_id: str | None = None,
    ignore: Sequence[str] = (),
    reading: Reading | Mapping[str, Any] | None = None,
    schema: Schema | str | Path | None = None,
    noise: Noise | None = None,
    budget: Budget | None = None,
    ledger: str | Path | None = None,
    training: Training | None = None,
    processes: int | None = None,
    watch: Watch | None = None,
    class_weights: ClassWeights | None = None,
    progress: bool | None = None,
    cluster: str | None = None,
) -> FinishedRun:
    """Run a federated learning algorithm on arrays, with all parties in this process.

    Parameters
    ----------
    algorithm : Algorithm, str or mapping
        The algorithm with its hyper-parameters, such as `FedKT(subsets=2)`; or its name, such as `"fedkt"`; or a table,
        such as `{"name": "fedkt", "subsets": 2}`.
    parties : sequence of (X, y) or mapping of str to (X, y)
        The private rows of each party, possibly by the party's name. X has the shape (rows, ...), or is a list of
        texts, or a table: of pandas, polars or pyarrow, or the path of a file. y has any labels: one class a row; a
        column for each class with 1, 0 and -1 (unknown); or numbers. With `label`, tables have the labels themselves.
        (X, y, sample_weight) gives each row a weight: a finite number, at least 0, at private levels at most 1.
    public : array, sequence of str, (X, y) or None
        The public rows, without or with labels; None if the algorithm needs none.
    models : estimator, str, mapping or list of these
        What the parties train, one for all or one for each: a scikit-learn estimator, a model's name or its table.
    server_model : estimator, str, mapping or None
        What the server trains; None means the model of the first party.
    test : (X, y) or None
        The test rows, on which models are measured.
    features : Features or None
        The features that all rows are mapped to; None keeps the rows as they are.
    seed : int
        The seed of all random numbers, except secure noise.
    classes : sequence or None
        All classes; None reads them from the labels, which a run with secure noise does not allow. With several labels
        a row the names of the columns, by default their numbers.
    task : {"multiclass", "multilabel", "regression"} or None
        Kind of the labels; None finds it from them, which a run with secure noise does not allow.
    limits : (low, high) or None
        The public range of a numeric target; None takes that of the targets, which a run with secure noise does not
        allow.
    positive : object or None
        The class of interest, one of two; None means the second one.
    label : str, sequence of str or None
        The column of tables that has the labels; several columns are several labels a row.
    row_id : str or None
        The column of tables that names the rows. Nothing is learned from it.
    ignore : sequence of str
        The columns of tables that are left out.
    reading : Reading, mapping or None
        How files are read, such as `{"separator": ";"}`; None finds it.
    schema : Schema, str, Path or None
        How columns become numbers; None decides it by the public rows.
    noise : {"secure", "simulated"} or None
        Where noise comes from; None means secure if the algorithm is private.
    budget : Budget or None
        The largest epsilon that all runs of the ledger together may spend.
    ledger : str, Path or None
        The ledger's file, which several runs may share; None keeps the ledger in memory.
    training : Training or None
        The trainer and the device of networks; None means the default.
    processes : int or None
        Number of processes that train; None lets the trainer choose.
    watch : callable or None
        Wraps the iterable of finished training jobs, given their number; for a progress bar of your own.
    class_weights : mapping of class to float, "balanced" or None
        Weights of the classes, scaled so that the largest is 1, and then multiplied with the sample weights. A class
        without one has the weight 1. "balanced", which private levels do not allow, is as in scikit-learn.
    progress : bool or None
        Whether to show a progress bar on stderr; None shows it in a terminal and in a notebook only.
    cluster : str or None
        Address of the cluster whose workers train, in the place of processes: `"dask://HOST:PORT"`,
        `"ray://HOST:PORT"` or `"ray://auto"`.

    Returns
    -------
    Result
        The final model, or one model for each party; the record; and the metrics if there are test rows.

    Raises
    ------
    LimbeckError
        If an argument is wrong, or the run would exceed a budget.

    Notes
    -----
    A shared ledger adds up releases by the parties' names, and keeps every budget from its first use. Without names the
    parties are "party 0", "party 1" and so on.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = {"north": (X[:30], y[:30]), "south": (X[30:60], y[30:60])}
    >>> result = lb.run(lb.FedVote(), parties, public=X[60:75], models="decision-tree", test=(X[75:], y[75:]))
    >>> result.accuracy
    1.0
    >>> result.model.predict(X[:2]) == y[:2]
    array([ True,  True])
    """
    check_numbers(seed, processes)
    check_settings(noise=noise, task=task, limits=limits, classes=classes, features=features)
    check_settings(budget=budget, training=training, ledger=ledger, watch=watch)
    watched = watch or watcher(progress) or unwatched
    algorithm, features = applied(algorithm_given(algorithm), features)
    assert isinstance(algorithm, Algorithm)
    called, pairs = named_parties(parties)
    pairs, sample_weight = without_weights(pairs)
    titles = called or [f"party {index}" for index in range(len(pairs))]
    if task is None and limits is None and algorithm.is_private and noise != "simulated":
        task = "multiclass"  # never found from private labels
    about = TableArguments(label, row_id, ignore, reading, schema)
    sides, public, test, rules = numbers_given(
        list(zip(titles, pairs, strict=True)),
        public,
        test,
        about,
        classes,
        algorithm.is_private and noise != "simulated",
        algorithm.needs_public_labels,
    )
    for title, pair in sides:
        check_pair(pair, title)
    rule = rule_given(sides[0][1], algorithm, features)
    raw, names = rows_given(sides, public, test, classes, task, limits, rule, positive)
    labels = [own.y for own in raw.private]
    factors = factors_of(class_weights, raw.classes, raw.task.kind, algorithm.is_private, labels)
    raw = replace(
        raw,
        schema=raw.schema or for_model(rules, names.tolist(), about, raw.task),
        private=weighted(raw.private, sample_weight, factors, titles, algorithm.is_private),
    )
    mapped = map_rows(raw, features, int(seed))
    chosen = models_for(models, len(pairs))
    server = chosen[0] if server_model is None else model_for(server_model)
    federation = Federation(
        algorithm=algorithm,
        seed=int(seed),
        classes=names,
        classes_are_private=raw.classes_are_private,
        task=raw.task,
        private=mapped.rows.private,
        models=chosen,
        server_model=server,
        public=mapped.rows.public,
        public_is_labelled=isinstance(public, tuple),
        test=mapped.rows.test,
        features=mapped.features,
        public_hash=mapped.public_hash,
        schema=raw.schema,
        config={
            "seed": int(seed),
            "algorithm": {"name": algorithm.name, **asdict(cast(Any, algorithm))},
            "server": {"model": dict(server.description)},
            **({"features": asdict(features)} if features else {}),
            **({"class_weights": _named(class_weights)} if class_weights is not None else {}),
            **({"sample_weight": True} if any(weight is not None for weight in sample_weight) else {}),
        },
        noise=noise or ("secure" if algorithm.is_private else "simulated"),
        names=called,
    )
    models = [*federation.models, federation.server_model]
    with connected(cluster, processes) as workers:
        isolated = federation.is_real
        trainer = trainer_for(training or Training(), models, processes, watched, isolated=isolated, cluster=workers)
        with closing(LedgerStore(Path(ledger) if ledger else None, budget=budget)) as ledger_store:
            result = _recorded(replace(federation, ledger_store=ledger_store), trainer, None, shares=True)
    finish(trainer)
    return result


def _named(class_weights: ClassWeights) -> str | dict[str, float]:
    """Class weights for the record."""
    return class_weights if isinstance(class_weights, str) else {str(k): float(w) for k, w in class_weights.items()}
