"""Comparisons: only what is missing runs, shared work changes nothing, and a kill loses nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from limbeck.experiments.compare import compare
from limbeck.experiments.plan import plan
from limbeck.experiments.results_folder import Results
from limbeck.experiments.run import run_file

FILE = """
[data]
name = "digits"
parties = 4
split = { kind = "dirichlet", beta = 0.5, min_rows = 5 }
public = 0.1
test = 0.2
[model]
name = "random-forest"
n_estimators = 10
[algorithm]
name = "fedkt"
"""
METHODS = ["solo", "ensemble", "pate", "fedkt:partitions=1", "fedkt:consistent=false"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(FILE)
    return path


class Counted:
    """A watch that remembers how many runs were to start."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def __call__(self, results: Iterable[Any], total: int) -> Iterable[Any]:
        self.runs.append(total)
        return results


def test_shared_work_gives_what_each_run_alone_gives(file: Path, tmp_path: Path) -> None:
    planned = plan(file, METHODS, seeds=1)
    compare(planned, Results(tmp_path / "r"), processes=1)
    for line in planned.lines:
        name, *parameters = line.method.split(":")
        alone = run_file(file, [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters)], processes=1)
        cached = Results(tmp_path / "r").find(line.runs[0].key)
        assert cached is not None
        assert cached.metrics == alone.metrics
        assert (cached.up, cached.down) == (alone.record.bytes["up"], alone.record.bytes["down"])


@pytest.mark.slow
def test_runs_side_by_side_give_the_same(file: Path, tmp_path: Path) -> None:
    planned = plan(file, METHODS[1:4], seeds=2)
    one, two = (compare(planned, Results(tmp_path / str(n)), processes=n) for n in (1, 2))
    timeless = [[{k: v for k, v in s.figures.items() if k != "seconds"} for s in each] for each in (one, two)]
    assert timeless[0] == timeless[1]


@pytest.mark.slow
def test_only_what_is_missing_runs(file: Path, tmp_path: Path) -> None:
    counted, results = Counted(), Results(tmp_path / "r")
    compare(plan(file, ["solo"], seeds=1), results, 1, counted)
    compare(plan(file, ["solo", "pate"], seeds=2), results, 1, counted)
    compare(plan(file, ["solo", "pate"], seeds=2), results, 1, counted)
    assert counted.runs == [2, 4]


@pytest.mark.slow
def test_mean_and_deviation_are_the_samples(file: Path, tmp_path: Path) -> None:
    [fedkt] = compare(plan(file, seeds=3), Results(tmp_path / "r"), 1)
    values = [run_file(file, [f"seed={seed}"], processes=1).accuracy or 0 for seed in range(3)]
    mean = sum(values) / 3
    assert fedkt.figures["accuracy"].mean == pytest.approx(mean)
    assert fedkt.figures["accuracy"].deviation == pytest.approx((sum((v - mean) ** 2 for v in values) / 2) ** 0.5)
    assert fedkt.epsilon == {"server": None, "parties": None}


def test_a_method_that_cannot_run_reports_why_and_the_others_run(file: Path, tmp_path: Path) -> None:
    fedkt, solo, fails = compare(plan(file, ["solo", "fedkt:subsets=9999"], seeds=2), Results(tmp_path / "r"), 1)
    assert fedkt.note == solo.note == ""
    assert fails.figures == {}
    assert "fewer than 9999 subsets" in fails.note


def test_rows_that_cannot_be_split_are_reported_for_every_method(file: Path, tmp_path: Path) -> None:
    lines = compare(plan(file, ["solo"], ["data.parties=4,900"], seeds=1), Results(tmp_path / "r"), 1)
    assert ["900 parties" in line.note for line in lines] == [False, True, False, True]


LOGGED = """
import os
from dataclasses import dataclass
from typing import ClassVar
from limbeck.algorithms.fedkt import FedKT

@dataclass(frozen=True)
class Logged(FedKT):
    \"\"\"Writes down each time that it is run.\"\"\"
    name: ClassVar[str] = "logged"
    def lead(self, parties, site):
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{site.seed}\\n")
        return super().lead(parties, site)
"""


@pytest.mark.parametrize(
    ("kills", "seeds", "width"),
    [pytest.param(*how, marks=pytest.mark.slow) for how in ((1, 4, 2), (1, 1, 2), (10, 60, 2))],
)
def test_killed_again_and_again_no_run_is_lost_or_run_twice(
    file: Path, tmp_path: Path, kills: int, seeds: int, width: int
) -> None:
    """With one seed the fits of a run are parallel, with more seeds the runs; no process outlives the program."""
    (tmp_path / "logged.py").write_text(LOGGED)
    log = tmp_path / "log"
    log.touch()
    methods = ["python:logged:Logged", "python:logged:Logged:partitions=1", "solo"]
    command = [
        sys.executable,
        "-m",
        "limbeck",
        "compare",
        str(file),
        "--seeds",
        str(seeds),
        "--with",
        ",".join(methods),
    ]
    command += ["--set", "model={name='random-forest', n_estimators=5}", "--processes", str(width)]
    environment = {**os.environ, "LOG": str(log), "PYTHONPATH": str(tmp_path)}
    rng = random.Random(0)
    seen: dict[str, tuple[int, bytes]] = {}
    total = seeds * (1 + len(methods))
    for _ in range(kills):
        running = subprocess.Popen(
            [*command, "--out", "r"],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        until = len(seen) + rng.randint(1, max(1, total // (kills + 2)))
        while len(_runs(tmp_path)) < until and running.poll() is None:
            time.sleep(0.01)
        workers = _children(running.pid)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        time.sleep(1)
        assert not [pid for pid in workers if _is_alive(pid)]
        now = _runs(tmp_path)
        assert seen.items() <= now.items()
        seen = now
    assert len(seen) < total
    logged, cached = log.read_text().split(), {name: json.loads(text) for name, (_, text) in seen.items()}
    tables = []
    for out in ("r", "undisturbed"):
        done = subprocess.run(
            [*command, "--out", out, "--json"], cwd=tmp_path, env=environment, capture_output=True, check=True
        )
        tables.append([{**line, "seconds": 0} for line in json.loads(done.stdout)["lines"]])
        if out == "r":
            again = log.read_text().split()[len(logged) :]
    assert seen.items() <= _runs(tmp_path).items()
    assert len(_runs(tmp_path)) == total
    assert tables[0] == tables[1]
    of_log = [
        each["configuration"]["seed"]
        for each in cached.values()
        if each["configuration"]["algorithm"]["name"] == "logged"
    ]
    for seed in range(seeds):
        assert again.count(str(seed)) == 2 - of_log.count(seed)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _runs(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (folder / "r/runs").glob("[!.]*.json")}
