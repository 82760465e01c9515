"""So many organisations on one machine, each a program of its own over TLS: time and memory of a one-shot run.

    python benchmarks/network.py [PARTIES]

Beside it the same federation in one process, in the same call: what the network costs.
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms.fedvote import FedVote
from limbeck.data.sets import load
from limbeck.experiments.run import run

LIMBECK = [sys.executable, "-m", "limbeck"]
AGREED = 'algorithm = "fedvote"\n'


def main(parties: int) -> None:
    digits = load("digits")
    shares = np.array_split(np.random.default_rng(0).permutation(np.arange(600, len(digits.x))), parties)
    with tempfile.TemporaryDirectory() as where:
        home = Path(where)
        set_up_seconds = _set_up(home, shares)
        running = [_start("server", "start", home / "server")]
        try:
            began = time.perf_counter()
            running += [_start("party", "start", home / f"p{n}") for n in range(parties)]
            _until_all_are_there(home / "server", parties)
            there = time.perf_counter() - began
            summary = _output_of("server", "run", home / "server", home / "server" / "experiment.toml", "--json")
            took = json.loads(summary)
            memory = [_memory(program.pid) for program in running]
        finally:
            for program in running:
                program.send_signal(signal.SIGTERM)
            for program in running:
                program.wait(60)
    began = time.perf_counter()
    here = run(
        FedVote(),
        [(digits.x[rows], digits.y[rows]) for rows in shares],
        public=digits.x[:600],
        models="decision-tree",
        classes=list(range(10)),
    )
    alone = time.perf_counter() - began
    print(f"{parties} parties: {set_up_seconds:.1f} s to invite and admit, {there:.1f} s until all were there")
    each, silent = took["seconds"] / parties, took["missing"] or "nobody"
    print(f"run: {took['seconds']:.1f} s, {each:.2f} s a party; silent: {silent}")
    print(f"in one process: {alone:.1f} s; the network is {took['seconds'] / alone:.1f} times as long")
    print(f"bytes: {took['bytes']} over the network, {dict(here.record.bytes)} in one process")
    print(f"memory: server {memory[0] / 2**20:.0f} MB, a party {np.mean(memory[1:]) / 2**20:.0f} MB on average")


def _set_up(home: Path, shares: list[Any]) -> float:
    """All folders, through the library: thirty programs started one after the other say little of the network."""
    from limbeck.consortium import party, server

    digits, began = load("digits"), time.perf_counter()
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
    return time.perf_counter() - began


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
    return subprocess.Popen([*LIMBECK, *map(str, words)], stderr=subprocess.DEVNULL)


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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
