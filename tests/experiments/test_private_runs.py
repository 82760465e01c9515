"""Private runs as a program: budgets that hold, ledgers that outlive a kill."""

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limbeck as lb
from limbeck.data.sets import load
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.result import FinishedRun
from limbeck.privacy.ledger import over_runs, read_contents, read_ledger
from program import limbeck

DIGEST = re.compile(r"`[0-9a-f]{32}`|entry\s+is\s+`[0-9a-f]{64}`")  # and the random identifier of a run
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
    return limbeck(here, "run", "e.toml", "--processes", "1", *arguments)


def drawn(ledger: Path) -> dict[Any, Any]:
    """What the ledger says was released, with the very labels."""
    if not ledger.exists():
        return {}
    with sqlite3.connect(ledger) as connection:
        try:
            rows = connection.execute("SELECT kind, run, site, turn, number, body, drawn FROM entries").fetchall()
        except sqlite3.OperationalError:  # killed before the table was made
            return {}
    return {row[:5]: row[5:] for row in rows}


def move(ledger: Path, to: Path, copy: bool = False) -> None:
    """A ledger with its head."""
    for suffix in ("", ".head"):
        (shutil.copy if copy else shutil.move)(f"{ledger}{suffix}", f"{to}{suffix}")


def kill_and_restart(here: Path, kills: int, *settings: str) -> None:
    """Kill the run at random moments of its life, most of them while parties release."""
    rng = random.Random(0)
    seen: dict[Any, Any] = {}
    began = time.perf_counter()
    assert run(here, "--out", "whole", *settings).returncode == 0
    lifetime = time.perf_counter() - began
    for _ in range(kills):
        running = subprocess.Popen(
            command("--out", "r", *settings), cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.perf_counter() + rng.uniform(0.3, 0.95) * lifetime
        while time.perf_counter() < until and running.poll() is None and not (here / "r").exists():
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.wait()
        now = drawn(here / "r.ledger.sqlite" if not (here / "r").exists() else here / "r/ledger.sqlite")
        assert seen.items() <= now.items(), "a release was forgotten, or drawn anew"
        seen = now
        if (here / "r").exists():  # it was quicker than the kill: take it back to before its end
            move(here / "r/ledger.sqlite", here / "r.ledger.sqlite")
            shutil.rmtree(here / "r")
    done = run(here, "--out", "r", *settings)
    assert done.returncode == 0, done.stderr
    assert seen.items() <= drawn(here / "r/ledger.sqlite").items()
    assert not list(here.glob("r.ledger.sqlite*"))
    move(here / "r/ledger.sqlite", here / "again.ledger.sqlite", copy=True)
    again = run(here, "--out", "again", *settings)
    assert again.returncode == 0
    assert "again.ledger.sqlite holds a run with the same settings that did not end: it is resumed" in again.stderr
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
    assert (here / "r/model.onnx").read_bytes() == (here / "whole/model.onnx").read_bytes()
    one, two = ((here / name / "privacy.md").read_text() for name in ("r", "whole"))
    assert DIGEST.sub("", one) == DIGEST.sub("", two)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_only_the_owner_may_read_the_folder_of_a_real_run(here: Path) -> None:
    assert run(here, "--out", "r").returncode == 0
    files = [path for path in (here / "r").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"ledger.sqlite", "ledger.sqlite.head", "record.json", "privacy.md"}
    assert mode(here / "r") == 0o700
    assert {mode(path) for path in files} == {0o600}
    assert sorted(path.name for path in here.iterdir()) == ["e.toml", "r"], "its secret is gone with the run"
    number, digest = read_contents(here / "r/ledger.sqlite")[0].head
    text = (here / "r/privacy.md").read_text()
    assert f"{number} entries" in text
    assert digest in text


def test_the_folder_of_a_simulation_is_as_open_as_before_but_for_its_ledger(here: Path) -> None:
    assert run(here, "--out", "r", "--set", "noise=simulated").returncode == 0
    assert mode(here / "r") == 0o755
    assert mode(here / "r/record.json") & 0o400
    assert {mode(here / "r" / name) for name in ("ledger.sqlite", "ledger.sqlite.head")} == {0o600}


def test_a_run_that_cannot_fit_its_budget_is_refused_before_training(here: Path) -> None:
    done = run(here, "--out", "r", "--set", "budget={ epsilon = 0.5, delta = 1e-5 }")
    assert done.returncode == 1
    assert "fitting" not in done.stderr
    assert "this run would bring epsilon towards public to" in done.stderr
    assert "but 0.5 of 0.5 is left" in done.stderr
    assert [path.name for path in here.iterdir()] == ["e.toml"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["algorithm.privacy.level=L1", "budget={ epsilon = 9.0, observer = 'server' }"], "towards server to inf"),
        (
            ["algorithm.privacy={level='L0'}", "budget={ epsilon = 9.0, observer = 'parties' }"],
            "towards parties to inf",
        ),
        (["algorithm.privacy={level='L2', epsilon=1.0, mechanism='confident-gaussian', check=0.1}"], "no noise keeps"),
    ],
)
def test_what_cannot_be_is_refused_before_training(here: Path, settings: list[str], text: str) -> None:
    done = run(here, "--out", "r", *(part for setting in settings for part in ("--set", setting)))
    assert done.returncode == 1
    assert text in done.stderr
    assert "fitting" not in done.stderr
    assert [path.name for path in here.iterdir()] == ["e.toml"]


