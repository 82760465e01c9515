"""Jobs of small networks, which train together in this process."""

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from safetensors.numpy import save
from safetensors.torch import load

from limbeck.errors import LimbeckError
from limbeck.models.batched import Chain, State, Training, chain_of, train_together
from limbeck.models.caching import Timed, plain
from limbeck.models.descent import weighted_targets
from limbeck.models.device import CPU
from limbeck.models.heads import LOSS_OF
from limbeck.models.jobs import Refit
from limbeck.models.pool import failed, one_core
from limbeck.models.schedule import BatchSchedule
from limbeck.models.sequential import fits_network
from limbeck.models.torch import TorchModel, alone, check_finite, moments_in, on, only_class
from limbeck.protocol.learning import Failure, Guarded
from limbeck.protocol.recipe import Recipe

Results = dict[int, Any]


@dataclass(unsafe_hash=True, slots=True)
class _Architecture:
    """A network for rows of a shape; two are equal if they differ only in their weights."""

    model: TorchModel = field(compare=False)
    architecture: Hashable
    row: tuple[int, ...]
    classes: int


def train_small(jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> Results:
    """Results of the jobs that fit small networks, by their numbers.

    Whether a job is among them depends on the job alone, so that it has the same result in every company.

    Parameters
    ----------
    jobs : sequence of Job
        All jobs.
    classes : int
        Number of classes.
    seeds : sequence of int
        Seed of each job.

    Returns
    -------
    dict
        Result of each of these jobs.

    Raises
    ------
    FitError
        If one of them fails.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, job in enumerate(jobs):
        if (kind := _kind(plain(job), classes)) is not None:
            groups.setdefault(kind, []).append(number)
    results: Results = {}
    for numbers in groups.values():
        results |= _Group(jobs, classes, seeds, numbers).results()
    return results


def _kind(job: Any, classes: int) -> Hashable | None:
    """What jobs that train together have in common; None for other jobs."""
    if not fits_network(job) or not len(job.rows):
        return None
    model, recipe = job.model, job.recipe or job.model.recipe
    if recipe.augmentation != "none" or recipe.patience is not None:
        return None
    if "binary-cross-entropy" in (recipe.loss, LOSS_OF.get(model.task)):  # torch rounds it by the position of a value
        return None
    if job.start is None and model.task == "multiclass" and only_class(job.targets) is not None:
        return None
    architecture = _architecture(job, classes)
    if (chain := _chain(architecture)) is None or not _suits(job.start, chain):
        return None
    return architecture, model.task, recipe, job.targets.shape[1:], job.targets.dtype, job.weight is None


def _architecture(job: Any, classes: int) -> _Architecture:
    return _Architecture(job.model, job.model.architecture, job.rows.shape[1:], classes)


@lru_cache(maxsize=64)
def _chain(architecture: _Architecture) -> Chain | None:
    """Layers of a small network; None for others, and for those that give no scores, which others report."""
    try:
        with alone(0):
            return chain_of(architecture.model.tried(architecture.row, architecture.classes))
    except Exception:  # a user's own network may raise anything
        return None


def _suits(start: bytes | None, chain: Chain) -> bool:
    """Whether weights are those of a network; others report it if not."""
    if start is None:
        return True
    found = {name: tuple(values.shape) for name, values in _loaded(start).items() if "#" not in name}
    return found == chain.shapes


@lru_cache(maxsize=4)
def _loaded(weights: bytes) -> State:
    """Weights that all parties start from; never changed."""
    return load(weights)


@dataclass(slots=True)
class _Group:
    """Jobs that train together."""

    jobs: Sequence[Any]
    classes: int
    seeds: Sequence[int]
    numbers: list[int]

    def results(self) -> Results:
        """Train, and finish each job."""
        began = time.process_time()
        fits = [plain(self.jobs[number]) for number in self.numbers]
        model, chain = fits[0].model, _chain(_architecture(fits[0], self.classes))
        assert chain is not None
        try:
            recipe = model.checked(fits[0].targets, fits[0].recipe)
        except LimbeckError as error:
            raise failed(fits[0], self.numbers[0], error) from error
        trainings = [self._training(fit, recipe, self.seeds[n]) for fit, n in zip(fits, self.numbers, strict=True)]
        x = np.concatenate([fit.rows for fit in fits])
        y = np.concatenate([weighted_targets(fit.targets, fit.weight) for fit in fits])
        with CPU.numerics(), one_core():
            train_together(chain, *on(CPU, x, y), trainings, recipe)
        found = {n: self._finished(n, fit, each) for n, fit, each in zip(self.numbers, fits, trainings, strict=True)}
        return self._timed(found, time.process_time() - began, trainings)

    def _training(self, fit: Any, recipe: Recipe, seed: int) -> Training:
        schedule = BatchSchedule(len(fit.rows), recipe, seed)
        correction = load(fit.correction) if fit.correction else {}
        if fit.start is not None:
            return Training(schedule, _loaded(fit.start), moments_in(fit.start), correction)
        with alone(seed):
            network = fit.model.started(fit.rows.shape[1:], self.classes)
        return Training(schedule, network.state_dict(), None, correction)

    def _finished(self, number: int, fit: Any, training: Training) -> Any:
        try:
            check_finite(training.state.values())
            if isinstance(fit, Refit):
                every = training.state | (training.moments or {})
                return save({name: values.numpy() for name, values in every.items()})
            with alone(0):
                network = fit.model.started(fit.rows.shape[1:], self.classes)
            given = (training.state, fit.rows.shape[1:], self.classes, training.moments)
            return fit.finish(fit.model.fitted(network, *given))
        except LimbeckError as error:
            job = self.jobs[number]
            if isinstance(job.job if isinstance(job, Timed) else job, Guarded):
                return Failure(str(error))
            raise failed(fit, number, error) from error

    def _timed(self, found: Results, seconds: float, trainings: Sequence[Training]) -> Results:
        """Results with their share of the processor time, where it is asked for."""
        steps = [training.schedule.total for training in trainings]
        return {
            number: (result, seconds * own / sum(steps)) if isinstance(self.jobs[number], Timed) else result
            for (number, result), own in zip(found.items(), steps, strict=True)
        }
