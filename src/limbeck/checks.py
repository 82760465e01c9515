"""`check_algorithm`: the test suite for every algorithm, on a small federation and under every engine."""

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.data.splits import Iid
from limbeck.engines.engine import Engine
from limbeck.engines.fresh_process import FreshProcess
from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.rows import Rows
from limbeck.protocol.streams import stream
from limbeck.protocol.task import UNKNOWN, Kind, Task

MODELS = ({"name": "decision-tree"}, {"name": "logistic-regression"}, {"name": "naive-bayes"})
REGRESSORS = ({"name": "decision-tree"}, {"name": "linear-regression"}, {"name": "knn"})
SERVER_MODEL = {"name": "random-forest", "n_estimators": 5}
NETWORK = {"name": "torch-mlp", "hidden": [8], "recipe": {"epochs": 2}}
SILENT = 1
SEPALS = (4.3, 7.0)  # range of the numeric target; a few sepals are longer


class AlgorithmError(AssertionError):
    """An algorithm breaks a rule, which the message names."""


def check_algorithm(algorithm: Algorithm, seed: int = 0, federation: Federation | None = None) -> None:
    """Test whether an algorithm keeps the rules of all algorithms.

    An algorithm is a frozen dataclass. Its result is the same to the bit under every engine, for any number of
    processes and any order of the parties. Everything that leaves a site has a ledger row. A run survives a silent
    party, and ends with a `LimbeckError` if all parties are silent. All this holds for each kind of labels that the
    algorithm learns.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm, with its hyper-parameters.
    seed : int
        The seed of the small federation.
    federation : Federation or None
        The federation to test with; None means `small_federation(algorithm, seed, task)` for each task that the
        algorithm learns with these hyper-parameters.

    Returns
    -------
    None
        If all rules hold.

    Raises
    ------
    AlgorithmError
        If a rule is broken.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.check_algorithm(lb.FedVote())  # doctest: +SKIP
    >>> lb.check_algorithm("fedvote")
    Traceback (most recent call last):
    limbeck.checks.AlgorithmError: an algorithm must be a dataclass of its hyper-parameters
    """
    _must(is_dataclass(algorithm), "an algorithm must be a dataclass of its hyper-parameters")
    _must(type(algorithm).__dataclass_params__.frozen, "an algorithm must be frozen: it keeps no state")  # type: ignore[attr-defined]
    for each in (
        [federation] if federation else [small_federation(algorithm, seed, task) for task in tasks_of(algorithm)]
    ):
        _check(algorithm, each)


def tasks_of(algorithm: Algorithm) -> list[Kind]:
    """List the tasks that an algorithm learns with its hyper-parameters.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.

    Returns
    -------
    list of {"multiclass", "multilabel", "regression"}
        The tasks.

    Examples
    --------
    >>> import limbeck as lb
    >>> tasks_of(lb.FedMD(score_format="argmax"))
    ['multiclass']
    """
    found: list[Kind] = []
    for task in algorithm.tasks:
        with suppress(LimbeckError):
            algorithm.check_task(Task(task))
            found.append(task)
    return found


def _check(algorithm: Algorithm, federation: Federation) -> None:
    plain = _trace(_in_process(federation))
    _must(_trace(_in_process(federation)) == plain, "the same seed must give the same result")
    _must(_trace(_in_process(federation, processes=2)) == plain, "the number of processes must not change the result")
    _must(_trace(_in_process(federation, kind=ThroughBytes)) == plain, "messages must survive the codec to the bit")
    _must(_trace(_in_process(federation, backwards=True)) == plain, "the order of parties must not change the result")
    with tempfile.TemporaryDirectory() as folder:
        fresh = FreshProcess(algorithm, *federation.sites(PoolTrainer(1)), Path(folder))
        _must(_trace(fresh) == plain, "a fresh process for each request must not change the result")
    _check_ledger(_in_process(federation))
    _check_silence(federation)


