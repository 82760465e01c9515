"""Cache of training results: what another run has fitted is not fitted again."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from limbeck.protocol.learning import Failure, Guarded, Job, Trainer
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, Rows, content_hash

T = TypeVar("T")
JobCache = dict[Any, tuple[Any, float]]
MAX_CACHE_BYTES = 2**30  # of cached results


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """Job whose result includes the seconds of processor time that it took.

    Parameters
    ----------
    job : Job
        The job.
    """

    job: Job[T]

    def run(self, classes: int, seed: int) -> tuple[T, float]:
        """Run the job; returns its result and the seconds."""
        return self.timed(lambda: self.job.run(classes, seed))

    @staticmethod
    def timed(work: Callable[[], T]) -> tuple[T, float]:
        """Call a function; returns its result and the seconds of processor time."""
        began = time.process_time()
        return work(), time.process_time() - began

    def __str__(self) -> str:
        return str(self.job)


def plain(job: Any) -> Any:
    """Job without the wrappers that time or guard it."""
    return plain(job.job) if isinstance(job, Timed | Guarded) else job


@dataclass(slots=True)
class CachingTrainer:
    """Trainer that passes on only jobs without a cached result.

    Results are read-only, because runs share them. A job without a content hash is not shared.

    Parameters
    ----------
    trainer : Trainer
        Trainer of the other jobs.
    cache : dict
        Results and their seconds by content hash; several trainers can share it.
    seconds : float
        Processor time of all jobs so far, cached ones included.
    """

    trainer: Trainer
    cache: JobCache = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def description(self) -> Mapping[str, Any]:
        """What the run record says about the trainer."""
        return self.trainer.description

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs or take their cached results; returns the results in order."""
        known: dict[tuple[Any, ...], str] = {}
        keys = [key_of_job(job, classes, seed, known) or object() for job, seed in zip(jobs, seeds, strict=True)]
        new = {key: i for i, key in enumerate(keys) if key not in self.cache}
        results = self.trainer.run([Timed(jobs[i]) for i in new.values()], classes, [seeds[i] for i in new.values()])
        found = self.cache | dict(zip(new, results, strict=True))
        for result, _ in results:
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
        shared = {key: value for key, value in found.items() if isinstance(key, str)}
        self.cache.update({key: value for key, value in shared.items() if not isinstance(value[0], Failure)})
        _forget_the_quickest(self.cache)
        self.seconds += sum(found[key][1] for key in keys)
        return [found[key][0] for key in keys]


def _forget_the_quickest(cache: JobCache) -> None:
    """Remove results until the cache fits into memory, those first that took the least time."""
    excess = sum(map(_size, cache.values())) - MAX_CACHE_BYTES
    for key in sorted(cache, key=lambda key: cache[key][1]) if excess > 0 else ():
        if excess <= 0:
            return
        excess -= _size(cache.pop(key))


def _size(result: tuple[Any, float]) -> int:
    value, _ = result
    return len(value) if isinstance(value, bytes) else int(getattr(value, "nbytes", 0))


def key_of_job(job: Any, classes: int, seed: int, known: dict[tuple[Any, ...], str]) -> str | None:
    """Content hash of a job.

    Parameters
    ----------
    job : Any
        The job.
    classes : int
        Number of classes.
    seed : int
        Seed of the job.
    known : dict
        Hashes of arrays by address, which are added to; many jobs share arrays.

    Returns
    -------
    str or None
        SHA-256 of all that the job depends on; None if this cannot be determined.
    """
    if isinstance(job, Guarded):
        return key_of_job(job.job, classes, seed, known)
    if not is_dataclass(job):
        return None
    parts = [(part.name, _fingerprint(getattr(job, part.name), known)) for part in fields(job)]
    if any(fingerprint is None for _, fingerprint in parts):
        return None
    kind = f"{type(job).__module__}.{type(job).__qualname__}"
    return hashlib.sha256(repr((kind, classes, seed, parts)).encode()).hexdigest()


def _fingerprint(value: Any, known: dict[tuple[Any, ...], str]) -> str | None:
    if isinstance(value, np.ndarray):
        position = address(value)
        if position not in known:
            known[position] = content_hash(value)
        return known[position]
    if isinstance(value, Rows):
        return f"rows {[_fingerprint(part, known) for part in (value.x, value.y, value.weight)]}"
    if isinstance(value, bytes):
        return f"bytes {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, Recipe | str | int | float | None):
        return repr(value)
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        return repr(value)
    description = getattr(value, "description", None)
    if description is None:
        return None
    task = getattr(value, "task", "multiclass")
    text = json.dumps(dict(description), sort_keys=True, default=repr)
    return text if task == "multiclass" else f"{task} {text}"


def address(array: Array) -> Any:
    """Key of an array's memory: equal for the same values at the same place.

    Parameters
    ----------
    array : array
        The array.

    Returns
    -------
    tuple
        Address, shape, strides and type.

    Examples
    --------
    >>> rows = np.zeros(3)
    >>> address(rows) == address(rows[:]), address(rows) == address(rows.copy())
    (True, False)
    """
    return (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