def test_comparisons_never_touch_real_noise(here: Path) -> None:
    done = limbeck(here, "compare", "e.toml", "--seeds", "1")
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
def test_a_ledger_on_disk_adds_runs_up_until_its_budget_is_spent(here: Path) -> None:
    """The same experiment again is a new run; the budget holds also for a run that brings none."""
    settings = ["--set", "ledger=book.sqlite"]
    budget = ["--set", "budget={ epsilon = 3.5 }"]
    first, same = run(here, "--out", "a", "--json", *settings, *budget), run(here, "--out", "b", "--json", *settings)
    assert first.returncode == same.returncode == 0, first.stderr + same.stderr
    assert (here / "a/model.onnx").read_bytes() != (here / "b/model.onnx").read_bytes()
    assert 2.1 < json.loads(first.stdout)["epsilon"] < 2.2
    assert "All runs in this ledger together" not in (here / "a/privacy.md").read_text()
    assert "All runs in this ledger together" in (here / "b/privacy.md").read_text()
    assert {path.name for path in here.glob("book.sqlite*")} == {f"book.sqlite{s}" for s in ("", ".head", ".secret")}
    assert {mode(path) for path in here.glob("book.sqlite*")} == {0o600}
    third = run(here, "--out", "c", *settings)
    assert third.returncode == 1
    assert "of 3.5 is left" in third.stderr
    looser = run(here, "--out", "d", *settings, "--set", "budget={ epsilon = 9.0 }")
    assert looser.returncode == 1
    assert "budget.epsilon = 9 is more than the budget that book.sqlite keeps" in looser.stderr
    text = limbeck(here, "privacy", "ledger", "book.sqlite")
    assert "gumbel 0.05" in text.stdout
    assert "budget: epsilon 3.5 at delta 1e-05 towards public, unit example; spent" in text.stdout
    assert "parties without a name count as everybody" in text.stdout


@pytest.mark.slow
def test_the_statement_states_what_holds_and_what_does_not(here: Path) -> None:
    assert run(here, "--out", "l2").returncode == 0
    assert run(here, "--out", "l1", "--set", "algorithm.privacy.level=L1", "--set", "noise=simulated").returncode == 0
    assert run(here, "--out", "l0", "--set", 'algorithm.privacy={ level = "L0" }').returncode == 0
    l2, l1, l0 = ((here / name / "privacy.md").read_text() for name in ("l2", "l1", "l0"))
    assert "The server need not be trusted" in l2
    assert "operating system's generator" in l2
    assert "The server is trusted" in l1
    assert "What the server can see without protection: `students` (models that a party trained on public rows" in l1
    assert "**This was a simulation." in l1
    assert "**This run has no privacy protection.**" in l0
    assert all("Each person has rows in one party only" in text for text in (l2, l1))


def test_an_algorithm_that_protects_nothing_does_not_fit_a_budget(here: Path) -> None:
    budget = 'budget={ epsilon = 1.0, observer = "server" }'
    done = run(here, "--out", "r", "--set", "algorithm.name=centralized", "--set", budget)
    assert done.returncode == 1
    assert "this run would bring epsilon towards server to inf" in done.stderr
    assert "fitting" not in done.stderr


