"""Training: the jobs that algorithms hand in, and the pool of processes that runs them."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from joblib import Parallel, cpu_count, delayed
from joblib._parallel_backends import LokyBackend
from joblib.externals.loky.backend import resource_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import FitError, Fitted, Job, Model, Trainer
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

if TYPE_CHECKING:
    from limbeck.models.torch import FittedTorch, TorchModel

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Watch = Callable[[Iterable[Any], int], Iterable[Any]]


class FitJob(Protocol[T_co]):
    """A job that is one fit and a question to what was fitted: a trainer may fit many such together."""

    @property
    def model(self) -> Model: ...
    @property
    def rows(self) -> Array: ...
    @property
    def targets(self) -> Array: ...
    @property
    def recipe(self) -> Recipe | None: ...
    @property
    def start(self) -> bytes | None: ...
    @property
    def drift(self) -> bytes | None: ...

    def run(self, classes: int, seed: int) -> T_co: ...

    def finish(self, fitted: Any) -> T_co: ...


@dataclass(frozen=True, slots=True)
class Fit:
    """Fit a model, by its own recipe unless another is given; the packed model comes back."""

    model: Model
    rows: Array
    targets: Array
    recipe: Recipe | None = None
    start: ClassVar[bytes | None] = None
    drift: ClassVar[bytes | None] = None

    def __str__(self) -> str:
        return _told(self)

    def run(self, classes: int, seed: int) -> bytes:
        _check_rows(self)
        return self.finish(self.model.fit(self.rows, self.targets, classes, seed, self.recipe))

    def finish(self, fitted: Fitted) -> bytes:
        return fitted.pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        return constant_model(number, classes, self.rows.shape[1:])

    def is_valid(self, result: bytes, classes: int) -> bool:
        from limbeck.models.inspection import Limits

        return answers(result, self.rows, classes, Limits().bytes)


@dataclass(frozen=True, slots=True)
class FitAndScore:
    """Fit a model and ask it once; only its scores [rows, classes] come back, the model stays where it was fitted."""

    model: Model
    rows: Array
    targets: Array
    asked: Array
    recipe: Recipe | None = None
    start: ClassVar[bytes | None] = None
    drift: ClassVar[bytes | None] = None

    def __str__(self) -> str:
        return _told(self)

    def run(self, classes: int, seed: int) -> Array:
        _check_rows(self)
        return self.finish(self.model.fit(self.rows, self.targets, classes, seed, self.recipe))

    def finish(self, fitted: Fitted) -> Array:
        return np.asarray(fitted.scores(self.asked), np.float32)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        """Certain of one class, which the number chooses."""
        return np.asarray(np.eye(classes, dtype=np.float32)[np.full(len(self.asked), number % classes)])

    def is_valid(self, result: Any, classes: int) -> bool:
        """What is no number in it, ballots leave out."""
        return isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)


@dataclass(frozen=True, slots=True)
class FitAndVote(FitAndScore):
    """The same for votes: one class a row."""

    def finish(self, fitted: Fitted) -> Array:
        return fitted.vote(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.full(len(self.asked), number % classes)

    def is_valid(self, result: Any, classes: int) -> bool:
        right = isinstance(result, np.ndarray) and result.shape == (len(self.asked),) and result.dtype.kind in "iu"
        return right and bool(((result >= 0) & (result < classes)).all())


@dataclass(frozen=True, slots=True)
class Refit:
    """Train a network on from given weights (safetensors), or from fresh ones as `Fit` does; its weights come back.

    `drift` is added to every gradient: by the names of the weights, as safetensors (SCAFFOLD).
    """

    model: "TorchModel"
    rows: Array
    targets: Array
    start: bytes | None
    recipe: Recipe | None = None
    drift: bytes | None = None

    def __str__(self) -> str:
        return _told(self)

    def run(self, classes: int, seed: int) -> bytes:
        _check_rows(self)
        fitted = self.model.fit(self.rows, self.targets, classes, seed, self.recipe, self.start, drift=self.drift)
        return self.finish(cast("FittedTorch", fitted))

    def finish(self, fitted: "FittedTorch") -> bytes:
        if not hasattr(fitted, "weights"):
            raise LimbeckError("all labels are of one class: no network is trained to say that")
        return fitted.weights()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        """The weights that training was to start from."""
        return self.start or self.model.first_weights(self.rows.shape[1:], classes, seed)


@dataclass(frozen=True, slots=True)
class Blank:
    """A network's first weights (safetensors), before any training."""

    model: "TorchModel"
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        return self.model.first_weights(self.row, classes, seed)


@dataclass(frozen=True, slots=True)
class Pack:
    """A network with given weights, as ONNX."""

    model: "TorchModel"
    start: bytes
    row: tuple[int, ...]

    def run(self, classes: int, seed: int) -> bytes:
        return self.model.with_weights(self.start, self.row, classes).pack()

    def substitute(self, classes: int, seed: int, number: int) -> bytes:
        return constant_model(number, classes, self.row)


@dataclass(frozen=True, slots=True)
class Ask:
    """A network's logits for rows, by its weights: [rows, classes], before the softmax."""

    model: "TorchModel"
    start: bytes
    asked: Array

    def __str__(self) -> str:
        return f"{self.model.name}, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        return self.model.with_weights(self.start, self.asked.shape[1:], classes).logits(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.zeros((len(self.asked), classes), np.float32)

    def is_valid(self, result: Any, classes: int) -> bool:
        return isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)


