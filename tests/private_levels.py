"""Every algorithm at every private level, small; and what a party sends and writes in a run of one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from limbeck.algorithms.centralized import PrivateRows
from limbeck.algorithms.evaluation import FederatedEvaluation
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.algorithms.pate import Pate
from limbeck.engines import respond as door
from limbeck.engines.in_process import InProcess
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.pool import _thread_pools
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.learning import Job, Trainer
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.release import MemoryLedger
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Kind, Task
from odd_models import linear

QUICK = Recipe(epochs=1, batch=4)
STUDY: dict[str, Any] = {"rounds": 2, "alignment": 5, "start": "none", "fine_tune": QUICK, "digest": QUICK}
L1, L2 = Privacy("L1", epsilon=2.0), Privacy("L2", epsilon=2.0)
ADD_REMOVE = Privacy("L2", "laplace", gamma=0.5, adjacency="add-remove")


@dataclass(frozen=True, slots=True)
class Evaluated(FederatedEvaluation):
    """Evaluates a model that is in no file."""

    def _read(self, site: Any) -> bytes:
        return linear()


LEVELS: dict[str, Any] = {
    "evaluation-L2": Evaluated(privacy=L2),
    "fedkt-L1": FedKT(partitions=2, subsets=2, privacy=L1),
    "fedkt-L2": FedKT(partitions=2, subsets=2, privacy=L2),
    "fedkt-L2-add-remove": FedKT(partitions=1, subsets=3, privacy=ADD_REMOVE),
    "fedkt-L2-confident": FedKT(
        partitions=1, subsets=3, privacy=Privacy("L2", "confident-gaussian", sigma=1.0, threshold=0.1)
    ),
    "fedridge-L1": FedRidge(privacy=L1),
    "fedridge-L2": FedRidge(privacy=L2),
    "fedridge-L2-add-remove-model": FedRidge(final="model", privacy=replace(L2, adjacency="add-remove")),
    "fedvote-L1": FedVote(partitions=1, subsets=2, privacy=L1),
    "pate-L2": Pate(teachers=4, privacy=L2),
    "fedkd-server": FedKD(local=None, distil=QUICK, weights="equal"),
    "fedkd-party": FedKD(distil=QUICK, mechanism="gaussian", epsilon=4.0, noised_by="party", weights_release="noisy"),
    "fedkd-party-equal": FedKD(distil=QUICK, weights="equal", mechanism="gaussian", epsilon=4.0, noised_by="party"),
    "fedkd-server-floats": FedKD(
        distil=QUICK, weights="equal", mechanism="gaussian", epsilon=4.0, scale=None, bound=2.2
    ),
    "fedkd-labels-L1": FedKD(transfer="labels", distil=QUICK, privacy=L1),
    "fedmd-ldp": FedMDLDP(**STUDY, revisit=QUICK, epsilon=50.0),
    "fedmd-nfdp": FedMDNFDP(**STUDY, revisit=QUICK, sampled=4, population=6),
}
NOISED_BY_PARTY = ("fedkd-party", "fedkd-party-equal", "fedmd-ldp", "fedmd-nfdp")
PROTECTED_FROM_SERVER = [name for name in LEVELS if ("L2" in name and name != "pate-L2") or name in NOISED_BY_PARTY]


@dataclass(frozen=True, slots=True)
class Sent:
    """What party 0 replied, and the rows of its ledger."""

    replies: list[Reply]
    ledger: list[Any]


def ordinary(rows: int = 9, row: tuple[int, ...] = (2,), seed: int = 0) -> Rows:
    """Three classes around three centres."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    x = rng.normal(size=(rows, *row), scale=0.3) + y.reshape(-1, *[1] * len(row))
    return Rows(x.astype(np.float32), y)


def of_task(rows: Rows, task: Kind) -> Rows:
    """Rows with three labels each, or with a number."""
    first = rows.x.reshape(len(rows), -1)[:, 0]
    if task == "multilabel":
        return Rows(rows.x, np.stack([rows.y == 0, rows.y > 0, first > 1], axis=1).astype(np.int8))
    return Rows(rows.x, np.clip(0.2 + first / 3, 0, 1)) if task == "regression" else rows


