"""Does a large public set stay on disk? `limbeck run` with 1 GB of public rows, 4 parties and 2 processes.

Prints the most memory of its own (`Anonymous` in /proc/PID/smaps_rollup) that any process of the run held.
Linux only; writes 1 GB into a temporary folder:  python benchmarks/memory.py
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, FEATURES, BLOCK = 2_700_000, 100, 100_000
EXPERIMENT = """
[data]
name = "small"
parties = 4
public = { path = "public.npy" }
test = 0.2
[model]
name = "decision-tree"
max_depth = 4
[algorithm]
name = "fedkt"
queries = 0.02
subsets = 2
"""


def make(folder: Path) -> None:
    rng = np.random.default_rng(0)
    public = np.lib.format.open_memmap(folder / "public.npy", "w+", np.float32, (ROWS, FEATURES))
    for start in range(0, ROWS, BLOCK):
        public[start : start + BLOCK] = rng.normal(size=(BLOCK, FEATURES))
    x = rng.normal(size=(6000, FEATURES)).astype(np.float32)
    np.savez(folder / "small.npz", x_train=x, y_train=(x[:, :5].sum(axis=1) > 0).astype(int))
    (folder / "big.toml").write_text(EXPERIMENT)


def own_megabytes(session: int) -> int:
    """The largest share of memory of its own among the processes of a session."""
    sizes = [0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                lines = (process / "smaps_rollup").read_text().splitlines()
                sizes += [int(line.split()[1]) // 1000 for line in lines if line.startswith("Anonymous:")]
        except OSError:
            continue
    return max(sizes)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        command = [sys.executable, "-m", "limbeck", "run", "big.toml", "--json", "--processes", "2"]
        run = subprocess.Popen(
            command,
            cwd=name,
            env={**os.environ, "LIMBECK_DATA": name},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        peak = 0
        while run.poll() is None:
            peak = max(peak, own_megabytes(run.pid))
            time.sleep(0.1)
        size = (Path(name) / "public.npy").stat().st_size / 1e9
    print(f"public rows {size:.2f} GB, exit {run.returncode}, largest process {peak} MB of its own")


if __name__ == "__main__":
    main()
