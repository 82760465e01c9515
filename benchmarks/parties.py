"""Many parties in one process: time and memory a party.

    python benchmarks/parties.py           # 100 and 1 000 parties, beside each other, and 10 000
    python benchmarks/parties.py --wide    # 1 000 that vote on 1 000 000 rows of 100 classes: ten minutes

Each run is a program of its own, which prints its seconds and its largest memory (Linux).
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measured import Measured, show

import limbeck as lb

FLAG = "--wide"
ROWS, COLUMNS, PUBLIC = 20, 8, 500  # of a party, and public ones
SHORT_RUNS, LONG_RUN = (100, 1000), 10_000
ON_DISK = "fedridge with its ledger in a file"
METHODS: dict[str, Any] = {
    "fedridge": lb.FedRidge(privacy=lb.Privacy(level="L2", epsilon=1.0)),
    "fedvote": lb.FedVote(),
    "fedkt": lb.FedKT(partitions=1, subsets=2),
    "wide fedkt": lb.FedKT(partitions=1, subsets=2),
}
METHODS[ON_DISK] = METHODS["fedridge"]
WIDE, QUERIES, CLASSES = {"wide fedkt": 1000}, 1_000_000, 100  # large memory


def measure() -> Iterator[Measured]:
    if FLAG in sys.argv:
        sys.argv.remove(FLAG)
        yield from _wide_runs()
    else:
        yield from _short()
        yield from _long()


def _short() -> Iterator[Measured]:
    few, many = SHORT_RUNS
    for method in ("fedridge", "fedvote", "fedkt"):
        less, more = _in_a_program(method, few), _in_a_program(method, many)
        each = [1000 * found["seconds"] / parties for found, parties in ((more, many), (less, few))]
        yield Measured(f"{method}: a party of {many}", each[0], "ms", f"a party of {few}", each[1], 1.2)
        grown = (more["gigabytes"] - less["gigabytes"]) / (many - few)
        yield Measured(f"{method}: memory of one more party", 1000 * grown, "MB", at_most=1.0)
        yield Measured(f"{method}: bytes that a party sends", more["up"] / many / 1e3, "kB")
    found = _in_a_program(ON_DISK, few)
    yield Measured(f"{ON_DISK}: a party of {few}", 1000 * found["seconds"] / few, "ms")
    yield Measured(f"{ON_DISK}: ledger of a party", found["ledger"] / few / 1e3, "kB")


def _long() -> Iterator[Measured]:
    for method in ("fedridge", "fedvote"):
        found = _in_a_program(method, LONG_RUN)
        yield Measured(f"{method} among {LONG_RUN} parties", found["seconds"], "s", at_most=300)
        yield Measured(f"{method} among {LONG_RUN} parties: memory", found["gigabytes"], "GB", at_most=8)


def _wide_runs() -> Iterator[Measured]:
    for method, parties in WIDE.items():
        found = _in_a_program(method, parties)
        what = f"{method} among {parties} parties, {QUERIES} public rows, {CLASSES} classes"
        yield Measured(what, found["seconds"], "s")
        yield Measured(f"{what}: memory", found["gigabytes"], "GB", at_most=8)


def _in_a_program(method: str, parties: int) -> dict[str, float]:
    command = [sys.executable, __file__, method, str(parties)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def _run(method: str, parties: int) -> None:
    """Run one federation, and print what it took."""
    given = _wide(parties) if method in WIDE else _narrow(parties)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger.sqlite") if method == ON_DISK else None
        began = time.perf_counter()
        run = lb.run(METHODS[method], **given, ledger=ledger, seed=0, noise="simulated", processes=1, progress=False)
        found = {"seconds": time.perf_counter() - began, "up": run.record.bytes["up"]}
        found["ledger"] = ledger.stat().st_size if ledger else 0
    found["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps(found))


def _narrow(parties: int) -> dict[str, Any]:
    """Few rows, columns and classes: what counts is the number of parties."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(PUBLIC + parties * ROWS, COLUMNS)).astype(np.float32)
    y = (x @ rng.normal(size=COLUMNS) > 0).astype(np.int64)
    held = [(x[start : start + ROWS], y[start : start + ROWS]) for start in range(PUBLIC, len(x), ROWS)]
    return {
        "parties": held,
        "public": x[:PUBLIC],
        "models": "naive-bayes",
        "classes": [0, 1],
        "task": "multiclass",
    }


def _wide(parties: int) -> dict[str, Any]:
    """Many public rows and classes; each party has rows of two classes, and a tree of one column."""
    rng = np.random.default_rng(0)
    held = []
    for party in range(parties):
        y = (party + rng.integers(0, 2, ROWS)) % CLASSES
        held.append(((y / CLASSES + rng.normal(0, 0.001, ROWS)).astype(np.float32)[:, None], y))
    return {
        "parties": held,
        "public": rng.random((QUERIES, 1), np.float32),
        "models": {"name": "decision-tree", "max_depth": 2},
        "classes": list(range(CLASSES)),
        "task": "multiclass",
    }


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].isdigit():
        _run(sys.argv[1], int(sys.argv[2]))
    else:
        show(measure)
