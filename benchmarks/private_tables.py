"""FedKT's Tables 15 and 16 on Adult, heterogeneous: the paper's numbers beside ours, by our and by better mechanisms.

Laplace noise at the paper's gamma; Gumbel, Gaussian and Confident-GNMax at the epsilon that the paper prints for it.
Needs adult_a9a.npz in the folder that LIMBECK_DATA names. Finished runs are stored in the folder named on the command
line (default: results).
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from limbeck.experiments.compare import compare
from limbeck.experiments.plan import ComparedMethod, plan
from limbeck.experiments.results_folder import Results
from limbeck.privacy.accountants import epsilon_by
from limbeck.privacy.events import DpEvent
from limbeck.privacy.mechanisms import Laplace
from limbeck.progress import Watcher

EXAMPLE = Path(__file__).parent.parent / "examples" / "adult.toml"
SEEDS = 5
HOLD_OUT = 8_140
SHARES = (0.001, 0.005, 0.01)
TABLES = {  # level: gamma -> (printed epsilon, printed accuracy) for each share
    "L1": {
        0.04: ((0.64, 71.3), (2.56, 76.8), (4.73, 80.2)),
        0.06: ((0.96, 75.7), (3.64, 77.6), (5.78, 80.2)),
        0.08: ((1.23, 76.0), (4.25, 76.3), (7.0, 80.3)),
    },
    "L2": {
        0.04: ((1.13, 76.1), (2.56, 76.5), (3.72, 78.5)),
        0.05: ((1.32, 76.1), (3.24, 79.0), (4.76, 79.2)),
        0.06: ((1.96, 76.2), (3.93, 78.5), (5.79, 79.4)),
    },
}
SETTINGS = {
    "L1": ["data.parties=50", "algorithm.partitions=1", "algorithm.subsets=5"],
    "L2": ["data.parties=20", "data.split.min_rows=25", "algorithm.partitions=1", "algorithm.subsets=25"],
}
BETTER = ("gumbel", "gaussian", "confident-gaussian")


def main(folder: Path) -> None:
    results = Results(folder)
    for level, gammas in TABLES.items():
        settings = [
            (g, int(share * HOLD_OUT), *printed)
            for g, row in gammas.items()
            for share, printed in zip(SHARES, row, strict=True)
        ]
        methods = [method for g, k, epsilon, _ in settings for method in _methods(level, g, k, epsilon)]
        planned = plan(EXAMPLE, methods, seeds=SEEDS, settings=SETTINGS[level])
        compare(planned, results, watch=Watcher(Console(stderr=True), "running", "cell"))
        lines = {line.method: line for line in planned.lines}
        print(f"\n{level}: FedKT-L0 on all public rows {_summary(lines['fedkt'], results)}\n")
        print(
            "| gamma | queries | printed: epsilon, accuracy | paper's accountant | best | laplace | "
            + " | ".join(BETTER)
            + " |"
        )
        print("|---" * (6 + len(BETTER)) + "|")
        for g, k, epsilon, accuracy in settings:
            laplace, *others = [lines[method] for method in _methods(level, g, k, epsilon)]
            runs = [_summary(line, results) for line in (laplace, *others)]
            moments = epsilon_by("moments", [DpEvent(Laplace(g), k)], 1e-5)
            best = _epsilon(laplace, results)
            print(f"| {g} | {k} | {epsilon}, {accuracy} % | {moments:.2f} | {best:.2f} | {' | '.join(runs)} |")


def _methods(level: str, gamma: float, queries: int, epsilon: float) -> list[str]:
    start = f"fedkt:queries={queries}:privacy.level={level}:privacy.mechanism="
    return [f"{start}laplace:privacy.gamma={gamma}", *(f"{start}{name}:privacy.epsilon={epsilon}" for name in BETTER)]


def _summary(line: ComparedMethod, results: Results) -> str:
    """Median accuracy and balanced accuracy over the seeds that ran, in percent."""
    found = [result.metrics for run in line.runs if (result := results.find(run.key)) and result.metrics]
    if not found:
        return "–"
    lacking = f" ({len(found)} of {SEEDS} seeds)" if len(found) < SEEDS else ""
    return (
        f"{_middle([m.accuracy or 0 for m in found])} / {_middle([m.balanced_accuracy or 0 for m in found])}{lacking}"
    )


def _epsilon(line: ComparedMethod, results: Results) -> float:
    """Towards the public; the same at every seed."""
    [epsilon] = {result.epsilon["public"] for run in line.runs if (result := results.find(run.key))}
    assert epsilon is not None
    return epsilon


def _middle(values: Sequence[float]) -> str:
    return f"{100 * median(values):.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
