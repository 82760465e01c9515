"""FedKT on MNIST at the paper's full setting in fresh processes, one network alone, and 20 ResNet-8, on a GPU.

LIMBECK_DATA=... python benchmarks/gpu.py      needs a GPU and mnist.npz
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from measured import Measured, data_folder, show

from limbeck.models.device import Device
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.protocol.recipe import Recipe

EXPERIMENT = Path(__file__).parent.parent / "examples" / "mnist_full.toml"
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
STEPS = 200  # of the sequential trainer


def fits(name: str, row: tuple[int, ...], rows: int, recipe: Recipe, count: int) -> list[Fit]:
    rng, model = np.random.default_rng(0), model_from({"name": name})
    return [
        Fit(model, rng.random((rows, *row), dtype=np.float32), rng.integers(0, 10, rows), recipe) for _ in range(count)
    ]


def step(trainer: StackedTrainer, jobs: list[Fit]) -> float:
    """Milliseconds a step and network."""
    trainer.run(jobs, 10, range(len(jobs)))
    note = trainer.stacks[-1]
    return float(note["seconds"]["train"] / note["network_steps"] * 1e3)


def sequential(device: Device, job: Fit) -> float:
    """Milliseconds a step of one network, best of two."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        SequentialTrainer(device).run([job], 10, [0])
        times.append(time.perf_counter() - began)
    return min(times) / STEPS * 1e3


def processes() -> Iterator[Measured]:
    """Two whole runs in fresh processes; before the first one nothing is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: str(Path(folder) / name) for name in CACHES}
        for which, goal in (("first-ever", 45.0), ("second", 20.0)):
            out, began = Path(folder) / which, time.perf_counter()
            command = [sys.executable, "-m", "limbeck", "run", str(EXPERIMENT), "--out", str(out)]
            subprocess.run(command, check=True, capture_output=True, env=os.environ | caches)
            seconds = time.perf_counter() - began
            record = json.loads((out / "record.json").read_text())
            yield Measured(f"FedKT on MNIST, full setting: {which} process, whole", seconds, "s", at_most=goal)
            yield Measured("the run alone, as in its record", record["timing"]["seconds"], "s", "the process", seconds)


def measure() -> Iterator[Measured]:
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")
    data_folder("mnist.npz")
    yield from processes()
    device = Device("cuda")
    trainer = StackedTrainer(device, SequentialTrainer(device))
    cnn = Recipe(epochs=50, batch=32, weight_decay=1e-6)
    plain = sequential(device, fits("cnn", (28, 28), 3200, Recipe(epochs=2, batch=32), 1)[0])
    for count in (1, 20, 100):
        what = f"FedKT's CNN, {count} network{'s' if count > 1 else ''}: a step and network"
        yield Measured(what, step(trainer, fits("cnn", (28, 28), 3200, cnn, count)), "ms", "one after the other", plain)
        if count == 1:
            yield Measured("the same", step(trainer, fits("cnn", (28, 28), 3200, cnn, 1)), "ms", at_most=0.06)
    halves = Device("cuda", "bfloat16")
    trainer = StackedTrainer(halves, SequentialTrainer(halves), "always")
    resnets = fits("resnet-8", (32, 32, 3), 2500, Recipe(epochs=10, batch=16, optimizer="sgd", weight_decay=3e-4), 20)
    found = step(trainer, resnets)
    yield Measured("20 ResNet-8 in bfloat16, compiled: a step and network", found, "ms", at_most=0.30)
    short = Recipe(epochs=2, batch=16, optimizer="sgd", weight_decay=3e-4)
    plain = sequential(halves, fits("resnet-8", (32, 32, 3), STEPS * 8, short, 1)[0])
    yield Measured("the same", found, "ms", "one after the other", plain)


if __name__ == "__main__":
    show(measure)
