"""FedKT on MNIST at the paper's full setting: 10 parties, s = 2, t = 5, 100 epochs. Needs mnist.npz in LIMBECK_DATA.

python benchmarks/fedkt_mnist.py SEED [SEED ...] [--set KEY=VALUE ...]
"""

import argparse
import time
from pathlib import Path
from statistics import fmean, stdev

from limbeck.data.own import SplitRows
from limbeck.experiments.clock import Clock
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.overrides import override
from limbeck.experiments.run import federation_of
from limbeck.experiments.splitting import split_rows
from limbeck.models.device import Device
from limbeck.models.jobs import Fit
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.trainers import trainer_for
from limbeck.protocol.recipe import Recipe

EXPERIMENT = Path(__file__).parent.parent / "examples" / "mnist_full.toml"


def sequential(experiment: Experiment, partitioned: SplitRows, device: str) -> float:
    """Seconds a step of one network alone, over 200 steps."""
    rows, trainer = partitioned.private[0], SequentialTrainer(Device(device))
    job = Fit(experiment.model, rows.x[:3200], rows.y[:3200], Recipe(epochs=2, batch=32, weight_decay=1e-6))
    times = []
    for _ in range(2):
        began = time.perf_counter()
        trainer.run([job], 10, [0])
        times.append(time.perf_counter() - began)
    return min(times) / 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--set", dest="settings", action="append", default=["training.compile=always"])
    args = parser.parse_args()
    table, _ = override(read_toml(EXPERIMENT), args.settings)
    experiment = check_table(Experiment, table, str(EXPERIMENT))
    trainer = trainer_for(experiment.training, experiment.models)
    accuracies, plain = [], 0.0
    for seed in args.seeds:
        table, _ = override(read_toml(EXPERIMENT), [*args.settings, f"seed={seed}"])
        experiment, clock = check_table(Experiment, table, str(EXPERIMENT)), Clock()
        known = len(trainer.description.get("stacks", []))
        with clock.phase("data"):
            partitioned = split_rows(experiment)
        plain = plain or sequential(experiment, partitioned, trainer.description["device"])
        clock = Clock(clock.phases)
        record = federation_of(experiment, table, partitioned).run(trainer, clock).record
        stacks = trainer.description.get("stacks", [])[known:]
        prepare = sum(stack["seconds"]["prepare"] for stack in stacks)
        assert record.metrics is not None
        accuracies.append(record.metrics.accuracy or 0.0)
        print(
            f"seed {seed}: run {record.timing['seconds'] - prepare:.1f} s, accuracy {record.metrics.accuracy:.4f}; "
            f"apart from it data {clock.phases[0]['seconds']:.1f} s, compilation and upload {prepare:.1f} s"
        )
        for stack in stacks:
            each = stack["seconds"]["train"] / stack["network_steps"]
            summary = {phase: round(seconds, 2) for phase, seconds in stack["seconds"].items()}
            print(
                f"   {stack['networks']} networks in {stack['depth']} slots: {each * 1e3:.4f} ms a step and network, "
                f"{plain / each:.0f} times faster than sequential; {summary}",
                flush=True,
            )
    print(f"sequential, 200 steps: {plain * 1e3:.3f} ms a step")
    spread = f" ± {stdev(accuracies):.4f}" if len(accuracies) > 1 else ""
    print(f"accuracy over {len(accuracies)} seeds: {fmean(accuracies):.4f}{spread} (the paper: 0.959)")


if __name__ == "__main__":
    main()
