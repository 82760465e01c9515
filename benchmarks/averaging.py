"""A round of FedAvg on two cores, and the start of a run, beside a plain program that two processes run.

LIMBECK_DATA=FOLDER python benchmarks/averaging.py

MNIST: 10 clients, FedKT's CNN, one local epoch in batches of 32. Digits: 100 clients with a linear network. A round is
everything between two requests: training, messages, checks, the ledger and the average. The start is the time of a
whole `limbeck run` of one round, without this round.
"""

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from measured import Measured, best, data_folder, show
from plain_averaging import Build, Client, PlainAveraging
from sklearn.datasets import load_digits
from torch import nn

import limbeck as lb
from limbeck.engines.in_process import InProcess
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.networks import cnn
from limbeck.models.trainers import trainer_for
from limbeck.protocol.learning import Model
from limbeck.protocol.rows import Rows

BATCH, TURNS = 32, 3
RECIPE = lb.Recipe(epochs=1, batch=BATCH, weight_decay=1e-6)
EXPERIMENT = """
data = { name = "mnist", parties = 10, public = { from = "test", share = 0.5 }, test = { from = "test", share = 0.5 } }
model = { name = "cnn", mean = 0.1307, std = 0.3081 }
algorithm = { name = "fedavg", rounds = 1, local = { epochs = 1, batch = 32, weight_decay = 1e-6 } }
"""


def measure() -> Iterator[Measured]:
    folder = data_folder("mnist.npz")
    with np.load(folder / "mnist.npz") as stored:
        x, y = stored["x_train"].astype(np.float32) / 255, stored["y_train"].astype(np.int64)
    ours, plain = rounds(split(x, y, 10), model_from({"name": "cnn", "mean": 0.1307, "std": 0.3081}), mnist_network, 2)
    yield Measured("FedAvg on MNIST, 10 clients: a round", ours, "s", "plain torch, two processes", plain, 1.0)
    yield Measured("FedAvg on MNIST: start of limbeck run", start() - ours, "s", at_most=2.0)
    x, y = load_digits(return_X_y=True)
    clients = split((x / 16).astype(np.float32), y.astype(np.int64), 100)
    ours, plain = (1e3 * seconds for seconds in rounds(clients, lb.TorchModel(linear, RECIPE), digits_network, 30))
    yield Measured("FedAvg on digits, 100 clients: a round", ours, "ms", "plain torch, two processes", plain, 0.4)


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(shape[0], classes)


def digits_network() -> nn.Module:
    return linear((64,), 10)


def mnist_network() -> nn.Module:
    return cnn((1, 28, 28), 10, 0.1307, 0.3081)


def split(x: np.ndarray, y: np.ndarray, parties: int) -> list[Client]:
    """Rows of each client, at random."""
    order = np.random.default_rng(0).permutation(len(x))
    return [(x[rows], y[rows]) for rows in np.array_split(order, parties)]


def rounds(clients: Sequence[Client], model: Model, build: Build, count: int) -> tuple[float, float]:
    """Shortest round of Limbeck and of the plain program, in turns of `count` rounds each."""
    images = clients[0][0].ndim == 3
    plain = PlainAveraging(build, [(x[:, None] if images else x, y) for x, y in clients], BATCH)
    plain.round()
    engine = engine_of(clients, model, count * TURNS + 1)
    began, ours, theirs = math.inf, [], []

    def after_each_request(_: object) -> None:
        """The plain program has its turn after so many rounds of Limbeck."""
        nonlocal began
        if engine.traffic.exchanges[-1].request == "TrainRequest":
            ours.append(time.perf_counter() - began)
        if len(ours) % count == 0:
            theirs.append(best([plain.round], count)[0])
        began = time.perf_counter()

    engine.watch = after_each_request
    engine.run()
    plain.close()
    return min(ours[1:]), min(theirs)


def engine_of(clients: Sequence[Client], model: Model, count: int) -> InProcess:
    """Engine for so many rounds of FedAvg, as `lb.run` makes it."""
    federation = Federation(
        algorithm=lb.FedAvg(rounds=count, local=RECIPE),
        seed=0,
        classes=np.arange(10),
        private=[Rows(x, y) for x, y in clients],
        public=Rows(clients[0][0][:100], clients[0][1][:100]),
        models=[model] * len(clients),
        server_model=model,
        config={},
    )
    trainer = trainer_for(lb.Training(device="cpu"), [model])
    return InProcess(federation.algorithm, *federation.sites(trainer), trainer)


def start() -> float:
    """Shortest time of a whole run of one round from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mnist.toml")
        file.write_text(EXPERIMENT)
        command = [str(Path(sys.executable).with_name("limbeck")), "run", str(file)]
        run = partial(subprocess.run, command, cwd=folder, check=True, capture_output=True)
        times = []
        for _ in range(TURNS):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    show(measure)
