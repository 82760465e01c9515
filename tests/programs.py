"""A consortium of real programs on this machine: a server, parties, and ways to harm them."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.data.sets import load
from limbeck.privacy.ledger import read_ledger

LIMBECK = [sys.executable, "-m", "limbeck"]
SLOW_MODEL = """
import sys, time
from sklearn.tree import DecisionTreeClassifier

fit = DecisionTreeClassifier.fit

def slowly(self, X, y, **more):
    if sys.argv[0] == "-c":  # where a question is answered, not in the smoke test
        open("{marker}", "a").write("x")
        time.sleep({seconds})
    return fit(self, X, y, **more)

def slow():
    DecisionTreeClassifier.fit = slowly
    return DecisionTreeClassifier()
"""


class Consortium:
    """A server's folder and its parties' folders under one roof; programs end with `close`."""

    def __init__(self, home: Path, parties: Sequence[str] = ("a", "b", "c"), deadline: float = 60.0) -> None:
        self.home, self.parties = home, list(parties)
        self.server = home / "server"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.run_limbeck("server", "init", self.server, "--host", "127.0.0.1", "--port", free_port())
        self.experiment(deadline=deadline)

    def experiment(
        self,
        algorithm: str = 'name = "fedkt"\npartitions = 1\nsubsets = 2',
        deadline: float = 60.0,
        quorum: int | None = None,
        more: str = "",
        name: str = "experiment",
        noise: str = "simulated",
    ) -> Path:
        """Iris, 30 public rows; noise from a seed, so that a run can be compared with one in one process."""
        iris = load("iris")
        np.savez(self.server / "public.npz", x_train=iris.x[::5], y_train=iris.y[::5])
        np.savez(self.server / "test.npz", x_train=iris.x[1::5], y_train=iris.y[1::5])
        file = self.server / f"{name}.toml"
        file.write_text(
            f'seed = 3\nnoise = "{noise}"\ndeadline = {float(deadline)}\n'
            + (f"quorum = {quorum}\n" if quorum else "")
            + more
            + '\n[data]\npublic = "public.npz"\nclasses = ["0", "1", "2"]\ntest = "test.npz"\n'
            '[model]\nname = "decision-tree"\n[algorithm]\n' + algorithm + "\n"
        )
        return file

    def rows(self, party: str) -> tuple[Any, Any]:
        """A party's own: every fifth row from its place on."""
        iris, place = load("iris"), 2 + self.parties.index(party)
        return iris.x[place::5], iris.y[place::5]

    def write_settings(self, party: str, **settings: Any) -> Path:
        """Invite, init and admit a party, and say in its party.toml where its rows are."""
        folder = self.home / party
        self.run_limbeck("server", "invite", self.server, party)
        self.run_limbeck("party", "init", folder, self.server / "invitations" / f"{party}.json")
        self.run_limbeck("server", "admit", self.server, folder / f"{party}.pub")
        x, y = self.rows(party)
        np.savez(folder / "private.npz", x_train=x, y_train=y)
        np.savez(folder / "public.npz", **np.load(self.server / "public.npz"))
        self.settings(party, **settings)
        return folder

    def settings(
        self,
        party: str,
        model: str = 'name = "decision-tree"',
        agree: str = 'algorithm = "fedkt"',
        more: str = "",
        simulation: bool = True,
    ) -> None:
        """A simulation, so that a run can be compared with one in one process; without a budget unless `more` has one."""
        limit = "" if "budget" in more else "unprotected = true\n"
        (self.home / party / "party.toml").write_text(
            f'data = "private.npz"\npublic = "public.npz"\nsimulation = {str(simulation).lower()}\n{limit}{more}\n'
            f"[model]\n{model}\n[[agree]]\n{agree}\n"
        )

    def slow(self, party: str, seconds: float) -> Path:
        """A model that takes its time; the file that it leaves when it has begun."""
        marker = self.home / party / "began"
        (self.home / party / "own_slow.py").write_text(SLOW_MODEL.format(marker=marker, seconds=seconds))
        self.settings(party, model='name = "python:own_slow:slow"')
        return marker

    def run_limbeck(self, *words: object, check: bool = True) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run([*LIMBECK, *map(str, words)], capture_output=True, text=True, timeout=180, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    def start(self, name: str, *words: object) -> "subprocess.Popen[bytes]":
        log = open(self.home / f"{name}.log", "ab")  # noqa: SIM115
        self.running[name] = subprocess.Popen([*LIMBECK, *map(str, words)], stdout=log, stderr=log)
        return self.running[name]

    def serve(self) -> None:
        self.start("serve", "server", "start", self.server)
        self.until(lambda: "listening" in self.log("serve"))

    def start_parties(self, *parties: str) -> None:
        for party in parties:
            self.start(party, "party", "start", self.home / party)
        for party in parties:
            self.until(lambda party=party: "connected" in self.log(party), 90)  # type: ignore[misc]

    def run(self, file: Path, *more: str, check: bool = True) -> dict[str, Any]:
        done = self.run_limbeck("server", "run", self.server, file, "--json", *more, check=check)
        summary: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
        return summary

    def lead(self, file: Path, *more: str) -> "subprocess.Popen[bytes]":
        return self.start("lead", "server", "run", self.server, file, *more)

    def kill(self, name: str) -> None:
        """SIGKILL, as real as can be."""
        program = self.running.pop(name)
        program.send_signal(signal.SIGKILL)
        program.wait()

    def log(self, name: str) -> str:
        path = self.home / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def answers(self, party: str) -> list[tuple[str, int]]:
        """Which questions a party has answered."""
        path = self.home / party / "answers.sqlite"
        if not path.exists():
            return []
        with sqlite3.connect(path) as database:
            return database.execute("SELECT run, turn FROM answers ORDER BY rowid").fetchall()

    def releases(self, party: str) -> int:
        """How many rows a party's ledger has of its own."""
        path = self.home / party / "ledger.sqlite"
        if not path.exists():
            return 0
        return sum(row.site != "server" for _, _, row in read_ledger(path))

    def until(self, ready: Callable[[], object], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, {name: self.log(name)[-2000:] for name in [*self.running]}
            time.sleep(0.05)

    def close(self) -> None:
        for program in self.running.values():
            program.send_signal(signal.SIGCONT)
            program.send_signal(signal.SIGTERM)
        for program in self.running.values():
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()


def children(program: int) -> list[int]:
    """The processes that a program has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == program:
            found.append(int(path.parent.name))
    return found


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
