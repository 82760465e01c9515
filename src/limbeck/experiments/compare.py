"""Run what is missing of a plan, keep it, and make one table of all."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from joblib import Parallel, cpu_count, delayed

from limbeck.data.own import PartitionedRows
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.cached_runs import CachedResult, CachedRun, cached_result
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.partition import partition_rows
from limbeck.experiments.plan import ComparedMethod, ComparisonPlan
from limbeck.experiments.results import Results
from limbeck.experiments.run import federation_of
from limbeck.models.caching import CachingTrainer, JobCache
from limbeck.models.pool import PoolTrainer, Watch, end_with, unwatched
from limbeck.models.trainers import Training, finish, is_network, trainer_for
from limbeck.protocol.learning import Trainer

METRICS = ("accuracy", "balanced_accuracy", "roc_auc")
COSTS = ("constant", "rounds", "up", "down", "seconds")


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over seeds; the deviation is the sample's, and None for one seed."""

    mean: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the table. `note` says why cells have no result."""

    method: str
    swept: Mapping[str, Any]
    seeds: Sequence[int]
    figures: Mapping[str, Spread]
    epsilon: Mapping[str, float | None]  # towards each observer, the largest over seeds; None is infinite
    curve: Sequence[float] = ()  # accuracy round by round, the mean over seeds
    note: str = ""


@dataclass(slots=True)
class Ran:
    """What became of a cell: why it could not run, and what it warned of."""

    refused: dict[str, str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)


def compare(
    plan: ComparisonPlan, results: Results, processes: int | None = None, watch: Watch = unwatched
) -> list[Summary]:
    """The summary of every line; cells that are kept already are not run."""
    with results.alone():
        missing = [cached for key, cached in plan.runs.items() if results.find(key) is None]
        same_rows = attrgetter("rows_key")
        groups = [list(group) for _, group in groupby(sorted(missing, key=same_rows), same_rows)]
        refused: dict[str, str] = {}
        for ran in watch(_ran(groups, results, processes), len(missing)) if missing else ():
            refused |= ran.refused
            for text in ran.warned:
                warnings.warn(text, LimbeckWarning, stacklevel=2)
        return [_summary(line, results, refused) for line in plan.lines]


def _ran(groups: list[list[CachedRun]], results: Results, processes: int | None) -> Iterator[Ran]:
    """One item a cell. Whole groups side by side where there are enough of them, else fits side by side.

    Where networks share a device, all groups take turns here.
    """
    width = processes or cpu_count()
    trainers = _Trainers(processes)
    if (
        width == 1
        or len(groups) < width
        or any(trainers.are_of_this_process(cached) for group in groups for cached in group)
    ):
        for group in groups:
            yield from _group(group, results, trainers)
        trainers.finish()
        return
    orders = (
        delayed(_in_pool)([(cached.table, cached.base) for cached in group], results.folder, os.getpid())
        for group in groups
    )
    for ran in Parallel(width, batch_size=1, return_as="generator_unordered")(orders):
        yield from ran


def _in_pool(runs: Sequence[tuple[Mapping[str, Any], Path]], folder: Path, program: int) -> list[Ran]:
    end_with(program)
    group = [CachedRun(check_table(Experiment, table, str(base)), table, base) for table, base in runs]
    return list(_group(group, Results(folder), _Trainers(1)))


class _Trainers:
    """A trainer for every way of training that cells ask for; its programs serve all cells."""

    def __init__(self, processes: int | None) -> None:
        self._processes = processes
        self._known: dict[tuple[Training, bool, Path], Trainer] = {}

    def of(self, cached: CachedRun) -> Trainer:
        experiment = cached.experiment
        key = (experiment.training, any(is_network(model) for model in experiment.models), cached.base)
        if key not in self._known:
            self._known[key] = trainer_for(experiment.training, experiment.models, self._processes, base=cached.base)
        return self._known[key]

    def finish(self) -> None:
        for trainer in self._known.values():
            finish(trainer)

    def are_of_this_process(self, cached: CachedRun) -> bool:
        try:
            return not isinstance(self.of(cached), PoolTrainer)
        except LimbeckError:  # the run's own reason, reported when its turn comes
            return False


def _group(runs: Sequence[CachedRun], results: Results, trainers: _Trainers) -> Iterator[Ran]:
    """Cells whose parties hold the same rows: the rows are dealt once, and fits that cells have in common done once."""
    cache: JobCache = {}
    smoke_tested: set[str] = set()
    try:
        partitioned = _read_only(partition_rows(runs[0].experiment, runs[0].base))
    except LimbeckError as error:
        yield from (Ran({cached.key: str(error)}) for cached in runs)
        return
    for cached in runs:
        ran = Ran()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LimbeckWarning)
            try:
                shared = CachingTrainer(trainers.of(cached), cache)
                result = federation_of(cached.experiment, cached.table, partitioned).run(
                    shared, smoke_tested=smoke_tested
                )
                results.keep(cached_result(cached, result.record, shared.seconds))
            except LimbeckError as error:
                ran.refused[cached.key] = str(error)
            except Exception as error:  # a user's own algorithm may raise anything; the other methods go on
                ran.refused[cached.key] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        ran.warned = [str(w.message) for w in caught if issubclass(w.category, LimbeckWarning)]
        yield ran


def _read_only(partitioned: PartitionedRows) -> PartitionedRows:
    """Rows that many cells share are nobody's to change."""
    for rows in (*partitioned.private, partitioned.public, partitioned.test):
        for array in (rows.x, rows.y) if rows else ():
            array.setflags(write=False)
    return partitioned


def _summary(line: ComparedMethod, results: Results, refused: Mapping[str, str]) -> Summary:
    stored = {cached.experiment.seed: results.find(cached.key) for cached in line.runs}
    there = {seed: each for seed, each in stored.items() if each is not None}
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
    )


def _note(reasons: Mapping[str, list[int]], all_seeds: int) -> str:
    """The first reason, and which seeds it or another stopped."""
    if not reasons:
        return ""
    [(reason, stopped), *others] = reasons.items()
    if len(stopped) == all_seeds:
        return reason
    more = sorted(seed for _, seeds in others for seed in seeds)
    suffix = f"; seed {', '.join(map(str, more))} could not run either" if more else ""
    return f"seed {', '.join(map(str, stopped))}: {reason}{suffix}"


def _figures(stored: Sequence[CachedResult]) -> dict[str, Spread]:
    """Every figure that all cells have."""
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
