"""`check_algorithm`: what every algorithm must keep to, run on a small federation under every engine."""

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
from limbeck.protocol.streams import stream

MODELS = ({"name": "decision-tree"}, {"name": "logistic-regression"}, {"name": "naive-bayes"})
SERVER_MODEL = {"name": "random-forest", "n_estimators": 5}
NETWORK = {"name": "torch-mlp", "hidden": [8], "recipe": {"epochs": 2}}
SILENT = 1


class AlgorithmError(AssertionError):
    """An algorithm breaks a rule; the message says which."""


def check_algorithm(algorithm: Algorithm, seed: int = 0, federation: Federation | None = None) -> None:
    """Raise AlgorithmError unless the algorithm behaves.

    It is a frozen dataclass; every engine gives the same result to the bit, with one process or two and whatever
    the order in which parties come; everything that left stands in a ledger; a silent party is survived, and silence of
    all is an error.
    """
    _must(is_dataclass(algorithm), "an algorithm is a dataclass of its hyper-parameters")
    _must(type(algorithm).__dataclass_params__.frozen, "an algorithm is frozen: nothing is hidden on it")  # type: ignore[attr-defined]
    federation = federation or small_federation(algorithm, seed)
    plain = _trace(_in_process(federation))
    _must(_trace(_in_process(federation)) == plain, "the same seed gives the same result")
    _must(_trace(_in_process(federation, processes=2)) == plain, "the number of processes changes nothing")
    _must(_trace(_in_process(federation, kind=ThroughBytes)) == plain, "messages survive the codec to the bit")
    _must(_trace(_in_process(federation, backwards=True)) == plain, "the order in which parties come changes nothing")
    with tempfile.TemporaryDirectory() as folder:
        fresh = FreshProcess(algorithm, *federation.sites(PoolTrainer(1)), Path(folder))
        _must(_trace(fresh) == plain, "a fresh process for every request changes nothing")
    _check_ledger(_in_process(federation))
    _check_silence(federation)


def small_federation(algorithm: Algorithm, seed: int = 0) -> Federation:
    """Three parties share the embedded `iris`: with three kinds of models, or one network where it must be one."""
    alike = algorithm.needs_one_network
    data = load("iris")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), seed)
    held = Iid().partition(data.y[parts.private], {}, len(MODELS), stream(seed, "split"))
    return Federation(
        algorithm=algorithm,
        seed=seed,
        classes=np.array(data.classes),
        private=[data.rows(parts.private[rows]) for rows in held],
        models=[model_from(NETWORK if alike else model) for model in MODELS],
        server_model=model_from(NETWORK if alike else SERVER_MODEL),
        public=parts.public,
        test=parts.test,
        public_is_from_same_source=True,
        public_is_labelled=True,
        config={},
    )


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
    """All that a run leaves behind, but for times."""
    return {
        "model": engine.run().model,
        "memories": [{name: bytes(value) for name, value in silo.memory.items()} for silo in engine.silos],
        "ledgers": [site.ledger.rows for site in (*engine.silos, engine.server)],
        "traffic": [(e.request, e.down, e.up, e.missing) for e in engine.traffic.exchanges],
    }


def _check_ledger(engine: InProcess) -> None:
    """Each reply that told something, and each request that carried something, has a row of its turn."""
    engine.run()
    for turn, exchange in enumerate(engine.traffic.exchanges):
        if exchange.has_private_request:
            _must(_row_of(engine.server.ledger.rows, turn), f"{exchange.request} left the server without a row")
        for silo in engine.silos:
            if exchange.has_results and silo.party in exchange.up:
                _must(_row_of(silo.ledger.rows, turn), f"{silo.name}'s reply to {exchange.request} left without a row")


def _check_silence(federation: Federation) -> None:
    engine = _in_process(federation, silent=[SILENT])
    result = engine.run()
    _must(engine.traffic.missing == (SILENT,), "the silent party is named as missing")
    remaining = [silo for silo in engine.silos if silo.party != SILENT]
    _must(
        result.model is not None or all(silo.installed for silo in remaining),
        "with a silent party, the others still end with a model",
    )
    with suppress(LimbeckError):
        _in_process(federation, silent=range(len(federation.private))).run()
        raise AlgorithmError("when nobody answers, the run ends with a LimbeckError")


def _row_of(rows: Iterable[Any], turn: int) -> bool:
    return any(row.turn == turn for row in rows)


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise AlgorithmError(rule)
