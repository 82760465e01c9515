"""The page of benchmarks is made from what they measured, and goals are judged by the measured values."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("run_all")
    for name in ("run_all", "measured"):
        sys.modules.pop(name, None)


def test_the_page_is_made_from_the_stored_measurements(runner: ModuleType) -> None:
    page = (FOLDER / "README.md").read_text()
    assert page == runner.page(page), "run: python benchmarks/run_all.py page"


def test_every_script_that_is_run_exists_and_has_stored_rows(runner: ModuleType) -> None:
    for kind, names in runner.SCRIPTS.items():
        found = runner.stored(kind)
        assert set(found) == set(names)
        for name in names:
            assert "show(measure" in (FOLDER / f"{name}.py").read_text()
            assert found[name]["rows"]
            assert {"date", "commit", "machine", "seconds"} <= set(found[name])


def test_all_benchmarks_of_a_machine_take_less_than_a_quarter_of_an_hour(runner: ModuleType) -> None:
    for kind in runner.SCRIPTS:
        assert sum(script["seconds"] for script in runner.stored(kind).values()) < 900


def test_goals_are_ratios_or_values(runner: ModuleType) -> None:
    alone = runner.Measured("a run", 3.0, "s", at_most=3.0)
    assert alone.met
    assert not replace(alone, value=3.1).met
    beside = replace(alone, beside="a plain program", other=2.0, at_most=1.5)
    assert beside.ratio == 1.5
    assert beside.met
    assert not replace(beside, other=1.9).met
    assert replace(beside, at_most=None).met is None
    assert "goal: at most 1.5, met" in str(beside)
    assert runner.line(replace(beside, other=1.0)).endswith("| 3 | 1.5: **not met** |")


def test_scripts_that_are_not_run_keep_their_rows(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    (tmp_path / "quick.py").write_text(
        "from measured import Measured, show\nshow(lambda: [Measured('one', 1.0, 's', 'other', 2.0)])\n"
    )
    (tmp_path / "broken.py").write_text("raise SystemExit('no data here')\n")
    (tmp_path / "measured.py").write_text((FOLDER / "measured.py").read_text())
    old = {"older": {"seconds": 1.0, "rows": [], "date": "2026-01-01", "commit": "abc", "machine": {}}}
    file = runner.store("cpu", runner.run("cpu", ["quick", "broken"]), old)
    found = json.loads(file.read_text())
    assert set(found) == {"older", "quick"}
    assert found["older"] == old["older"]
    assert found["quick"]["rows"][0]["value"] == 1.0
