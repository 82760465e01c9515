"""Shared fits: what another run has fitted already is not fitted again."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from limbeck.protocol.learning import Failure, Guarded, Job, Trainer
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, content_hash

T = TypeVar("T")
JobCache = dict[Any, tuple[Any, float]]
MAX_CACHE_BYTES = 2**30  # of results that are kept to be shared


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """A job that also tells how many seconds of its process it took."""

    job: Job[T]

    def run(self, classes: int, seed: int) -> tuple[T, float]:
        return self.timed(lambda: self.job.run(classes, seed))

    @staticmethod
    def timed(work: Callable[[], T]) -> tuple[T, float]:
        began = time.process_time()
        return work(), time.process_time() - began

    def __str__(self) -> str:
        return str(self.job)


@dataclass(slots=True)
class CachingTrainer:
    """Hands on only those jobs whose like is not in `cache` yet, which other trainers may share.

    `seconds` is what this trainer's jobs took on one core, whoever asked for them first. Results are read-only, for
    they are everybody's; a job that cannot be told from its like is not shared.
    """

    trainer: Trainer
    cache: JobCache = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def description(self) -> Mapping[str, Any]:
        return self.trainer.description

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
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
    """Rounds of weights would fill the memory; what took longest is worth most."""
    excess = sum(map(_size, cache.values())) - MAX_CACHE_BYTES
    for key in sorted(cache, key=lambda key: cache[key][1]) if excess > 0 else ():
        if excess <= 0:
            return
        excess -= _size(cache.pop(key))


def _size(result: tuple[Any, float]) -> int:
    value, _ = result
    return len(value) if isinstance(value, bytes) else int(getattr(value, "nbytes", 0))


def key_of_job(job: Any, classes: int, seed: int, known: dict[tuple[Any, ...], str]) -> str | None:
    """A hash of all that the job depends on, None where that cannot be told.

    `known` holds the hashes of arrays that many jobs have in common.
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
    if isinstance(value, bytes):
        return f"bytes {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, Recipe | str | int | float | None):
        return repr(value)
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        return repr(value)
    description = getattr(value, "description", None)
    return None if description is None else json.dumps(dict(description), sort_keys=True, default=repr)


def address(array: Array) -> Any:
    """The same for the same values in the same memory."""
    return (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
