"""A consortium without a network: the server's engine calls the parties' answering directly, in one process."""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.consortium import answering, coordinator, party, server
from limbeck.consortium.checking import check
from limbeck.consortium.experiment import features_file
from limbeck.consortium.party import PartyFolder
from limbeck.consortium.server import ServerFolder
from limbeck.data.sets import load
from limbeck.engines.flower import engine
from limbeck.engines.flower.coordinator import Presence
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.envelopes import RequestEnvelope

IRIS = load("iris")
PARTIES = ("a", "b", "c")
AGREED = ("fedkt", "fedvote", "fedkd", "fedridge", "evaluation")
EXPERIMENT = """seed = 3
noise = "{noise}"
deadline = {deadline}
{quorum}
[data]
public = "public.npz"
classes = ["0", "1", "2"]
[model]
name = "decision-tree"
[algorithm]
{algorithm}
"""


class DirectControl:
    """A SuperLink that knows which parties are connected."""

    def __init__(self, folder: ServerFolder, connected: set[str]) -> None:
        self.folder, self.connected = folder, connected

    def presences(self) -> list[Presence]:
        members = self.folder.admitted.values()
        return [Presence(m.index, str(m.key).encode(), m.name in self.connected, "once") for m in members]

    def close(self) -> None:
        pass


class DirectConnection:
    """Questions are answered at once, in this process."""

    def __init__(self, control: DirectControl) -> None:
        self.control, self.posted = control, list[tuple[str, bytes]]()

    def post(self, node: int, data: bytes, lifetime: float) -> str:
        self.posted.append((f"{node}", data))
        return f"{node}"

    def collect(self, posted: Mapping[str, int], max_bytes: int) -> Iterator[tuple[str, bytes, str]]:
        due, self.posted = self.posted, []
        for number, data in due:
            question = RequestEnvelope.decode(data)
            home = self.control.folder.path.parent / PARTIES[question.party]
            yield number, answering.answer(PartyFolder(home), question).encode(), ""

    def close(self, completed: bool) -> None:
        pass


class DirectConsortium:
    """A server's folder, and three parties with rows of iris.

    Parameters
    ----------
    home : Path
        Folder of all of them.
    patched : MonkeyPatch
        Replaces the network.
    """

    suffix = ".npz"
    more = ""  # lines of party.toml

    def __init__(self, home: Path, patched: pytest.MonkeyPatch) -> None:
        server.init(home / "server", ["localhost"], "127.0.0.1", 1)
        self.home, self.folder, self.connected = home, ServerFolder(home / "server"), set(PARTIES)
        control = DirectControl(self.folder, self.connected)
        patched.setattr(ServerFolder, "control", lambda folder: control)
        patched.setattr(ServerFolder, "sync", lambda folder, control: None)
        patched.setattr(engine, "Connection", DirectConnection)
        patched.setattr(engine, "POLL", 0.01)
        patched.setattr(answering, "try_out", lambda models, x, classes, task: None)
        patched.setattr(coordinator, "smoke_test", lambda model, shape, classes: None)
        patched.setattr("limbeck.models.smoke_test.smoke_test", lambda model, shape, classes: None)
        self.write_public(self.folder.path)

    def experiment(self, algorithm: str, name: str = "experiment", quorum: str = "", **settings: Any) -> Path:
        file = self.folder.path / f"{name}.toml"
        shown = {"noise": "simulated", "deadline": 0.3, "quorum": quorum, **settings}
        file.write_text(EXPERIMENT.format(algorithm=algorithm, **shown))
        return file

    def admit(self, *names: str, budget: str = "unprotected = true", simulation: bool = True) -> None:
        """Make folders for parties of the experiment, which agree to its algorithm."""
        for name in names:
            home = self.home / name
            party.init(home, self.folder.invite(name))
            features = features_file(self.folder.path / "experiment.toml")
            if features.exists():
                shutil.copy(features, home / "features.safetensors")
            self.folder.admit(home / f"{name}.pub")
            self.write_public(home)
            self.write_rows(name)
            agree = "".join(f'[[agree]]\nalgorithm = "{each}"\n' for each in AGREED)
            (home / "party.toml").write_text(
                f'data = "private{self.suffix}"\npublic = "public{self.suffix}"\nfeatures = "features.safetensors"\nsimulation = {str(simulation).lower()}\n{self.more}{budget}\n'
                f'[model]\nname = "decision-tree"\n{agree}'
            )
            check(PartyFolder(home))

    def write_public(self, folder: Path) -> None:
        np.savez(folder / "public.npz", x_train=IRIS.x[::5], y_train=IRIS.y[::5])

    def write_rows(self, name: str) -> None:
        x, y = (rows[1 + PARTIES.index(name) :: 5] for rows in (IRIS.x, IRIS.y))
        own = y != PARTIES.index(name)  # each lacks a class, and b has wrong labels: it matters who takes part
        self.put_rows(name, x[own], (y[own] + (name == "b")) % 3)

    def put_rows(self, name: str, x: Any, y: Any) -> None:
        np.savez(self.home / name / "private.npz", x_train=x, y_train=y)

    def correct_rows(self, name: str, x: Any, y: Any) -> None:
        """Other rows, which the owner checks by starting the party again."""
        time.sleep(0.01)
        self.put_rows(name, x, y)
        check(PartyFolder(self.home / name))

    def released(self, name: str) -> list[tuple[str, str, str]]:
        """Rows of a party's ledger with noise or without protection: run, site and what."""
        path = self.home / name / "ledger.sqlite"
        rows = read_ledger(path) if path.exists() else []
        return [(run, row.site, row.what) for _, run, row in rows if row.mechanism != "post-processing"]

    def model(self, run: str) -> bytes:
        return (self.folder.path / "runs" / run / "model.onnx").read_bytes()

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder.path / "runs").iterdir())
