"""Comparisons: run what is missing of a plan, cache the results, and summarize them."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from joblib import Parallel, cpu_count, delayed

from limbeck.data.own import SplitRows
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.cached_runs import CachedResult, CachedRun, cached_result
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.mapping import MappedRows, map_rows
from limbeck.experiments.metrics import HEADLINES
from limbeck.experiments.plan import ComparedMethod, ComparisonPlan
from limbeck.experiments.results_folder import Results
from limbeck.experiments.run import federation_of
from limbeck.experiments.splitting import split_rows
from limbeck.experiments.usefulness import no_better_than_constant
from limbeck.models.caching import CachingTrainer, JobCache
from limbeck.models.clusters.trainer import ClusterError, ClusterTrainer, ThisWorker, Workers
from limbeck.models.pool import PoolTrainer, Watch, end_with, one_core, unwatched
from limbeck.models.trainers import Training, finish, is_network, trainer_for
from limbeck.protocol.learning import Trainer
from limbeck.protocol.task import Kind

METRICS = (
    *("accuracy", "balanced_accuracy", "roc_auc", "pr_auc", "f1", "sensitivity", "specificity"),
    *("brier", "calibration_error", "r2", "rmse", "mae"),
)
DEFAULT: Kind = "multiclass"
COSTS = ("constant", "rounds", "up", "down", "seconds")


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean of a figure over seeds.

    Parameters
    ----------
    mean : float
        Mean.
    deviation : float or None
        Sample standard deviation; None for one seed.
    """

    mean: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of a comparison: a method with swept values, over seeds.

    Parameters
    ----------
    method : str
        The method, with its parameters.
    swept : mapping
        Value of each swept key.
    seeds : sequence of int
        Seeds that have a result.
    figures : mapping of str to Spread
        Every figure that all of these runs have.
    epsilon : mapping of str to float or None
        Largest epsilon over seeds towards each observer; None if it is infinite.
    curve : sequence of float
        Accuracy after each round, the mean over seeds.
    note : str
        Why runs have no result.
    task : str
        Kind of the labels.
    shown : sequence of str
        Metrics of tables.
    no_better : sequence of int
        Seeds at which the model is no better than the constant predictor.
    """

    method: str
    swept: Mapping[str, Any]
    seeds: Sequence[int]
    figures: Mapping[str, Spread]
    epsilon: Mapping[str, float | None]
    curve: Sequence[float] = ()
    note: str = ""
    task: Kind = "multiclass"
    shown: Sequence[str] = ()
    no_better: Sequence[int] = ()

    @property
    def headline(self) -> str:
        """The metric by which methods are compared."""
        return HEADLINES[self.task][0]


@dataclass(slots=True)
class Ran:
    """What a run gave.

    Parameters
    ----------
    refused : dict of str to str
        Error message by the key of the run, if it failed.
    warned : list of str
        Warnings.
    result : CachedResult or None
        The result; None if the run failed.
    """

    refused: dict[str, str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    result: CachedResult | None = None


def compare(
    plan: ComparisonPlan,
    results: Results,
    processes: int | None = None,
    watch: Watch = unwatched,
    cluster: Workers | None = None,
) -> list[Summary]:
    """Run a comparison; cached runs are not repeated.

    Parameters
    ----------
    plan : ComparisonPlan
        What to compare.
    results : Results
        Folder of cached runs.
    processes : int, optional
        Training processes; by default one per core.
    watch : callable
        Shows progress.
    cluster : Workers, optional
        Cluster whose workers are used in the place of processes.

    Returns
    -------
    list of Summary
        One summary for each line of the plan.
    """
    with results.alone():
        missing = [cached for key, cached in plan.runs.items() if results.find(key) is None]
        same_rows = attrgetter("rows_key")
        groups = [list(group) for _, group in groupby(sorted(missing, key=same_rows), same_rows)]
        refused: dict[str, str] = {}
        for ran in watch(_ran(groups, results, processes, cluster), len(missing)) if missing else ():
            refused |= ran.refused
            for text in ran.warned:
                warnings.warn(text, LimbeckWarning, stacklevel=2)
        return [_summary(line, results, refused) for line in plan.lines]


def _ran(
    groups: list[list[CachedRun]], results: Results, processes: int | None, cluster: Workers | None
) -> Iterator[Ran]:
    """Run all groups; yields one item for each run.

    Whole groups run in parallel if there are at least as many as processes or workers, else fits run in parallel.
    Groups whose networks share a device run one after the other in this process.
    """
    width = cluster.width if cluster else processes or cpu_count()
    trainers = _Trainers(processes, cluster)
    if (
        width == 1
        or len(groups) < width
        or any(trainers.are_of_this_process(cached) for group in groups for cached in group)
    ):
        for group in groups:
            yield from _stored(_group(group, trainers), results)
        trainers.finish()
    elif cluster:
        yield from _stored(_on_workers(groups, cluster), results)
    else:
        orders = (
            delayed(_in_pool)([(cached.table, cached.base) for cached in group], results.folder, os.getpid())
            for group in groups
        )
        for ran in Parallel(width, batch_size=1, return_as="generator_unordered")(orders):
            yield from ran


def _in_pool(runs: Sequence[tuple[Mapping[str, Any], Path]], folder: Path, program: int) -> list[Ran]:
    end_with(program)
    group = [CachedRun(check_table(Experiment, table, str(base)), table, base) for table, base in runs]
    return list(_stored(_group(group, _Trainers(1)), Results(folder)))


def _on_workers(groups: list[list[CachedRun]], cluster: Workers) -> Iterator[Ran]:
    """Run whole groups on a cluster; files are read here, so that workers need none."""
    refused: list[Ran] = []

    def tasks() -> Iterator[tuple[str, list[CachedRun], MappedRows]]:
        for group in groups:
            try:
                yield cluster.address, group, _rows_of(group)
            except LimbeckError as error:
                refused.extend(_refused(group, error))

    for _, ran in cluster.run(_on_worker, tasks()):
        yield from ran
    yield from refused


def _on_worker(address: str, group: list[CachedRun], mapped: MappedRows) -> list[Ran]:
    return list(_on_rows(group, mapped, _Trainers(None, ThisWorker(address))))


def _stored(runs: Iterable[Ran], results: Results) -> Iterator[Ran]:
    """Store each result as soon as it is there."""
    for ran in runs:
        if ran.result:
            results.keep(ran.result)
        yield ran


class _Trainers:
    """One trainer for each way of training; all runs share its processes."""

    def __init__(self, processes: int | None, cluster: Workers | None = None) -> None:
        self._processes, self._cluster = processes, cluster
        self._known: dict[tuple[Training, bool, Path], Trainer] = {}

    def of(self, cached: CachedRun) -> Trainer:
        experiment = cached.experiment
        key = (experiment.training, any(is_network(model) for model in experiment.models), cached.base)
        if key not in self._known:
            self._known[key] = trainer_for(
                experiment.training, experiment.models, self._processes, base=cached.base, cluster=self._cluster
            )
        return self._known[key]

    def finish(self) -> None:
        for trainer in self._known.values():
            finish(trainer)

    def are_of_this_process(self, cached: CachedRun) -> bool:
        try:
            return not isinstance(self.of(cached), PoolTrainer | ClusterTrainer)
        except LimbeckError:  # reported when the run itself fails
            return False


def _group(runs: Sequence[CachedRun], trainers: _Trainers) -> Iterator[Ran]:
    """Run all runs of a group, whose parties hold the same rows."""
    try:
        mapped = _rows_of(runs)
    except LimbeckError as error:
        yield from _refused(runs, error)
        return
    yield from _on_rows(runs, mapped, trainers)


def _refused(runs: Sequence[CachedRun], error: LimbeckError) -> Iterator[Ran]:
    yield from (Ran({cached.key: str(error)}) for cached in runs)


def _rows_of(runs: Sequence[CachedRun]) -> MappedRows:
    first, base = runs[0].experiment, runs[0].base
    with one_core():
        return map_rows(split_rows(first, base), first.features, first.seed, base)


def _on_rows(runs: Sequence[CachedRun], mapped: MappedRows, trainers: _Trainers) -> Iterator[Ran]:
    """Run all runs of a group on its rows; common fits are done once."""
    cache: JobCache = {}
    smoke_tested: set[str] = set()
    _read_only(mapped.rows)
    for cached in runs:
        ran = Ran()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LimbeckWarning)
            try:
                shared = CachingTrainer(trainers.of(cached), cache)
                federation = federation_of(cached.experiment, cached.table, mapped, base=cached.base)
                with one_core():
                    result = federation.run(shared, smoke_tested=smoke_tested)
                ran.result = cached_result(cached, result.record, shared.seconds)
            except ClusterError:
                raise
            except LimbeckError as error:
                ran.refused[cached.key] = str(error)
            except Exception as error:  # a user's own algorithm may raise anything; the other methods continue
                ran.refused[cached.key] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        ran.warned = [str(w.message) for w in caught if issubclass(w.category, LimbeckWarning)]
        yield ran


def _read_only(partitioned: SplitRows) -> None:
    """Make rows that several runs share read-only."""
    for rows in (*partitioned.private, partitioned.public, partitioned.test):
        for array in (rows.x, rows.y) if rows else ():
            array.setflags(write=False)


def _summary(line: ComparedMethod, results: Results, refused: Mapping[str, str]) -> Summary:
    stored = {cached.experiment.seed: results.find(cached.key) for cached in line.runs}
    there = {seed: each for seed, each in stored.items() if each is not None}
    task = next((each.task for each in there.values()), DEFAULT)
    shown = [each.metrics.shown(task) for each in there.values() if each.metrics]
    reasons: dict[str, list[int]] = {}
    for cached in line.runs:
        if cached.key in refused:
            reasons.setdefault(refused[cached.key], []).append(cached.experiment.seed)
    return Summary(
        method=line.method,
        swept=line.swept,
        seeds=list(there),
        figures=_figures(list(there.values())),
        epsilon=_epsilon(list(there.values())),
        curve=[fmean(points) for points in zip(*(each.curve for each in there.values()), strict=False)],
        note=_note(reasons, len(line.runs)),
        task=task,
        shown=max(shown, key=len, default=HEADLINES[task]),
        no_better=[seed for seed, each in there.items() if is_no_better(each)],
    )


def is_no_better(stored: CachedResult) -> bool:
    """Whether the model of a cached run is no better than the constant predictor."""
    return bool(stored.metrics and no_better_than_constant(stored.metrics, stored.constant, stored.task))


def _note(reasons: Mapping[str, list[int]], all_seeds: int) -> str:
    """First reason, and the seeds that failed for it or for another reason."""
    if not reasons:
        return ""
    [(reason, stopped), *others] = reasons.items()
    if len(stopped) == all_seeds:
        return reason
    more = sorted(seed for _, seeds in others for seed in seeds)
    suffix = f"; seed {', '.join(map(str, more))} could not run either" if more else ""
    return f"seed {', '.join(map(str, stopped))}: {reason}{suffix}"


def _figures(stored: Sequence[CachedResult]) -> dict[str, Spread]:
    """Figures that all runs have."""
    columns = {
        **{name: [k.metrics and getattr(k.metrics, name) for k in stored] for name in METRICS},
        **{name: [getattr(k, name) for k in stored] for name in COSTS},
    }
    return {name: _spread(values) for name, values in columns.items() if stored and None not in values}


def _spread(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None)


def _epsilon(stored: Sequence[CachedResult]) -> dict[str, float | None]:
    observers = dict.fromkeys(observer for each in stored for observer in each.epsilon)
    seen = {observer: [each.epsilon.get(observer, 0.0) for each in stored] for observer in observers}
    return {
        observer: None if None in values else max(v for v in values if v is not None)
        for observer, values in seen.items()
    }
