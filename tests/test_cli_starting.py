"""`limbeck init` and `limbeck check` as people type them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow", reason="the extra tables is not installed")

from limbeck.cli import app
from pages import ROOT

ARGUMENTS = ["site-a.csv", "site-b.csv", "site-c.csv", "--public", "public.csv", "--test", "test.csv"]
QUICK = ["--model", "decision-tree"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run([sys.executable, ROOT / "examples" / "three_sites.py", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def terminal() -> tuple[int, int]:
    """A terminal: what is written to the first file is typed on the second."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    both: tuple[int, int] = pty.openpty()
    return both


def done(*words: str) -> str:
    result = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_a_federation_of_three_files(here: Path) -> None:
    shown = done("init", *ARGUMENTS, *QUICK)
    assert "site-b.csv: 200 rows, 4 columns; commas between columns, decimal point, utf-8" in shown
    assert "label: income (classes high, low)\npositive class: low (another: --positive)\n" in shown
    assert shown.endswith("Next: limbeck check experiment.toml, then: limbeck run experiment.toml\n")
    before = sorted(here.iterdir())
    table = done("check", "experiment.toml")
    assert sorted(here.iterdir()) == before
    for words in (
        "site-c.csv   100",
        "a category of 4: cook, driver, engineer, nurse",
        "400 public rows, 300 test rows",
    ):
        assert words in table
    assert "method: fedvote, level L0, without noise: epsilon is infinite" in table
    assert "estimate, by short runs on made-up rows" in table
    facts = json.loads(done("check", "experiment.toml", "--json", "--set", "seed=1"))
    assert [party["counts"] for party in facts["parties"]] == [[145, 155], [130, 70], [61, 39]]
    assert "accuracy" in done("run", "experiment.toml", "--processes", "1", "--out", "run")


def test_how_files_are_read_can_be_stated(here: Path) -> None:
    for name in ("site-a", "site-b", "public"):
        text = (here / f"{name}.csv").read_text().splitlines()
        days = ["day", *(f"0{i % 9 + 1}/0{i % 8 + 1}/2024" for i in range(len(text) - 1))]
        (here / f"{name}.csv").write_text("\n".join(f"{day},{line}" for day, line in zip(days, text, strict=True)))
    files = ["init", "site-a.csv", "site-b.csv", "--public", "public.csv", "--yes"]
    with pytest.raises(ValueError, match="whose day and month cannot"):
        done(*files)
    assert not (here / "experiment.toml").exists()
    done(*files, "--reading", "dates=%d/%m/%Y", "--reading", "missing=-9,k.A.")
    assert 'reading = { dates = "%d/%m/%Y", missing = ["-9", "k.A."] }' in (here / "experiment.toml").read_text()


@pytest.mark.slow
def test_a_check_needs_no_extra_of_networks() -> None:
    program = "import sys, limbeck.report.check; print([name for name in sys.modules if name in ('flwr', 'torch')])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"


def test_a_person_is_asked(here: Path) -> None:
    """A real terminal: the answers are typed, and an empty one takes the proposal."""
    keyboard, screen = terminal()
    command = [sys.executable, "-m", "limbeck", "init", *ARGUMENTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=screen, stdout=subprocess.PIPE, env=environment, text=True) as program:
        os.write(keyboard, b"\n\n\n\nknn\n")
        shown, _ = program.communicate(timeout=100)
    assert program.returncode == 0
    for question in (
        "Column to predict [income]",
        "Column that names the rows",
        "Epsilon",
        "The positive class (high, low)",
        "Model",
    ):
        assert question in shown
    assert 'name = "knn"' in (here / "experiment.toml").read_text()


@pytest.mark.slow
def test_an_interrupted_question_writes_nothing(here: Path) -> None:
    keyboard, screen = terminal()
    command = [sys.executable, "-m", "limbeck", "init", *ARGUMENTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, stdin=screen, env=environment, text=True, **both) as program:  # type: ignore[call-overload]
        os.write(keyboard, b"\x04")
        _, err = program.communicate(timeout=100)
    assert program.returncode == 130
    assert err.splitlines()[-1] == "limbeck: interrupted; nothing was written"
    assert not (here / "experiment.toml").exists()
