"""A fresh process for every party and request, as between organisations; nothing stays in memory between requests.

A party's folder has its data: `site.json`, `private.npz`, `public.npz`, `memory.safetensors`. The child reads `request`
and writes `reply` or `refusal`, its memory, and the new rows of the ledger. Children are forked from a process that has
done nothing but imports.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from limbeck.algorithms import algorithm_named
from limbeck.engines.engine import Delivered, Engine, PendingRequest, raise_refusal
from limbeck.engines.fork_server import in_a_fresh_process
from limbeck.engines.respond import respond
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError
from limbeck.imports import name_of
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import decode, encode, pack_memory, unpack_memory
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.release import MemoryLedger, Release
from limbeck.protocol.rows import PublicRows, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Task
from limbeck.tables import from_table

TASK = f"{__name__}:answer_once"
AT_ONCE = 2  # children that run at the same time


class FreshProcess(Engine):
    """Engine that starts one child for each party and request; a child that crashes counts as silent.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm to run.
    server : Site
        The server.
    silos : sequence of Silo
        The parties.
    folder : Path
        Folder for the parties' folders.
    """

    name = "fresh-process"

    def __init__(self, algorithm: Algorithm, server: Site, silos: Sequence[Silo], folder: Path) -> None:
        super().__init__(algorithm, server, silos)
        self.folder = folder
        for silo in self.silos:
            _write_run(self._home(silo), algorithm, silo)

    def deliver(self, pending: PendingRequest) -> list[tuple[int, Delivered]]:
        asked = [silo for silo in self.silos if silo.party in pending.to]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda silo: self._ask(pending, silo), asked))
        raise_refusal([(s, a) for s, a in zip(asked, answers, strict=True) if isinstance(a, LimbeckError)])
        return [(s.party, a) for s, a in zip(asked, answers, strict=True) if isinstance(a, Delivered)]

    def _ask(self, pending: PendingRequest, silo: Silo) -> Delivered | LimbeckError | None:
        home = self._home(silo)
        (home / "request").write_bytes(pending.data)
        in_a_fresh_process(TASK, home, type(silo.model).__module__)
        silo.memory = unpack_memory((home / "memory.safetensors").read_bytes())
        silo.ledger = _ledger(home)
        if (home / "refusal").exists():
            return LimbeckError((home / "refusal").read_text(encoding="utf-8"))
        if not (home / "reply").exists():
            return None
        data = (home / "reply").read_bytes()
        (home / "reply").unlink()
        try:
            return Delivered(cast(Reply, decode(data)[0]), len(data))
        except LimbeckError as error:
            return Delivered(None, len(data), str(error))

    def _home(self, silo: Silo) -> Path:
        return self.folder / f"party-{silo.party}"


def answer_once(home: Path) -> None:
    """In the child: answer the request in the party's folder."""
    try:
        algorithm, silo = _read_run(home)
        request, header = decode((home / "request").read_bytes())
        reply = respond(algorithm, cast(Request[Any], request), header, silo)
    except LimbeckError as error:
        (home / "refusal").write_text(str(error), encoding="utf-8")
        return
    try:
        data = encode(reply, header)
    except Exception:  # a reply may contain anything; an empty message is sent instead
        data = b""
    (home / "memory.safetensors").write_bytes(pack_memory(silo.memory))
    (home / "ledger.json").write_text(json.dumps([asdict(row) for row in silo.ledger.rows]))
    (home / "reply").write_bytes(data)


def _write_run(home: Path, algorithm: Algorithm, silo: Silo) -> None:
    home.mkdir(parents=True, mode=0o700)
    site = {
        "party": silo.party,
        "classes": silo.classes,
        "task": asdict(silo.task),
        "seed": silo.seed,
        "noise": silo.noise,
        "parties": silo.parties,
        "run": silo.run,
        "secret": silo.secret and silo.secret.hex(),
        "name": silo.title,
        "model": dict(silo.model.description),
        "algorithm": name_of(type(algorithm)),
        "parameters": asdict(cast(Any, algorithm)),
    }
    (home / "site.json").write_text(json.dumps(site))
    weight = np.empty(0) if silo.private.weight is None else silo.private.weight
    np.savez(home / "private.npz", x=silo.private.x, y=silo.private.y, weight=weight)
    labels = np.empty(0) if silo.public.y is None else silo.public.y
    np.savez(home / "public.npz", x=silo.public.x, y=labels)
    (home / "memory.safetensors").write_bytes(pack_memory(silo.memory))
    (home / "ledger.json").write_text("[]")


def _read_run(home: Path) -> tuple[Algorithm, Silo]:
    site = json.loads((home / "site.json").read_text())
    private, public = np.load(home / "private.npz"), np.load(home / "public.npz")
    run = RunContext(
        algorithm=from_table(algorithm_named(site["algorithm"]), site["parameters"]),
        public=PublicRows(public["x"], public["y"] if len(public["y"]) else None),
        classes=site["classes"],
        task=Task(**site["task"]),
        seed=site["seed"],
        parties=site["parties"],
        noise=site["noise"],
        name=site["run"],
    )
    silo = run.party(
        site["party"],
        Rows(private["x"], private["y"], private["weight"] if len(private["weight"]) else None),
        model_from(site["model"]),
        PoolTrainer(processes=1),
        _ledger(home),
        site["secret"] and bytes.fromhex(site["secret"]),
        title=site["name"],
        memory=unpack_memory((home / "memory.safetensors").read_bytes()),
    )
    return run.algorithm, silo


def _ledger(home: Path) -> MemoryLedger:
    return MemoryLedger([Release(**row) for row in json.loads((home / "ledger.json").read_text())])
