"""Protocols of training: models, jobs and trainers.

At a private level jobs are guarded, so that nobody outside the site can see whether a training failed. The result of a
teacher that cannot be fitted, a network that diverges or a subset without rows is replaced by the job's substitute.
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
    """A fitted model; its scores have a column for every class of the run, also for classes that it has not seen."""

    def vote(self, x: Array) -> Array:
        """Predict the class of each row.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows.

        Returns
        -------
        array of shape (rows,)
            Class numbers.
        """

    def scores(self, x: Array) -> Array:
        """Predict scores of each row.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows.

        Returns
        -------
        array of shape (rows, classes)
            Probabilities; 1 for the predicted class and 0 for all others where the model has no probabilities.
        """

    def pack(self) -> bytes:
        """Return the model as ONNX, in bytes."""


class Model(Protocol):
    """A kind of model with its parameters, not fitted."""

    @property
    def name(self) -> str:
        """Name of the model, for messages and records."""

    @property
    def description(self) -> Mapping[str, Any]:
        """Its name and parameters for the run record; a named model can be made from them."""

    def fit(self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None) -> Fitted:
        """Fit the model.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows.
        y : array of shape (rows,)
            Class numbers.
        classes : int
            Number of classes of the run; some may be missing in `y`.
        seed : int
            Seed of all randomness.
        recipe : Recipe, optional
            Replaces the model's own recipe; only for models that are trained in epochs.

        Returns
        -------
        Fitted
            The fitted model.
        """


class WeightedModel(Model, Protocol):
    """A kind of model that can be fitted to weighted rows."""

    def fit(
        self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, *, weight: Array | None = None
    ) -> Fitted:
        """Fit the model.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Rows.
        y : array of shape (rows,)
            Class numbers.
        classes : int
            Number of classes of the run; some may be missing in `y`.
        seed : int
            Seed of all randomness.
        recipe : Recipe, optional
            Replaces the model's own recipe; only for models that are trained in epochs.
        weight : array of shape (rows,), optional
            Sample weights above 0 with mean 1.

        Returns
        -------
        Fitted
            The fitted model.
        """


class Job(Protocol[T]):
    """A training job that can run in any process: its result depends on its fields and the seed alone."""

    def run(self, classes: int, seed: int) -> T:
        """Run the job.

        Parameters
        ----------
        classes : int
            Number of classes of the run.
        seed : int
            Seed of all randomness.

        Returns
        -------
        T
            The result, for example a packed model or votes.
        """


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of a guarded job that failed; `reason` is for the site's own log."""

    reason: str


@dataclass(frozen=True, slots=True)
class Guarded(Generic[J]):
    """A job whose failure is a result, so that it does not stop other jobs."""

    job: Job[J]

    def __str__(self) -> str:
        return str(self.job)

    def run(self, classes: int, seed: int) -> J | Failure:
        """Run the job; return its result, or a `Failure` if it raises."""
        return self.guard(lambda: self.job.run(classes, seed))

    @staticmethod
    def guard(work: Callable[[], J]) -> J | Failure:
        """Return the result of `work`, or a `Failure` if it raises."""
        try:
            return work()
        except (Exception, SystemExit) as error:  # a model may raise anything
            return Failure(" ".join(str(error).split()) or type(error).__name__)


def guarded_results(
    jobs: Sequence[Job[J]], results: Sequence[Any], classes: int, seeds: Sequence[int], site: str
) -> list[J]:
    """Replace each failed or invalid result by its job's substitute, and log how many were replaced.

    A substitute has the same type and shape as a result, and passes through the same mechanism, noise and ledger row.
    It depends on public facts and the job's number alone. A row that makes one job fail therefore changes the result of
    this job only.

    Parameters
    ----------
    jobs : sequence of Job
        The jobs.
    results : sequence
        Their results; a `Failure` where a job failed.
    classes : int
        Number of classes of the run.
    seeds : sequence of int
        Seeds of the jobs.
    site : str
        Name of the site, for the log.

    Returns
    -------
    list
        The valid results and the substitutes, in the order of the jobs.

    Raises
    ------
    LimbeckError
        If a job without a substitute failed. Such a job depends on no private row.
    """
    found, reasons = list(results), []
    for number, (job, result) in enumerate(zip(jobs, results, strict=True)):
        if (reason := _reason(job, result, classes)) is None:
            continue
        if not hasattr(job, "substitute"):
            raise LimbeckError(reason)
        found[number] = job.substitute(classes, seeds[number], number)
        reasons.append(reason)
    if reasons:
        log.warning(
            "%s: %d of %d trainings were replaced by substitutes: %s", site, len(reasons), len(jobs), reasons[0]
        )
    return found


def _reason(job: Any, result: Any, classes: int) -> str | None:
    """Why a result cannot be used; None for a valid result."""
    if isinstance(result, Failure):
        return f"cannot fit {job}: {result.reason}"
    valid = getattr(job, "is_valid", None)
    return None if valid is None or valid(result, classes) else f"{job} returned an invalid result"


class Trainer(Protocol):
    """Decides how jobs run: in this process, in several processes, or as a stack on a GPU."""

    @property
    def description(self) -> Mapping[str, Any]:
        """Trainer, device and the reason for this choice, for the run record."""

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
        """Run jobs.

        Parameters
        ----------
        jobs : sequence of Job
            The jobs.
        classes : int
            Number of classes of the run.
        seeds : sequence of int
            One seed for each job.

        Returns
        -------
        list
            The results, in the order of the jobs.

        Raises
        ------
        FitError
            If a job fails.
        """


class FitError(LimbeckError):
    """A training job failed.

    Parameters
    ----------
    message : str
        What failed and why.
    index : int
        Position of the job among those of the call.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message, self.index = message, index

    def __str__(self) -> str:
        return self.message