def federation(
    algorithm: Any, held: Sequence[Rows], model: dict[str, Any], classes: int = 3, task: Kind = "multiclass"
) -> Federation:
    """Parties with these rows and this model."""
    row, classes = held[0].x.shape[1:], 1 if task == "regression" else classes
    return Federation(
        algorithm=algorithm,
        seed=3,
        classes=np.array(["a", "b", "c"][:classes]),
        private=[Rows(rows.x, rows.y % classes) if task == "multiclass" else rows for rows in held],
        task=Task(task),
        models=[model_from(model)] * len(held),
        server_model=model_from({"name": "decision-tree"}),
        public=Rows(ordinary(8, row, 2).x, np.zeros(8, int)),
        config={},
    )


@contextmanager
def replies_of(monkeypatch: pytest.MonkeyPatch, parties: int) -> Iterator[list[list[Reply]]]:
    """The replies of each party, but for rows that it sends."""
    found: list[list[Reply]] = [[] for _ in range(parties)]
    plain = door.respond

    def watched(algorithm: Any, request: Any, header: Any, silo: Any) -> Reply:
        reply = plain(algorithm, request, header, silo)
        if not isinstance(reply, PrivateRows):
            found[silo.party].append(reply)
        return reply

    with monkeypatch.context() as patched:
        patched.setattr("limbeck.engines.in_process.respond", watched)
        yield found


@dataclass(frozen=True, slots=True)
class Here:
    """Runs jobs in this thread and looks for thread pools once, not for every job: these runs have many tiny ones."""

    description: ClassVar[dict[str, Any]] = {}

    def run(self, jobs: Sequence[Job[Any]], classes: int, seeds: Sequence[int]) -> list[Any]:
        with _thread_pools(0).limit(limits=1):
            return [job.run(classes, seed) for job, seed in zip(jobs, seeds, strict=True)]


def run_party(
    monkeypatch: pytest.MonkeyPatch,
    algorithm: Any,
    private: Rows,
    model: dict[str, Any],
    trainer: Trainer = Here(),  # noqa: B008
    classes: int = 3,
    task: Kind = "multiclass",
) -> Sent:
    """What a party with these rows sends, in a run with one that has ordinary rows."""
    held = [private, of_task(ordinary(9, private.x.shape[1:], 1), task)]
    return run_parties(monkeypatch, algorithm, held, model, trainer, classes, task)[0]


def run_parties(
    monkeypatch: pytest.MonkeyPatch,
    algorithm: Any,
    held: Sequence[Rows],
    model: dict[str, Any],
    trainer: Trainer = Here(),  # noqa: B008
    classes: int = 3,
    task: Kind = "multiclass",
) -> list[Sent]:
    """What each party of one run sends; all of them count."""
    server, silos = federation(algorithm, held, model, classes, task).sites(trainer)
    for site in (server, *silos):
        site.ledger = MemoryLedger()
    with replies_of(monkeypatch, len(held)) as replies:
        engine = InProcess(algorithm, server, silos, trainer)
        engine.run()
    assert engine.traffic.missing == ()
    assert engine.rejections == []
    return [
        Sent(sent, [replace(row, site="party") for row in silo.ledger.rows])
        for sent, silo in zip(replies, engine.silos, strict=True)
    ]


def shape_of(reply: Reply) -> list[Any]:
    """Kind, shapes and types; not the values, nor how many bytes something packed takes."""
    found: list[Any] = [type(reply).__name__]
    for field in fields(reply):  # type: ignore[arg-type]
        value = getattr(reply, field.name)
        if isinstance(value, np.ndarray):
            found.append((field.name, value.shape, value.dtype.str))
        elif isinstance(value, tuple):
            found.append((field.name, len(value)))
        else:
            found.append((field.name, type(value).__name__, bool(value) if isinstance(value, bytes) else None))
    return found