CANCER = load("breast-cancer")
ORDER = np.random.default_rng(0).permutation(len(CANCER.y))
PARTIES = [(CANCER.x[ORDER[i:400:2]], CANCER.y[ORDER[i:400:2]]) for i in range(2)]
PUBLIC = CANCER.x[ORDER[400:460]]
TEST = (CANCER.x[ORDER[460:]], CANCER.y[ORDER[460:]])


def learned(ledger: Path, parties: Any = PARTIES, public: Any = PUBLIC, **settings: Any) -> FinishedRun:
    algorithm = lb.FedKT(partitions=1, subsets=5, privacy=lb.Privacy("L2", gamma=1.0))
    fixed = {"models": "decision-tree", "test": TEST, "classes": [0, 1], "processes": 1, "seed": 0}
    return lb.run(algorithm, parties, public, **{**fixed, "ledger": ledger, **settings})


def runs(ledger: Path) -> list[str]:
    return list(dict.fromkeys(run for _, run, _ in read_ledger(ledger)))


def test_public_rows_in_another_order_are_another_run(tmp_path: Path) -> None:
    """The labels of the first run, which is interrupted, would teach nothing if they were used for other rows."""
    ledger = tmp_path / "book.sqlite"
    with pytest.raises(KeyboardInterrupt):
        learned(ledger, watch=breaks_after(1))
    assert any(kind == "drawn" for kind, *_ in drawn(ledger))
    other = learned(ledger, public=PUBLIC[::-1])
    assert len(runs(ledger)) == 2
    assert other.accuracy is not None
    assert other.accuracy > 0.7  # the noise is secure, so it differs from test to test


def breaks_after(calls: int) -> Any:
    """A watcher of training that interrupts the run, as a person would."""
    seen = iter(range(calls))

    def watch(results: Any, total: int) -> Any:
        if next(seen, None) is None:
            raise KeyboardInterrupt
        return results

    return watch


def test_a_run_that_ended_is_never_replayed(tmp_path: Path) -> None:
    ledger = tmp_path / "book.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimbeckWarning)
        for _ in range(2):
            learned(ledger)
    one, two = runs(ledger)
    found = drawn(ledger)
    places = [key[2:] for key in found if key[:2] == ("drawn", one)]
    assert places
    assert [found["drawn", one, *place] for place in places] != [found["drawn", two, *place] for place in places]


def test_an_interrupted_run_is_resumed_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, named = tmp_path / "book.sqlite", dict(zip(("clinic", "lab"), PARTIES, strict=True))
    with monkeypatch.context() as earlier:
        earlier.setattr("limbeck.privacy.ledger._now", lambda: "2020-02-03T23:00:00+00:00")
        with pytest.raises(KeyboardInterrupt):
            learned(ledger, named, watch=breaks_after(1))
    before = drawn(ledger)
    assert any(kind == "drawn" for kind, *_ in before)
    with pytest.warns(LimbeckWarning, match=r"book\.sqlite holds a run with the same settings that did not end"):
        timing = learned(ledger, named).record.timing
    assert runs(ledger) == [timing["run"]]
    assert timing["date"] == "2020-02-03", "the day on which the run first wrote to the ledger"
    assert before.items() <= drawn(ledger).items()


def test_a_run_of_parties_without_names_is_never_resumed_for_they_may_be_others(tmp_path: Path) -> None:
    ledger = tmp_path / "book.sqlite"
    with pytest.raises(KeyboardInterrupt):
        learned(ledger, watch=breaks_after(1))
    before = drawn(ledger)
    learned(ledger, PARTIES[::-1])
    assert len(runs(ledger)) == 2
    assert before.items() < drawn(ledger).items()


