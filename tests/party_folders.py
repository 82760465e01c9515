"""A party's folder without a network, and questions to it: iris, 30 private rows, 30 public ones."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.fedridge import FedRidge, SumRequest
from limbeck.algorithms.fedvote import FedVote, VoteRequest
from limbeck.consortium.joining import Join
from limbeck.data.sets import load
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.envelopes import RequestEnvelope, Terms
from limbeck.protocol.messages import Message
from limbeck.protocol.rows import content_hash

IRIS = load("iris")
PUBLIC = IRIS.x[::5].astype(np.float32)
PLAIN = FedKT(partitions=1, subsets=2)
NOISY = FedKT(partitions=1, subsets=2, privacy=Privacy("L1", epsilon=2.0))
PRIVATE = FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=2.0))
SUMS = FedRidge(privacy=Privacy("L2", epsilon=2.0))
NOISY_VOTES = FedVote(partitions=1, subsets=2, privacy=Privacy("L1", epsilon=2.0))
PARTIES = 3
SUBSET = {"rounds": 1, "start": "none", "sampled": 5, "population": 30}
SETTINGS = 'data = "private.npz"\npublic = "public.npz"\n{more}\n[model]\nname = "{model}"\n{agree}'
AGREE = '[[agree]]\nalgorithm = "fedkt"\n'
AGREE_VOTES = '[[agree]]\nalgorithm = "fedvote"\n'
AGREE_SUMS = '[[agree]]\nalgorithm = "fedridge"\n'
AGREE_ALL = AGREE + AGREE_VOTES + AGREE_SUMS
TOO_MUCH = "the run would spend more than this party's owner allows"
CANNOT = "this party cannot answer; its own log has the reason"


def make(home: Path) -> Path:
    join = Join(
        *("a", 0, "localhost:9443", "-----BEGIN CERTIFICATE-----", content_hash(PUBLIC), ["0", "1", "2"], None, False),
        {"name": "fedkt"},
    )
    (home / "join.json").write_text(join.to_json())
    put_rows(home)
    np.savez(home / "public.npz", x_train=PUBLIC, y_train=IRIS.y[::5])
    write_settings(home)
    return home


def put_rows(home: Path, x: Any = IRIS.x[2::5], y: Any = IRIS.y[2::5]) -> None:
    np.savez(home / "private.npz", x_train=x, y_train=y)


def write_settings(home: Path, more: str = "", agree: str = AGREE_ALL, model: str = "decision-tree") -> None:
    """Three algorithms are agreed to; without a budget, unless `more` has one."""
    limit = "" if "budget" in more else "unprotected = true\n"
    (home / "party.toml").write_text(SETTINGS.format(more=limit + more, agree=agree, model=model))


def invitation(algorithm: Any) -> dict[str, Any]:
    """An algorithm as a join file holds it."""
    return {"name": algorithm.name, **json.loads(json.dumps(asdict(algorithm)))}


def honest(method: Any) -> Message:
    """What the server asks first."""
    if isinstance(method, FedKT):
        return TrainStudents()
    if isinstance(method, FedVote):
        return VoteRequest()
    features = method.features.fit(PUBLIC, 1)
    return SumRequest(features.kind, features.pack())


def question(method: Any = PLAIN, request: Message | None = None, turn: int = 0, **changes: Any) -> RequestEnvelope:
    about: dict[str, Any] = {"algorithm": method.name, "parameters": json.loads(json.dumps(asdict(method)))}
    shared = {"parties": PARTIES, "seed": 1, "classes": ["0", "1", "2"], "public": content_hash(PUBLIC)}
    fields = {
        "run": "run",
        "party": 0,
        **{k: changes.pop(k) for k in ("run", "party", "counted", "after") if k in changes},
    }
    terms = Terms(**{**about, **shared, **changes})
    data = encode(request or honest(method), Header(turn, terms.public))
    return RequestEnvelope(turn=turn, terms=terms, request=data, **fields)


def rows(home: Path) -> list[tuple[str, str]]:
    """The runs and sites of a ledger's releases."""
    path = home / "ledger.sqlite"
    return [(run, row.site) for _, run, row in read_ledger(path)] if path.exists() else []
