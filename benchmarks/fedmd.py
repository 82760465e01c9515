"""FedMD's gains: each party's accuracy at its start and its end, and with pooled rows if asked for; mean over seeds.

python benchmarks/fedmd.py examples/fedmd_any_model.toml --seeds 5 [--set KEY=VALUE ...]
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckWarning
from limbeck.experiments.run import run_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    args = parser.parse_args()
    warnings.simplefilter("ignore", LimbeckWarning)
    records = [run_file(args.file, [*args.settings, f"seed={seed}"]).record for seed in range(args.seeds)]
    start, end = (np.mean([record.curve[at]["accuracy"] for record in records], axis=0) for at in (0, -1))
    print(f"{args.file.stem} {' '.join(args.settings)}: {args.seeds} seeds, {records[0].rounds} rounds")
    print(f"   start {_summary(start)}")
    print(f"   end   {_summary(end)}")
    print(f"   gain  {_summary(end - start)}, mean {100 * (end - start).mean():.1f}")
    if records[0].bounds:
        pooled = np.mean([np.array(record.bounds["pooled"], float) for record in records], axis=0)
        print(f"   pooled {_summary(pooled)}, mean distance {100 * (pooled - end).mean():.1f}")
    up = np.mean([record.bytes["up"] for record in records])
    print(f"   bytes up {up:.0f}, seconds {np.mean([record.timing['seconds'] for record in records]):.1f}", flush=True)


def _summary(values: Any) -> str:
    return " ".join(f"{100 * value:5.1f}" for value in values)


if __name__ == "__main__":
    main()
