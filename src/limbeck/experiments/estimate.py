"""What a run would send and how long it would take, estimated by short runs on made-up rows of the same shape."""

import time
import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.federation import Federation
from limbeck.models.jobs import is_gradient_trained
from limbeck.models.tasks import for_task
from limbeck.models.trainers import Training, trainer_for
from limbeck.privacy.ledger import LedgerStore
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Task

PARTIES = 3
SIZES = ((30, 100), (60, 100), (30, 400))  # private rows of each party, and public rows, of three runs
MAX_SECONDS = 10.0  # of the first run; if it takes longer, nothing is estimated
PROBES = (4, 36)  # rows of two short trainings of a network


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated traffic and time of a run.

    Parameters
    ----------
    up : int
        Bytes from all parties.
    down : int
        Bytes to all parties.
    seconds : float
        Time in one process.
    """

    up: int
    down: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A short run on made-up rows: its size and its costs."""

    parties: int
    rows: int
    public: int
    up: float
    down: float
    seconds: float


def estimate(federation: Federation) -> Estimate | str:
    """Estimate a run by short runs on made-up rows.

    Parameters
    ----------
    federation : Federation
        The federation; only the shape and the number of its private rows are used.

    Returns
    -------
    Estimate or str
        The estimate, or why there is none.

    Notes
    -----
    Made-up private rows are public rows with random labels, or random numbers if there are no public rows. Costs are
    taken to grow linearly with the numbers of private rows, public rows, parties and rounds.
    """
    trials: list[Trial] = []
    if (seconds := _seconds_of_networks(federation)) > MAX_SECONDS:
        return f"the networks take long: {SIZES[0][0]} rows take about {seconds:.0f} seconds"
    for rows, public in (SIZES[0], *SIZES):  # the very first run also loads programs
        try:
            trials.append(_trial(federation, rows, public))
        except LimbeckError as error:
            return f"made-up rows do not do: {error}"
        if trials[-1].seconds > MAX_SECONDS:
            return f"the models take long: {rows} rows take {trials[-1].seconds:.0f} seconds"
    return _extrapolated(federation, *trials[1:])


def _seconds_of_networks(federation: Federation) -> float:
    """Time that the networks of the first run would train, from one epoch on few rows; 0 without networks."""
    networks: dict[str, Any] = {repr(m.description): m for m in federation.models if is_gradient_trained(m)}
    row, classes = federation.private[0].x.shape[1:], len(federation.classes)
    found = 0.0
    for model in networks.values():
        used = []
        for rows in PROBES:
            x, y = np.zeros((rows, *row), np.float32), _labels(federation.task, rows, classes, np.random.default_rng(0))
            started = time.perf_counter()
            for_task(model, federation.task.kind).fit(x, y, classes, 0, recipe=replace(model.recipe, epochs=1))
            used.append(time.perf_counter() - started)
        per_row = max(0.0, used[1] - used[0]) / (PROBES[1] - PROBES[0])
        found = max(found, per_row * SIZES[0][0] * _epochs(federation.algorithm, model))
    return found * min(PARTIES, len(federation.private))


def _epochs(algorithm: Any, model: Any) -> int:
    """Largest number of epochs that the model or the algorithm names."""
    recipes = [model.recipe, *(getattr(algorithm, field.name) for field in fields(algorithm))]
    return max(recipe.epochs for recipe in recipes if isinstance(recipe, Recipe))


def _trial(federation: Federation, rows: int, public: int) -> Trial:
    """Run the method once, for one round, on few rows."""
    rng = np.random.default_rng(0)
    parties = min(PARTIES, len(federation.private))
    rows = max(rows, 2 * federation.algorithm.min_rows)
    open_rows = federation.public and federation.public[rng.permutation(len(federation.public))[:public]]
    private = [_made_up(federation, open_rows, rows, rng) for _ in range(parties)]
    small = replace(
        federation,
        algorithm=_one_round(federation.algorithm),
        private=private,
        models=federation.models[:parties],
        public=open_rows,
        test=None,
        own_tests=(),
        config={},
        noise="simulated",
        ledger_store=LedgerStore(),
        names=None,
    )
    trainer = trainer_for(Training(device="cpu"), [*small.models, small.server_model], processes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimbeckWarning)
        started = time.perf_counter()
        record = small.run(
            trainer, smoke_tested={repr(m.description) for m in [*small.models, small.server_model]}
        ).record
    used = time.perf_counter() - started
    return Trial(parties, rows, len(open_rows) if open_rows else 0, record.bytes["up"], record.bytes["down"], used)


def _made_up(federation: Federation, public: Rows | None, rows: int, rng: np.random.Generator) -> Rows:
    if public is not None:
        x = public.x[rng.integers(len(public), size=rows)]
    elif federation.are_tokens:
        x = rng.integers(1, 1000, size=(rows, *federation.private[0].x.shape[1:])).astype(federation.private[0].x.dtype)
    else:
        x = rng.normal(size=(rows, *federation.private[0].x.shape[1:])).astype(np.float32)
    return Rows(x, _labels(federation.task, rows, len(federation.classes), rng))


def _labels(task: Task, rows: int, classes: int, rng: np.random.Generator) -> Array:
    if task.kind == "regression":
        return rng.random(rows).astype(np.float32)
    if task.kind == "multilabel":
        return rng.integers(0, 2, size=(rows, classes)).astype(np.int8)
    return rng.permutation(np.arange(rows) % classes)


def _one_round(algorithm: Any) -> Any:
    has_rounds = any(field.name == "rounds" for field in fields(algorithm))
    return replace(algorithm, rounds=min(1, algorithm.rounds)) if has_rounds else algorithm


def _extrapolated(federation: Federation, start: Trial, more_rows: Trial, more_public: Trial) -> Estimate:
    """Costs of the whole run, if they grow linearly with private rows, public rows, parties and rounds."""
    parties, public = len(federation.private), len(federation.public) if federation.public else 0
    rows = sum(map(len, federation.private)) / parties
    times = parties * max(1, int(getattr(federation.algorithm, "rounds", 1))) / start.parties

    def whole(key: str) -> float:
        first, by_rows, by_public = (float(getattr(each, key)) for each in (start, more_rows, more_public))
        grown = _slope(start.rows, more_rows.rows, first, by_rows) * (rows - start.rows)
        grown += _slope(start.public, more_public.public, first, by_public) * (public - start.public)
        return max(first + grown, first / 2) * times

    return Estimate(round(whole("up")), round(whole("down")), whole("seconds"))


def _slope(low: int, high: int, at_low: float, at_high: float) -> float:
    """Growth from one size to a larger one; 0 if there is none.

    Examples
    --------
    >>> _slope(100, 200, 1.0, 2.0), _slope(100, 200, 2.0, 1.0)
    (0.01, 0.0)
    """
    return max(0.0, at_high - at_low) / (high - low) if high > low else 0.0
