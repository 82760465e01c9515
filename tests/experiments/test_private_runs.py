"""Private runs as a program: budgets that hold, ledgers that outlive a kill."""

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FILE = """
noise = "secure"
[data]
name = "breast-cancer"
parties = 6
public = 0.3
test = 0.2
[model]
name = "decision-tree"
[algorithm]
name = "fedkt"
voting = "paper"
queries = 60
subsets = 3
[algorithm.privacy]
level = "L2"
gamma = 0.05
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "e.toml").write_text(FILE)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "limbeck", "run", "e.toml", "--processes", "1", *arguments]


def run(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=here, capture_output=True, text=True, check=False)


def drawn(ledger: Path) -> dict[Any, Any]:
    """What the ledger says was released, with the very labels."""
    if not ledger.exists():
        return {}
    with sqlite3.connect(ledger) as connection:
        try:
            rows = connection.execute("SELECT run, site, turn, number, row, drawn FROM releases").fetchall()
        except sqlite3.OperationalError:  # killed before the table was made
            return {}
    return {row[:4]: row[4:] for row in rows}


def kill_and_restart(here: Path, kills: int, *settings: str) -> None:
    """Kill the run at random moments of its life, most of them while parties release."""
    chance = random.Random(0)
    seen: dict[Any, Any] = {}
    began = time.perf_counter()
    assert run(here, "--out", "whole", *settings).returncode == 0
    lifetime = time.perf_counter() - began
    for _ in range(kills):
        running = subprocess.Popen(
            command("--out", "r", *settings), cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.perf_counter() + chance.uniform(0.3, 0.95) * lifetime
        while time.perf_counter() < until and running.poll() is None and not (here / "r").exists():
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.wait()
        now = drawn(here / "r.ledger.sqlite" if not (here / "r").exists() else here / "r/ledger.sqlite")
        assert seen.items() <= now.items(), "a release was forgotten, or drawn anew"
        seen = now
        if (here / "r").exists():  # it was quicker than the kill: take it back to before its end
            shutil.move(here / "r/ledger.sqlite", here / "r.ledger.sqlite")
            shutil.rmtree(here / "r")
    done = run(here, "--out", "r", *settings)
    assert done.returncode == 0, done.stderr
    assert seen.items() <= drawn(here / "r/ledger.sqlite").items()
    shutil.copy(here / "r/ledger.sqlite", here / "again.ledger.sqlite")
    assert run(here, "--out", "again", *settings).returncode == 0
    assert (here / "again/model.onnx").read_bytes() == (here / "r/model.onnx").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_the_ledger_never_shows_less_than_was_released(here: Path, kills: int) -> None:
    """Secure noise: nothing but the ledger could give the same labels again."""
    kill_and_restart(here, kills)
    assert (here / "r/model.onnx").read_bytes() != (here / "whole/model.onnx").read_bytes()


@pytest.mark.slow
def test_killed_at_random_the_outcome_is_the_same(here: Path) -> None:
    kill_and_restart(here, 10, "--set", "noise=simulated", "--set", "algorithm.privacy.level=L1")
    for name in ("model.onnx", "privacy.md"):
        assert (here / "r" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_a_run_that_cannot_fit_its_budget_is_refused_before_training(here: Path) -> None:
    done = run(here, "--out", "r", "--set", "budget={ epsilon = 0.5, delta = 1e-5 }")
    assert done.returncode == 1
    assert "fitting" not in done.stderr
    assert "this run would bring epsilon towards public to" in done.stderr
    assert "but 0.5 of 0.5 is left" in done.stderr
    assert [path.name for path in here.iterdir()] == ["e.toml"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["algorithm.privacy.level=L1", "budget={ epsilon = 9.0, towards = 'server' }"], "towards server to inf"),
        (["algorithm.privacy={level='L0'}", "budget={ epsilon = 9.0, towards = 'parties' }"], "towards parties to inf"),
        (["algorithm.privacy={level='L2', epsilon=1.0, mechanism='confident-gaussian', check=0.1}"], "no noise keeps"),
    ],
)
def test_what_cannot_be_is_refused_before_training(here: Path, settings: list[str], told: str) -> None:
    done = run(here, "--out", "r", *(part for setting in settings for part in ("--set", setting)))
    assert done.returncode == 1
    assert told in done.stderr
    assert "fitting" not in done.stderr
    assert [path.name for path in here.iterdir()] == ["e.toml"]


def test_comparisons_never_touch_real_noise(here: Path) -> None:
    command = [sys.executable, "-m", "limbeck", "compare", "e.toml", "--seeds", "1"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--set noise=simulated" in done.stderr


def test_classes_are_not_read_off_private_rows_where_noise_is_real(here: Path) -> None:
    for name in ("a", "b", "public"):
        lines = ["age,income", *(f"{i},{'high' if i % 3 else 'low'}" for i in range(40))]
        (here / f"{name}.csv").write_text("\n".join(lines))
    (here / "e.toml").write_text(
        """