@pytest.mark.parametrize("share", [0.25, 40])
def test_a_share_of_a_private_file_would_reveal_how_many_rows_it_has(here: Path, share: float) -> None:
    lines = ["age,income", *(f"{i},{'high' if i % 3 else 'low'}" for i in range(160))]
    (here / "all.csv").write_text("\n".join(lines))
    text = FILE.replace('name = "breast-cancer"', 'path = "all.csv"\nlabel = "income"\nclasses = ["high", "low"]')
    (here / "e.toml").write_text(
        text.replace("public = 0.3", f"public = {share}").replace("queries = 60", "queries = 30")
    )
    done = run(here, "--out", "r")
    if isinstance(share, float):
        assert done.returncode == 1
        assert "data.public = 0.25 is a share of private rows" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    record, owner = (json.loads((here / "r" / name).read_text()) for name in ("record.json", "owner.json"))
    assert record["metrics"] is None, "the test rows are private ones"
    assert record["data"]["test"] is None
    assert owner["metrics"]["accuracy"] > 0


def test_nothing_in_a_ledger_is_computed_from_private_rows_but_what_was_released(tmp_path: Path) -> None:
    """Two runs that differ in one private label: all is equal but for what is random."""
    ledgers = []
    for number, label in enumerate((0, 1)):
        ledger = tmp_path / f"{number}.sqlite"
        (x, y), other = PARTIES
        learned(ledger, [(x, np.array([label, *y[1:]])), other])
        with sqlite3.connect(ledger) as connection:
            about = connection.execute("SELECT about FROM runs").fetchall()
            entries = connection.execute("SELECT kind, site, turn, number, body FROM entries").fetchall()
        ledgers.append((about, sorted(entries)))
    assert ledgers[0] == ledgers[1]


def test_parties_are_known_by_name_whatever_their_order(tmp_path: Path) -> None:
    """Each party's releases add up by themselves; parties without a name may be anybody, so that all of them add up."""
    named, unnamed = tmp_path / "named.sqlite", tmp_path / "unnamed.sqlite"
    a, b = PARTIES
    for order in ({"a": a, "b": b}, {"b": b, "a": a}):
        result = learned(named, order)
        learned(unnamed, list(order.values()))
        assert [party.name for party in result.record.parties] == list(order)
    assert {row.site for _, _, row in read_ledger(named)} == {"a", "b", "server"}
    assert {row.site for _, _, row in read_ledger(unnamed)} == {"party 0", "party 1", "server"}
    sums = [lb.Budget(9.0).spent(over_runs(read_contents(path)[0].releases)) for path in (named, unnamed)]
    own = [row for _, _, row in read_ledger(named) if row.site == "a"]
    assert sums[0] == lb.Budget(9.0).spent(own)
    assert sums[1] >= sums[0]


@pytest.mark.parametrize("wrong", ["server", "party 0", ""])
def test_wrong_names_of_parties_are_reported(wrong: str) -> None:
    with pytest.raises(LimbeckError, match=f"parties: '{wrong}' cannot be the name of a party"):
        lb.run(lb.Solo(), {wrong: PARTIES[0], "b": PARTIES[1]})
    table = {"data": {"name": "iris"}, "model": {"name": "svm"}, "algorithm": {"name": "solo"}}
    with pytest.raises(LimbeckError, match=rf"e\.toml: \[\[party\]\] name: '{wrong}' cannot be the name of a party"):
        check_table(Experiment, {**table, "party": [{"index": 0, "name": wrong}]}, "e.toml")


def test_names_in_a_file_stand_in_its_ledger(here: Path) -> None:
    names = '\n[[party]]\nindex = 4\nname = "clinic"\n[[party]]\nindex = 0\nname = "lab"\n'
    (here / "e.toml").write_text(FILE + names)
    assert run(here, "--out", "r").returncode == 0
    sites = {row.site for _, _, row in read_ledger(here / "r/ledger.sqlite")}
    assert sites == {"lab", "clinic", "server", *(f"party {n}" for n in (1, 2, 3, 5))}
    (here / "e.toml").write_text(FILE + names.replace("lab", "clinic"))
    assert "two parties have the name 'clinic'" in run(here, "--out", "s").stderr


def test_parties_may_have_any_other_name(tmp_path: Path) -> None:
    """Also those of what is not a party."""
    a, b = PARTIES
    lb.run(lb.Solo(), {"test": a, "public": b}, models="decision-tree", test=TEST, processes=1)
    with pytest.raises(LimbeckError, match=r"public: rows of shape \(2,\), but test has rows"):
        lb.run(lb.Solo(), {"test": a, "public": (b[0][:, :2], b[1])}, models="decision-tree")
