"""Three organisations and a coordinator on this machine, as separate programs over TLS: what `limbeck server` does.

    python examples/network.py FOLDER

Each step is a command that a person would type; docs/deploy.md does the same with three machines. FedRidge at level L2:
every party adds noise to the sum over its rows before anything leaves, with randomness from the operating system.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from limbeck.data.sets import load

PARTIES = ("clinic", "lab", "university")
LIMBECK = [sys.executable, "-m", "limbeck"]
PATIENCE = 60.0
EXPERIMENT = """# Is a tumour malignant? 150 public rows, and noise at each party.
seed = 0
deadline = 600.0           # seconds that each request waits for replies
quorum = 2                 # fewest parties that must reply

[data]
public = "public.npz"      # the rows that every party gets too
classes = ["0", "1"]
test = "test.npz"

[model]                    # of algorithms that train the final model; fedridge computes it
name = "random-forest"

[algorithm]
name = "fedridge"
privacy = { level = "L2", epsilon = 4.0, delta = 1e-5 }
"""


def main(folder: Path) -> None:
    began, server = time.perf_counter(), folder / "server"
    shutil.rmtree(folder, ignore_errors=True)
    limbeck("server", "init", server, "--host", "127.0.0.1", "--port", free_port())
    (server / "experiment.toml").write_text(EXPERIMENT)
    running = [start("server", "start", server)]
    try:
        for party in PARTIES:
            limbeck("server", "invite", server, party)
            limbeck("party", "init", folder / party, server / "invitations" / f"{party}.json")
            limbeck("server", "admit", server, folder / party / f"{party}.pub")
        prepare_parties(folder, server)
        running += [start("party", "start", folder / party) for party in PARTIES]
        limbeck("server", "run", server, server / "experiment.toml")
        limbeck("server", "status", server)
        for party in PARTIES:
            [model] = wait_for_models(folder / party)
            limbeck("predict", model, server / "test.npz", "-o", folder / party / "predicted.csv")
        limbeck("party", "ledger", folder / "clinic")
    finally:
        for program in running:
            program.send_signal(signal.SIGTERM)
        for program in running:
            program.wait(PATIENCE)
    print(f"\n{time.perf_counter() - began:.0f} seconds; each party has the model in {folder}/PARTY/models")


def prepare_parties(folder: Path, server: Path) -> None:
    """Put each party's rows where its party.toml says that they are."""
    cancer = load("breast-cancer")
    shares = np.array_split(np.random.default_rng(0).permutation(np.arange(290, len(cancer.x))), len(PARTIES))
    for party, rows in zip(PARTIES, shares, strict=True):
        np.savez(folder / party / "private.npz", x_train=cancer.x[rows], y_train=cancer.y[rows])
        shutil.copy(server / "public.npz", folder / party)
        settings = folder / party / "party.toml"
        settings.write_text(
            settings.read_text().replace("private.csv", "private.npz").replace("public.csv", "public.npz")
        )


def limbeck(*words: object) -> None:
    print("\n$ limbeck", *words, flush=True)
    subprocess.run([*LIMBECK, *map(str, words)], check=True)


def start(*words: object) -> "subprocess.Popen[bytes]":
    print("\n$ limbeck", *words, "&", flush=True)
    return subprocess.Popen([*LIMBECK, *map(str, words)])


def wait_for_models(party: Path) -> list[Path]:
    until = time.monotonic() + PATIENCE
    while not (found := list((party / "models").glob("*.onnx"))) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "160")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "network-demo"))