@dataclass(frozen=True, slots=True)
class AskPacked:
    """A packed model's scores for rows: [rows, classes]."""

    packed: bytes
    asked: Array

    def __str__(self) -> str:
        return f"a packed model, asked about {len(self.asked)} rows"

    def run(self, classes: int, seed: int) -> Array:
        from limbeck.models.onnx import PackedModel

        return PackedModel(self.packed).scores(self.asked)

    def substitute(self, classes: int, seed: int, number: int) -> Array:
        return np.full((len(self.asked), classes), 1 / classes, np.float32)

    def is_valid(self, result: Any, classes: int) -> bool:
        return isinstance(result, np.ndarray) and result.shape == (len(self.asked), classes)


def constant_model(number: int, classes: int, row: tuple[int, ...]) -> bytes:
    """A packed model that gives every row the class that a number chooses."""
    from limbeck.models.constant import Constant

    return Constant(number % classes, classes, math.prod(row)).pack()


def answers(packed: Any, rows: Array, classes: int, largest: int | None = None) -> bool:
    """Whether a packed model gives each row a class and finite scores, and is not too large to send or keep."""
    from limbeck.models.onnx import PackedModel

    try:
        labels, scores = PackedModel(packed).run(rows) if len(rows) else (np.zeros(0, int), np.zeros((0, classes)))
    except (LimbeckError, ValueError):
        return False
    right = labels.shape == (len(rows),) and labels.dtype.kind in "iu" and scores.shape == (len(rows), classes)
    return bool(
        right
        and ((labels >= 0) & (labels < classes)).all()
        and np.isfinite(scores).all()
        and (largest is None or len(packed) <= largest)
    )


def _check_rows(job: Any) -> None:
    if not len(job.rows):
        raise LimbeckError("there are no rows to learn from")


def takes_steps(model: Model) -> bool:
    """Whether a model is trained in steps and can go on from where it is; others are fitted anew."""
    return hasattr(model, "with_weights")


def weighed(
    model: Model, labels: Array, weights: Array, classes: int, recipe: Recipe | None = None
) -> tuple[Array, Recipe]:
    """Targets, and a recipe of a network that takes them, such that the loss of each row counts as it weighs."""
    targets = np.zeros((len(labels), classes), np.float32)
    targets[np.arange(len(labels)), labels] = weights
    return targets, replace(recipe or cast("TorchModel", model).recipe, loss="soft-cross-entropy")


def _told(job: Any) -> str:
    return f"{job.model.name} to {len(job.rows)} rows"


def failed(job: Any, index: int, error: BaseException) -> FitError:
    """What went wrong with a job, in one line."""
    reason = " ".join(str(error).split())
    return FitError(f"cannot fit {job}: {reason or type(error).__name__}", index)


def completed(
    results: dict[int, Any], others: Trainer, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]
) -> list[T]:
    """All results in the order of the jobs; `others` runs those that have none yet."""
    rest = [index for index in range(len(jobs)) if index not in results]
    try:
        done = others.run([jobs[i] for i in rest], classes, [seeds[i] for i in rest]) if rest else []
    except FitError as error:
        raise FitError(error.message, rest[error.index]) from error
    every = {**results, **dict(zip(rest, done, strict=True))}
    return [every[index] for index in range(len(jobs))]


def unwatched(results: Iterable[Any], total: int) -> Iterable[Any]:
    return results


@dataclass(frozen=True, slots=True)
class PoolTrainer:
    """Runs jobs in joblib's processes, one core each; in the caller's own backend where joblib was given one.

    `processes` None means one per core. `watch(results, total)` passes the results on as they come: a progress bar.
    """

    processes: int | None = None
    watch: Watch = unwatched
    why: str = ""

    @property
    def said(self) -> dict[str, Any]:
        return {"trainer": "pool", "device": "cpu", "why": self.why}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        if not jobs:
            return []
        backend, width = get_active_backend()
        chosen = width is not None or not isinstance(backend, LokyBackend)
        processes = self.processes or (None if chosen else min(cpu_count(), len(jobs)))
        lazily = "generator" if backend.supports_return_generator else "list"
        tasks = (
            delayed(_attempt)(os.getpid(), i, job, classes, seed)
            for i, (job, seed) in enumerate(zip(jobs, seeds, strict=True))
        )
        try:
            return list(self.watch(Parallel(processes, return_as=lazily)(tasks), len(jobs)))
        except TerminatedWorkerError as error:
            raise LimbeckError("a training process was killed; too little memory for so many processes?") from error
        except BrokenProcessPool as error:
            raise LimbeckError("other processes cannot load a model; define it in a module they can import") from error


def warm_up(processes: int | None = None) -> None:
    """Start the pool in the background: its processes import what fits need while the caller reads and checks."""
    width = processes or cpu_count()
    if width > 1:
        imports = [delayed(_import)("limbeck.models.sklearn", os.getpid())] * width
        with _deaf_children():
            started = Parallel(width, batch_size=1, return_as="generator")(imports)
        threading.Thread(target=list, args=(started,), daemon=True).start()


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start here ignore Ctrl-C, which is for the program; it hears afterwards what came meanwhile."""
    resource_tracker.ensure_running()  # it would unblock signals if it had to start inside
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@cache
def end_with(program: int) -> None:
    """In a process of the pool: it must not outlive the program, however that ends."""

    def watch() -> None:
        while os.getppid() == program:
            time.sleep(0.2)
        os._exit(1)

    if os.getpid() != program:
        threading.Thread(target=watch, daemon=True).start()


def _attempt(program: int, index: int, job: Job[T], classes: int, seed: int) -> T:
    end_with(program)
    try:
        with threadpool_limits(1):
            return job.run(classes, seed)
    except (Exception, SystemExit) as error:  # an estimator may raise anything; all of it is told in one line
        raise failed(job, index, error) from None


def _import(module: str, program: int) -> None:
    end_with(program)
    import_module(module)
