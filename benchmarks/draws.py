"""FedVote at L1 on Adult with 50 parties: several draws of noise, from the operating system, for each federation.

python benchmarks/draws.py [--epsilons 2.56 4.25 7.0] [--seeds 30 31 32 33 34] [--draws 4]

A seed gives the federation and its teachers; the noise comes from the operating system and differs between runs. Needs
Adult (adult_a9a.npz) in LIMBECK_DATA and the extra `privacy`.
"""

import argparse
from pathlib import Path

import numpy as np

import limbeck as lb

FILE = Path(__file__).parents[1] / "examples" / "skew.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[2.56, 4.25, 7.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[30, 31, 32, 33, 34])
    parser.add_argument("--draws", type=int, default=4)
    args = parser.parse_args()
    for epsilon in args.epsilons:
        found = np.array([[_run(epsilon, seed) for _ in range(args.draws)] for seed in args.seeds])
        accuracy, balanced = np.moveaxis(found, 2, 0)
        between, within = accuracy.mean(axis=1).std(ddof=1), np.sqrt(accuracy.var(axis=1, ddof=1).mean())
        print(
            f"epsilon {epsilon}: median {np.median(accuracy):.1%}, mean {accuracy.mean():.1%} (balanced "
            f"{balanced.mean():.1%}), least {accuracy.min():.1%}; deviation between federations {between:.1%}, between "
            f"draws of one {within:.1%}; {accuracy.size} runs",
            flush=True,
        )


def _run(epsilon: float, seed: int) -> tuple[float, float]:
    settings = [
        "data.parties=50",
        "algorithm.partitions=1",
        f'algorithm.privacy={{level="L1",epsilon={epsilon}}}',
        'noise="secure"',
        f"seed={seed}",
    ]
    metrics = lb.run_file(FILE, settings).record.metrics
    assert metrics is not None
    return metrics.accuracy or 0.0, metrics.balanced_accuracy or 0.0


if __name__ == "__main__":
    main()
