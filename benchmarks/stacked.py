"""Networks stacked against networks one after the other, on one device, in one run.

python benchmarks/stacked.py cnn        FedKT's CNN, batch 32, stacks of 1, 10, 20, 50 and 100
python benchmarks/stacked.py resnet-8   FedKD's ResNet-8, batch 16, 20 networks on 2 500 rows each
python benchmarks/stacked.py clients    10 CNNs from the same weights, 10 epochs on 600 rows each: a round of FedAvg
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

from limbeck.models.device import Device
from limbeck.models.jobs import Fit, Refit
from limbeck.models.named import model_from
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.torch import FittedTorch, TorchModel
from limbeck.protocol.recipe import Recipe

CLASSES = 10
SETTINGS = {
    "cnn": ("cnn", (28, 28), 3200, Recipe(batch=32, weight_decay=1e-6)),
    "clients": ("cnn", (28, 28), 600, Recipe(epochs=10, batch=32)),
    "resnet-8": ("resnet-8", (32, 32, 3), 2500, Recipe(batch=16, optimizer="sgd", weight_decay=3e-4)),
}


def fits(
    name: str, row: tuple[int, ...], rows: int, recipe: Recipe, count: int, start: bytes | None
) -> list[Fit | Refit]:
    rng = np.random.default_rng(0)
    model = model_from({"name": name})
    assert isinstance(model, TorchModel)
    data = [(rng.random((rows, *row), dtype=np.float32), rng.integers(0, CLASSES, rows)) for _ in range(count)]
    return [Refit(model, x, y, start, recipe) if start else Fit(model, x, y, recipe) for x, y in data]


def sequential(jobs: Sequence[Fit | Refit], device: Device) -> float:
    """Seconds for the jobs, best of two."""
    trainer, times = SequentialTrainer(device), []
    for _ in range(2):
        began = time.perf_counter()
        trainer.run(jobs, CLASSES, range(len(jobs)))
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SETTINGS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", default="always", choices=["always", "never"])
    parser.add_argument("--depths", type=int, nargs="+")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    name, row, rows, recipe = SETTINGS[args.what]
    device = Device(args.device, args.precision)
    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} cores"
    print(f"torch {torch.__version__}, {machine}, {args.precision}, compile: {args.compile}")
    start = None
    if args.what == "clients":
        model = model_from({"name": name})
        assert isinstance(model, TorchModel)
        first = model.fit(np.random.default_rng(1).random((20, *row), dtype=np.float32), np.arange(20) % 10, CLASSES, 0)
        assert isinstance(first, FittedTorch)
        start = first.weights()
    short = Recipe(**{**{k: getattr(recipe, k) for k in recipe.__slots__}, "epochs": 2})
    [alone] = fits(name, row, rows, short, 1, start)
    steps = 2 * -(-rows // recipe.batch)
    plain = sequential([alone], device) / steps
    print(f"sequential, {steps} steps: {plain * 1e3:.3f} ms a step and network")
    depths = args.depths or {"cnn": [1, 10, 20, 50, 100], "clients": [10], "resnet-8": [20]}[args.what]
    longer = Recipe(**{**{k: getattr(recipe, k) for k in recipe.__slots__}, "epochs": args.epochs})
    for depth in depths:
        trainer = StackedTrainer(device, SequentialTrainer(device), args.compile)
        trainer.run(fits(name, row, rows, longer, depth, start), CLASSES, range(depth))
        [note] = trainer.stacks
        each = note["seconds"]["train"] / note["network_steps"]
        prepared, finished = note["seconds"]["prepare"], note["seconds"]["finish"]
        print(
            f"stack of {depth:3d}: {each * depth * 1e3:8.3f} ms a step, {each * 1e3:8.4f} ms a step and network, "
            f"{plain / each:6.1f} times faster; prepared in {prepared:.1f} s, finished in {finished:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
