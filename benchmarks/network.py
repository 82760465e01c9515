"""Many organisations on one machine, over TLS and the real server: time and memory of a one-shot run.

    python benchmarks/network.py            25 and 100 parties, many in each of a few programs
    python benchmarks/network.py PARTIES    so many parties, each a program of its own (300 MB)

Beside them the same federation in one process, in the same call: what the network costs.
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measured import Measured, show

from limbeck.algorithms.fedvote import FedVote
from limbeck.data.sets import load
from limbeck.experiments.run import run

LIMBECK = [sys.executable, "-m", "limbeck"]
AGREED = 'algorithm = "fedvote"\n'
TOGETHER = 25  # parties in one program
FEW, MANY = 25, 100


@dataclass(frozen=True, slots=True)
class Run:
    """One run over the network, in seconds and bytes."""

    connecting: float
    seconds: float
    missing: int
    traffic: Any
    server: int
    party: float


def over_the_network(shares: list[Any], together: int) -> Run:
    """Set up a consortium, run it, and stop it; so many parties share a program."""
    with tempfile.TemporaryDirectory() as where:
        home = Path(where)
        _set_up(home, shares)
        folders = [str(home / f"p{n}") for n in range(len(shares))]
        groups = [folders[i : i + together] for i in range(0, len(folders), together)]
        running = [_start(*LIMBECK, "server", "start", home / "server")]
        try:
            began = time.perf_counter()
            for group in groups:
                command = (
                    [sys.executable, __file__, "host", *group] if together > 1 else [*LIMBECK, "party", "start", *group]
                )
                running.append(_start(*command))
            _until_all_are_there(home / "server", len(shares))
            connecting = time.perf_counter() - began
            summary = _output_of("server", "run", home / "server", home / "server" / "experiment.toml", "--json")
            took = json.loads(summary)
            memory = [_memory(program.pid) for program in running]
        finally:
            for program in running:
                program.send_signal(signal.SIGTERM)
            for program in running:
                program.wait(60)
    return Run(
        connecting, took["seconds"], len(took["missing"]), took["bytes"], memory[0], sum(memory[1:]) / len(shares)
    )


def in_one_process(shares: list[Any]) -> tuple[float, Any]:
    """Seconds and bytes of the same federation in this process."""
    digits, began = load("digits"), time.perf_counter()
    here = run(
        FedVote(),
        [(digits.x[rows], digits.y[rows]) for rows in shares],
        public=digits.x[:600],
        models="decision-tree",
        classes=list(range(10)),
    )
    return time.perf_counter() - began, dict(here.record.bytes)


def host(folders: list[str]) -> None:
    """In a program of its own: several parties, each in a thread, with their own folder, key and connection."""
    from limbeck.consortium.client_loop import ClientLoop
    from limbeck.consortium.party import PartyFolder

    loops = [ClientLoop(PartyFolder(Path(folder)), lambda line: None) for folder in folders]
    for loop in loops:
        loop.check()

    def stop(*_: Any) -> None:
        for loop in loops:
            loop.stop.set()

    signal.signal(signal.SIGTERM, stop)
    threads = [threading.Thread(target=loop.run) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def shares_of(parties: int) -> list[Any]:
    rows = np.arange(600, len(load("digits").x))
    return np.array_split(np.random.default_rng(0).permutation(rows), parties)


def measure() -> Iterator[Measured]:
    found = {}
    for parties in (FEW, MANY):
        shares = shares_of(parties)
        found[parties] = over_the_network(shares, TOGETHER)
        alone, traffic = in_one_process(shares)
        assert found[parties].missing == 0
        assert found[parties].traffic == traffic
        what = f"FedVote over the network, {parties} parties: the run"
        yield Measured(what, found[parties].seconds, "s", "in one process", alone)
    few, many = found[FEW], found[MANY]
    yield Measured("seconds of a party, of 100", many.seconds / 100, "s", "of 25", few.seconds / 25, at_most=1.3)
    yield Measured(
        "memory of the server, 100 parties", many.server / 2**20, "MB", "25 parties", few.server / 2**20, 1.3
    )
    yield Measured(f"memory of a party, {TOGETHER} in a program", many.party / 2**20, "MB")


def each_alone(parties: int) -> None:
    """Print what parties cost that are programs of their own."""
    shares = shares_of(parties)
    took, (alone, traffic) = over_the_network(shares, 1), in_one_process(shares)
    print(f"{parties} parties: {took.connecting:.1f} s until all were there")
    print(f"run: {took.seconds:.1f} s, {took.seconds / parties:.2f} s a party; silent: {took.missing}")
    print(f"in one process: {alone:.1f} s; the network is {took.seconds / alone:.1f} times as long")
    print(f"bytes: {took.traffic} over the network, {traffic} in one process")
    print(f"memory: server {took.server / 2**20:.0f} MB, a party {took.party / 2**20:.0f} MB")


def _set_up(home: Path, shares: list[Any]) -> None:
    """All folders, through the library: thirty programs started one after the other say little of the network."""
    from limbeck.consortium import party, server

    digits = load("digits")
    server.init(home / "server", ["localhost"], "127.0.0.1", _free_port())
    folder = server.ServerFolder(home / "server")
    np.savez(home / "server" / "public.npz", x_train=digits.x[:600], y_train=digits.y[:600])
    classes = json.dumps([str(n) for n in range(10)])
    (home / "server" / "experiment.toml").write_text(
        f'deadline = 900.0\n[data]\npublic = "public.npz"\nclasses = {classes}\n[model]\nname = "decision-tree"\n'
        '[algorithm]\nname = "fedvote"\n'
    )
    for number, rows in enumerate(shares):
        name = f"p{number}"
        party.init(home / name, folder.invite(name))
        folder.admit(home / name / f"{name}.pub")
        np.savez(home / name / "private.npz", x_train=digits.x[rows], y_train=digits.y[rows])
        (home / name / "party.toml").write_text(
            f'data = "private.npz"\npublic = "{home}/server/public.npz"\nunprotected = true\n'
            '[model]\nname = "decision-tree"\n'
            f"[[agree]]\n{AGREED}"
        )


def _until_all_are_there(server: Path, parties: int) -> None:
    from limbeck.consortium.overview import overview
    from limbeck.consortium.server import ServerFolder

    folder = ServerFolder(server)
    while len(overview(folder).there or ()) < parties:
        time.sleep(0.5)


def _output_of(*words: object) -> str:
    done = subprocess.run([*LIMBECK, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _start(*words: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def _memory(program: int) -> int:
    """Bytes that a program and all that it started hold for themselves."""
    own = 0
    for line in Path(f"/proc/{program}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean", "Private_Dirty")):
            own += 1024 * int(line.split()[1])
    children = Path(f"/proc/{program}/task/{program}/children").read_text().split()
    return own + sum(_memory(int(child)) for child in children)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        host(sys.argv[2:])
    elif sys.argv[1:] and sys.argv[1].isdigit():
        each_alone(int(sys.argv[1]))
    else:
        show(measure)
