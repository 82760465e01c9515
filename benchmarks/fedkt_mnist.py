"""FedKT on MNIST at the paper's full setting: 10 parties, s = 2, t = 5, 100 epochs. Needs mnist.npz in LIMBECK_DATA.

python benchmarks/fedkt_mnist.py SEED [SEED ...] [--set KEY=VALUE ...]
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev

from limbeck.experiments.run import run_file

EXPERIMENT = Path(__file__).parent.parent / "examples" / "mnist_full.toml"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--set", dest="settings", action="append", default=["training.compile=always"])
    args = parser.parse_args()
    accuracies = []
    for seed in args.seeds:
        record = run_file(EXPERIMENT, [*args.settings, f"seed={seed}"]).record
        phases = {phase["name"]: phase["seconds"] for phase in record.timing["phases"]}
        stacks = record.timing["training"].get("stacks", [])
        prepare = sum(stack["seconds"]["prepare"] for stack in stacks)
        run = record.timing["seconds"] - phases["data"] - prepare
        assert record.metrics is not None
        accuracies.append(record.metrics.accuracy)
        print(
            f"seed {seed}: run {run:.1f} s; apart from it data {phases['data']:.1f} s, compilation and upload "
            f"{prepare:.1f} s; accuracy {record.metrics.accuracy:.4f}"
        )
        for stack in stacks:
            each = stack["seconds"]["train"] / stack["network_steps"] * 1e3
            told = {phase: round(seconds, 2) for phase, seconds in stack["seconds"].items()}
            print(
                f"   {stack['networks']} networks in {stack['depth']} slots: {each:.4f} ms a step and network; {told}"
            )
        print("   ", phases, flush=True)
    spread = f" ± {stdev(accuracies):.4f}" if len(accuracies) > 1 else ""
    print(f"accuracy over {len(accuracies)} seeds: {fmean(accuracies):.4f}{spread} (the paper: 0.959)")


if __name__ == "__main__":
    main()
