"""Three organisations and a coordinator on this machine, as separate programs over TLS: what `limbeck server` does.

    python examples/network.py FOLDER

Each step is a command that a person would type; docs/deploy.md tells the same for three machines. FedKT at level L2:
every party noises its own teachers' votes before anything leaves, with chance from the operating system.
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

MODELS = {"clinic": "random-forest", "lab": "logistic-regression", "university": "naive-bayes"}
LIMBECK = [sys.executable, "-m", "limbeck"]
PATIENCE = 60.0


def main(folder: Path) -> None:
    began, server = time.perf_counter(), folder / "server"
    shutil.rmtree(folder, ignore_errors=True)
    say("server", "init", server, "--host", "127.0.0.1", "--port", free_port())
    running = [start("server", "start", server)]
    try:
        for party in MODELS:
            say("server", "invite", server, party)
            say("party", "init", folder / party, server / "invitations" / f"{party}.json")
            say("server", "admit", server, folder / party / f"{party}.pub")
        settle(folder, server)
        running += [start("party", "start", folder / party) for party in MODELS]
        say("server", "run", server, server / "experiment.toml")
        say("server", "status", server)
        for party in MODELS:
            [model] = wait_for_models(folder / party)
            say("predict", model, server / "test.npz", "-o", folder / party / "predicted.csv")
        say("party", "ledger", folder / "clinic")
    finally:
        for program in running:
            program.send_signal(signal.SIGTERM)
        for program in running:
            program.wait(PATIENCE)
    print(f"\n{time.perf_counter() - began:.0f} seconds; each party's model lies in {folder}/PARTY/models")


def settle(folder: Path, server: Path) -> None:
    """Each party's rows, where its party.toml says that they are, and the model that it likes."""
    cancer = load("breast-cancer")
    shares = np.array_split(np.random.default_rng(0).permutation(np.arange(290, len(cancer.x))), len(MODELS))
    for (party, model), rows in zip(MODELS.items(), shares, strict=True):
        np.savez(folder / party / "private.npz", x_train=cancer.x[rows], y_train=cancer.y[rows])
        shutil.copy(server / "public.npz", folder / party)
        settings = folder / party / "party.toml"
        text = settings.read_text().replace("private.csv", "private.npz").replace("public.csv", "public.npz")
        settings.write_text(text.replace("random-forest", model))


def say(*words: object) -> None:
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