[data]
label = "income"
public = { path = "public.csv" }
[model]
name = "decision-tree"
[[party]]
index = 0
data = "a.csv"
[[party]]
index = 1
data = "b.csv"
[algorithm]
name = "fedkt"
voting = "paper"
subsets = 3
privacy = { level = "L2", gamma = 0.1 }
"""
    )
    refused = run(here, "--out", "r")
    assert refused.returncode == 1
    assert "data.classes or data.schema" in refused.stderr
    named = run(here, "--out", "r", "--set", 'data.classes=["high", "low", "none"]')
    assert named.returncode == 0, named.stderr
    assert "operating system's generator" in (here / "r/privacy.md").read_text()
    wrong = run(here, "--out", "w", "--set", 'data.classes=["high", "none"]')
    assert wrong.returncode == 1
    assert "'low'" in wrong.stderr


@pytest.mark.slow
def test_a_kept_ledger_adds_runs_up_until_its_budget_is_spent(here: Path) -> None:
    settings = ["--set", "ledger=book.sqlite", "--set", "budget={ epsilon = 3.5 }"]
    first, same = (run(here, "--out", name, "--json", *settings) for name in ("a", "b"))
    assert first.returncode == same.returncode == 0, first.stderr + same.stderr
    assert (here / "a/model.onnx").read_bytes() == (here / "b/model.onnx").read_bytes()
    assert 2.1 < json.loads(first.stdout)["epsilon"] < 2.2
    codes = [run(here, "--out", f"s{seed}", "--set", f"seed={seed}", *settings) for seed in (1, 2)]
    assert [done.returncode for done in codes] == [0, 1]
    assert "All runs in this ledger together" not in (here / "b/privacy.md").read_text()
    assert "All runs in this ledger together" in (here / "s1/privacy.md").read_text()
    assert "of 3.5 is left" in codes[1].stderr
    told = subprocess.run(
        [sys.executable, "-m", "limbeck", "privacy", "ledger", "book.sqlite"], cwd=here, capture_output=True, text=True
    )
    assert "gumbel 0.05" in told.stdout


@pytest.mark.slow
def test_the_statement_says_what_holds_and_what_does_not(here: Path) -> None:
    assert run(here, "--out", "l2").returncode == 0
    assert run(here, "--out", "l1", "--set", "algorithm.privacy.level=L1", "--set", "noise=simulated").returncode == 0
    assert run(here, "--out", "l0", "--set", "algorithm.privacy.level=L0").returncode == 0
    l2, l1, l0 = ((here / name / "privacy.md").read_text() for name in ("l2", "l1", "l0"))
    assert "The server need not be trusted" in l2
    assert "operating system's generator" in l2
    assert "The server is trusted" in l1
    assert "Bare to the server, from 6 sites: Students (a party's students, one for each partition" in l1
    assert "This was a simulation" in l1
    assert "No noise was added anywhere" in l0
    assert all("Nobody has rows in two parties" in text for text in (l2, l1, l0))


def test_an_algorithm_that_does_not_say_what_it_releases_cannot_have_a_budget(here: Path) -> None:
    done = run(here, "--out", "r", "--set", "algorithm.name=centralized", "--set", "budget={ epsilon = 1.0 }")
    assert done.returncode == 1
    assert "centralized does not say what it will release" in done.stderr
