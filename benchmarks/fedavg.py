"""A round of FedAvg on MNIST, all clients in one stack against one after the other, on one device, in one run.

python benchmarks/fedavg.py [--rounds 50] [--sequential 3] [--set training.precision=tf32 ...]

10 parties, 10 local epochs, FedKT's CNN (examples/mnist_iterative.toml). Rounds one after the other take long: only
some are run, and seconds a round are compared. The first round, which compiles, is listed by itself.
"""

import argparse
from pathlib import Path
from typing import Any

from limbeck.experiments.run import run_file

FILE = Path(__file__).parents[1] / "examples" / "mnist_iterative.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--sequential", type=int, default=3)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    args = parser.parse_args()
    stacked, accuracy = seconds("stacked", args.rounds, args.settings)
    print(f"stacked:    first round {stacked[0]:.2f} s, then {mean(stacked):.2f} s, {sum(stacked):.1f} s in all")
    print(f"            {100 * accuracy:.2f} % after {args.rounds} rounds", flush=True)
    alone, _ = seconds("sequential", args.sequential, args.settings)
    print(f"sequential: first round {alone[0]:.2f} s, then {mean(alone):.2f} s")
    whole = alone[0] + mean(alone) * (args.rounds - 1)
    faster = f"{whole / sum(stacked):.1f} times faster; a round {mean(alone) / mean(stacked):.1f} times"
    print(f"{args.rounds} rounds: {faster}")


def seconds(trainer: str, rounds: int, settings: list[str]) -> tuple[list[float], float]:
    """Of each round, and the accuracy at the end."""
    own = [f"training.trainer={trainer}", f"algorithm.rounds={rounds}"]
    record: Any = run_file(FILE, [*own, *settings]).record
    summary = [step["seconds"] for step in record.timing["requests"] if step["request"] == "TrainRequest"]
    return summary, record.metrics.accuracy


def mean(rounds: list[float]) -> float:
    later = rounds[1:] or rounds
    return sum(later) / len(later)


if __name__ == "__main__":
    main()
