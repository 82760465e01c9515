"""A federation by local processes and on a Dask cluster of two workers of this machine; in one run, in turns.

python benchmarks/cluster.py
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from distributed import LocalCluster
from measured import Measured, best, show

import limbeck as lb

PARTIES, ROWS, COLUMNS, CLASSES, PUBLIC, TURNS = 4, 8_000, 50, 5, 2_000, 2
FOREST = {"name": "random-forest", "n_estimators": 30}
NETWORK, ROUNDS = {"name": "torch-mlp", "recipe": {"epochs": 1}}, 5
HERE = "127.0.0.1"


def rows(number: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, COLUMNS)).astype(np.float32)
    return x, (x[:, :CLASSES] + rng.normal(size=(number, CLASSES))).argmax(axis=1)


def counting(port: int) -> tuple[int, list[int]]:
    """Return a port that passes everything on to another one, and the sizes of what is sent there."""
    entrance, sent = socket.create_server((HERE, 0)), list[int]()

    def copy(source: socket.socket, target: socket.socket, sizes: list[int]) -> None:
        with suppress(OSError):
            while data := source.recv(2**20):
                sizes.append(len(data))
                target.sendall(data)
        target.close()

    def accept() -> None:
        while True:
            client, server = entrance.accept()[0], socket.create_connection((HERE, port))
            for ends in ((client, server, sent), (server, client, [])):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return entrance.getsockname()[1], sent


def measure() -> Iterator[Measured]:
    parties = [rows(ROWS, seed) for seed in range(PARTIES)]
    public = rows(PUBLIC, PARTIES)[0]
    size = sum(x.nbytes + y.nbytes for x, y in parties) + public.nbytes

    def run(algorithm: Any, model: Any, **where: Any) -> bytes:
        found = lb.run(algorithm, parties, public=public, models=model, progress=False, **where)
        return found.files()["model.onnx"]

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host=HERE) as cluster:
        port, sent = counting(int(cluster.scheduler_address.rpartition(":")[2]))
        there: dict[str, Any] = {"cluster": f"dask://{HERE}:{port}"}
        fedkt = lb.FedKT(subsets=5), FOREST
        assert run(*fedkt, **there) == run(*fedkt, processes=2)
        times = best([lambda: run(*fedkt, **there), lambda: run(*fedkt, processes=2)], TURNS)
        name = f"{PARTIES} parties with {ROWS} rows on a Dask cluster of two workers"
        yield Measured(f"FedKT, {name}", times[0], "s", "two local processes", times[1], at_most=1.5)
        for title, algorithm, model in (
            ("FedKT (each row is in two subsets)", *fedkt),
            (f"FedAvg, {ROUNDS} rounds", lb.FedAvg(rounds=ROUNDS), NETWORK),
        ):
            sent.clear()
            run(algorithm, model, **there)
            yield Measured(f"{title}, {name}: sent", sum(sent) / 1e6, "MB", "the rows", size / 1e6, at_most=2.5)


if __name__ == "__main__":
    show(measure)