def small_federation(algorithm: Algorithm, seed: int = 0, task: Kind = "multiclass") -> Federation:
    """Make a federation of three parties with the rows of `iris`.

    With several labels a row, each party does not know one of three classes. A numeric target is the length of a sepal.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm to run.
    seed : int
        The seed of the split and of the run.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    Federation
        Parties with three kinds of models, or with one network if the algorithm needs one.
    """
    alike, models = algorithm.needs_one_network, REGRESSORS if task == "regression" else MODELS
    data = load("iris")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), seed)
    held = Iid().assign(data.y[parts.private], {}, len(MODELS), stream(seed, "split"))
    private = [_of_task(data.rows(parts.private[rows]), task, party) for party, rows in enumerate(held)]
    return Federation(
        algorithm=algorithm,
        seed=seed,
        classes=np.array(["sepal length"] if task == "regression" else data.classes),
        task=Task(task, *(SEPALS if task == "regression" else ())),
        private=private,
        models=[model_from(NETWORK if alike else model) for model in models],
        server_model=model_from(NETWORK if alike else SERVER_MODEL),
        public=parts.public and _of_task(parts.public, task),
        test=parts.test and _of_task(parts.test, task),
        public_is_from_same_source=True,
        public_is_labelled=True,
        config={},
    )


def _of_task(rows: Rows, task: Kind, party: int | None = None) -> Rows:
    """Rows of `iris` with other labels; a party does not know the class of its number."""
    if task == "multiclass":
        return rows
    if task == "regression":
        others = rows.x * np.array([0, 1, 1, 1], np.float32)
        return Rows(others, Task("regression", *SEPALS).scaled(rows.x[:, 0]))
    labels = np.stack([rows.y == 0, rows.y > 0, rows.x[:, 0] > np.median(SEPALS)], axis=1).astype(np.int8)
    if party is not None:
        labels[:, party] = UNKNOWN
    return Rows(rows.x, labels)


def _in_process(
    federation: Federation,
    processes: int = 1,
    silent: Iterable[int] = (),
    kind: type[InProcess] = InProcess,
    backwards: bool = False,
) -> InProcess:
    trainer = PoolTrainer(processes)
    server, silos = federation.sites(trainer)
    return kind(federation.algorithm, server, silos[::-1] if backwards else silos, trainer, silent)


def _trace(engine: Engine) -> dict[str, Any]:
    """Everything that a run leaves behind, except times."""
    return {
        "model": engine.run().model,
        "memories": [{name: bytes(value) for name, value in silo.memory.items()} for silo in engine.silos],
        "ledgers": [site.ledger.rows for site in (*engine.silos, engine.server)],
        "traffic": [(e.request, e.down, e.up, e.missing) for e in engine.traffic.exchanges],
    }


def _check_ledger(engine: InProcess) -> None:
    """Test that each private reply and each private request has a ledger row of its turn."""
    engine.run()
    for turn, exchange in enumerate(engine.traffic.exchanges):
        if exchange.has_private_request:
            _must(_row_of(engine.server.ledger.rows, turn), f"{exchange.request} has no ledger row")
        for silo in engine.silos:
            if exchange.has_results and silo.party in exchange.up:
                _must(_row_of(silo.ledger.rows, turn), f"{silo.name}'s reply to {exchange.request} has no ledger row")


def _check_silence(federation: Federation) -> None:
    engine = _in_process(federation, silent=[SILENT])
    result = engine.run()
    _must(engine.traffic.missing == (SILENT,), "the silent party must be recorded as missing")
    remaining = [silo for silo in engine.silos if silo.party != SILENT]
    _must(
        result.model is not None or all(silo.installed for silo in remaining),
        "with a silent party, all other parties must still end with a model",
    )
    with suppress(LimbeckError):
        _in_process(federation, silent=range(len(federation.private))).run()
        raise AlgorithmError("if no party replies, the run must end with a LimbeckError")


def _row_of(rows: Iterable[Any], turn: int) -> bool:
    return any(row.turn == turn for row in rows)


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise AlgorithmError(rule)
