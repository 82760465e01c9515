"""What a site may ask of learning: kinds of models, fits to be done, and who does them.

At a private level jobs are guarded: what training does with private rows never shows but in what it gives. A teacher
that cannot be fitted, a network that diverges, a subset without rows: each job then gives its substitute.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

T = TypeVar("T", covariant=True)
J = TypeVar("J")
log = logging.getLogger("limbeck")


class Fitted(Protocol):
    """A model that has learned. Scores are over all classes in order, whatever classes it has seen."""

    def vote(self, x: Array) -> Array:
        """The class number of each row."""

    def scores(self, x: Array) -> Array:
        """[rows, classes]: probabilities, or 1 for the vote and 0 elsewhere where the model has none."""

    def pack(self) -> bytes:
        """The model as ONNX."""


class Model(Protocol):
    """A kind of model with its parameters, before any fit."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> Mapping[str, Any]:
        """What a record says of it; enough to make it again where it was made by name."""

    def fit(self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None) -> Fitted:
        """`recipe` takes the place of the model's own; only models that are trained in epochs take one."""


class Job(Protocol[T]):
    """A piece of training that can run anywhere: it depends on its fields and the seed alone."""

    def run(self, classes: int, seed: int) -> T: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of a guarded job that failed; `reason` is for the log at the site."""

    reason: str


@dataclass(frozen=True, slots=True)
class Guarded(Generic[J]):
    """A job whose failure is a result: it ends no other job."""

    job: Job[J]

    def __str__(self) -> str:
        return str(self.job)

    def run(self, classes: int, seed: int) -> J | Failure:
        return self.guard(lambda: self.job.run(classes, seed))

    @staticmethod
    def guard(work: Callable[[], J]) -> J | Failure:
        try:
            return work()
        except (Exception, SystemExit) as error:  # a model may raise anything
            return Failure(" ".join(str(error).split()) or type(error).__name__)


def guarded_results(
    jobs: Sequence[Job[J]], results: Sequence[Any], classes: int, seeds: Sequence[int], site: str
) -> list[J]:
    """The results, each failed or invalid one replaced; how many were is told in the site's own log.

    A substitute is of the usual kind and shape, and goes on through the same mechanism, noise and ledger row. It
    depends on public facts and the job's number alone, so that a row that makes one job fail changes the result of that
    job only.
    """
    found, reasons = list(results), []
    for number, (job, result) in enumerate(zip(jobs, results, strict=True)):
        if (reason := _reason(job, result, classes)) is None:
            continue
        if not hasattr(job, "substitute"):  # it depends on no private row
            raise LimbeckError(reason)
        found[number] = job.substitute(classes, seeds[number], number)
        reasons.append(reason)
    if reasons:
        log.warning(
            "%s: %d of %d trainings were replaced by substitutes: %s", site, len(reasons), len(jobs), reasons[0]
        )
    return found


def _reason(job: Any, result: Any, classes: int) -> str | None:
    """Why a result cannot be used; None where it can."""
    if isinstance(result, Failure):
        return f"cannot fit {job}: {result.reason}"
    valid = getattr(job, "is_valid", None)
    return None if valid is None or valid(result, classes) else f"{job} gave an invalid result"


class Trainer(Protocol):
    """Decides how jobs run; the results come in the order of the jobs."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What a record says of it: which trainer, on what device, and why."""

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]: ...


class FitError(LimbeckError):
    """A job failed; `index` says which one of those that were handed in together."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message, self.index = message, index

    def __str__(self) -> str:
        return self.message
