"""FedKD's first step: 20 ResNet-8 on 2 500 CIFAR-10 rows each, batch 16; accuracy and time. Needs cifar10.npz.

python benchmarks/resnets.py --epochs 10 --precision bfloat16 --seeds 0 1 2
Where the file holds fewer than 50 000 training rows, parties share some. `--checkpoint FOLDER` goes on where a run
was interrupted.
"""

import argparse
import os
from pathlib import Path
from statistics import fmean
from zlib import crc32

import numpy as np
import torch

from limbeck.models.device import Device
from limbeck.models.jobs import FitAndVote
from limbeck.models.named import model_from
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.trainer import StackedTrainer

PARTIES, ROWS = 20, 2500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--networks", type=int, default=PARTIES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", default="always", choices=["always", "never", "auto"])
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--every", type=float, default=60.0)
    args = parser.parse_args()
    with np.load(Path(os.environ["LIMBECK_DATA"]) / "cifar10.npz") as arrays:
        x, asked = (arrays[key].astype(np.float32) / 255 for key in ("x_train", "x_test"))
        y, right = arrays["y_train"].astype(np.int64), arrays["y_test"].astype(np.int64)
    recipe = {"epochs": args.epochs, "batch": 16, "optimizer": "sgd", "weight_decay": 3e-4}
    model, device = model_from({"name": "resnet-8", "recipe": recipe}), Device(args.device, args.precision)
    checkpoints = Checkpoints(args.checkpoint, every=args.every) if args.checkpoint else None
    trainer = StackedTrainer(device, SequentialTrainer(device), args.compile, checkpoints)
    for seed in args.seeds:
        order = np.resize(np.random.default_rng(seed).permutation(len(x)), args.networks * ROWS)
        jobs = [FitAndVote(model, x[rows], y[rows], asked) for rows in order.reshape(args.networks, ROWS)]
        votes = trainer.run(jobs, 10, [1000 * seed + i for i in range(args.networks)])
        note = trainer.stacks[-1]
        each = note["seconds"]["train"] / note["network_steps"] * 1e3
        accuracies = [float((vote == right).mean()) for vote in votes]
        votes_checksum = crc32(np.stack(votes).tobytes())
        summary = {phase: round(seconds, 1) for phase, seconds in note["seconds"].items()}
        print(
            f"seed {seed}, {args.precision}, {args.epochs} epochs: {each:.4f} ms a step and network, mean accuracy "
            f"{fmean(accuracies):.4f} (first 10: {fmean(accuracies[:10]):.4f}); {summary}; votes {votes_checksum:08x}",
            flush=True,
        )


if __name__ == "__main__":
    main()
