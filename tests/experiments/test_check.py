"""What `limbeck check` says before a run: facts, budgets, extras and an estimate; nothing is trained, written or spent."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra tables is not installed")
pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.errors import LimbeckError
from limbeck.experiments import extras
from limbeck.experiments.check import Check, check_experiment
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.estimate import Estimate
from limbeck.experiments.overrides import override
from limbeck.experiments.run import run_experiment, run_file
from limbeck.models.pool import PoolTrainer

NAMED = """
data = { name = "iris", parties = 3, public = 30, test = 0.2 }
model = { name = "decision-tree" }
algorithm = { name = "fedvote" }
"""
OWN = """
budget = { epsilon = 3.0, observer = "server" }
ledger = "shared.sqlite"
[data]
label = "outcome"
classes = ["no", "yes"]
id = "patient"
ignore = ["ward"]
public = { path = "public.csv" }
[algorithm]
name = "fedridge"
privacy = { level = "L2", epsilon = 2.0 }
[[party]]
index = 0
name = "north"
data = "north.csv"
[[party]]
index = 1
name = "south"
data = "south.csv"
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, first in (("north", 0), ("south", 30), ("public", 60)):
        low = 20 if name == "public" else 25
        ages = rng.integers(low, 60, 30) + (0.5 if name != "public" else 0)  # no public age is a private one
        lines = [f"P{first + i},{age},w,{'yes' if i < 10 else 'no'}" for i, age in enumerate(ages)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["patient,age,ward,outcome", *lines, ""]))
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "named.toml").write_text(NAMED)
    return tmp_path


def checked(file: Path, *settings: str) -> Check:
    table, _ = override(read_toml(file), settings)
    return check_experiment(check_table(Experiment, table, str(file)), table, file)


def files(here: Path) -> set[str]:
    return {path.name for path in here.iterdir()}


def test_a_named_set_is_described_and_estimated(here: Path) -> None:
    before = files(here)
    found = checked(here / "named.toml")
    assert files(here) == before
    assert (found.files, found.columns, found.values, found.classes) == (
        (),
        None,
        4,
        ("setosa", "versicolor", "virginica"),
    )
    assert sum(party.rows for party in found.parties) == 90
    assert [sum(party.counts) for party in found.parties] == [party.rows for party in found.parties]
    assert (found.public, found.test, found.method.level, found.method.noise) == (30, 30, "L0", None)
    assert isinstance(found.estimate, Estimate)
    record = run_file(here / "named.toml", processes=1).record
    assert 0.5 < found.estimate.up / record.bytes["up"] < 2
    assert 0.3 < found.estimate.down / record.bytes["down"] < 3


def test_own_files_are_described_without_a_ledger(here: Path) -> None:
    before = files(here)
    found = checked(here / "own.toml")
    assert files(here) == before
    assert [(each.role, each.path, each.rows) for each in found.files] == [
        ("private", "north.csv", 30),
        ("private", "south.csv", 30),
        ("public", "public.csv", 30),
    ]
    assert found.files[0].reading == "commas between columns, decimal point, utf-8"
    assert found.columns is not None
    assert [name for name, _ in found.columns.learned] == ["age"]
    assert (found.columns.row_id, found.columns.left_out) == ("patient", ("ward",))
    assert [(each.name, each.counts) for each in found.parties] == [("north", (20, 10)), ("south", (20, 10))]
    assert found.method.noise == "secure random numbers"
    assert max(each.epsilon for each in found.method.guarantees if each.unit == "example") <= 2.0
    [budget] = found.budgets
    assert [budget.epsilon, budget.before, budget.after] == pytest.approx([3.0, 0.0, 2.0], abs=0.01)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["budgets"][0]["epsilon"] == 3.0


def test_what_is_spent_is_read_from_the_ledger(here: Path) -> None:
    run_file(here / "own.toml", processes=1)
    state = {path.name: path.read_bytes() for path in here.iterdir()}
    with pytest.raises(LimbeckError, match=r"own\.toml: this run would bring epsilon towards server to 3\..*, but 1"):
        checked(here / "own.toml", "seed=1", "algorithm.privacy.epsilon=2.5")
    found = checked(here / "own.toml", "seed=1", "algorithm.privacy.epsilon=0.5")
    assert found.budgets[0].before == pytest.approx(2.0, abs=0.01)
    with pytest.raises(LimbeckError, match="a budget may be lowered, never raised"):
        checked(here / "own.toml", "budget.epsilon=9.0")
    assert {path.name: path.read_bytes() for path in here.iterdir()} == state


def test_a_run_that_would_be_resumed_is_not_charged_twice(here: Path) -> None:
    table = {key: value for key, value in read_toml(here / "own.toml").items() if key != "ledger"}
    experiment = check_table(Experiment, table, "own.toml")
    run_experiment(experiment, table, 1, base=here, ledger=here / "shared.sqlite")  # not marked as ended
    assert checked(here / "own.toml").budgets[0].before == 0.0
    assert checked(here / "own.toml", "seed=1").budgets[0].before == pytest.approx(2.0, abs=0.01)


def test_private_rows_are_not_fitted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[Any] = []
    train = PoolTrainer.run

    def watched(self: PoolTrainer, jobs: Any, *rest: Any) -> Any:
        fitted.extend(jobs)
        return train(self, jobs, *rest)

    monkeypatch.setattr(PoolTrainer, "run", watched)
    found = checked(here / "own.toml", 'algorithm={name="fedvote"}', "budget.observer=public")
    assert isinstance(found.estimate, Estimate)
    assert len(fitted) > 6
    assert all((job.rows == np.floor(job.rows)).all() for job in fitted)


def test_a_missing_extra_is_found_without_importing_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "opendp" else known(name))
    found = checked(here / "own.toml")
    assert len(found.missing_extras) == 1
    assert "secure noise needs the extra `privacy`" in found.missing_extras[0]
    assert found.estimate == "an extra is missing"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.label=outcomes"], "did you mean 'outcome'?"),
        (["algorithm.privacy.epsilon=4.0"], "this run would bring epsilon towards server to"),
        (['data.classes=["no"]'], "is none of no"),
        (["data.public=0.25"], "it must be a file too"),
        (["party.1.data=nowhere.csv"], "nowhere.csv"),
    ],
)
def test_what_would_stop_a_run_gets_one_line(here: Path, settings: list[str], message: str) -> None:
    with pytest.raises(LimbeckError) as error:
        checked(here / "own.toml", *settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_warnings_are_collected(here: Path) -> None:
    text = (here / "public.csv").read_text().replace("patient,", "code,")
    (here / "public.csv").write_text(text.replace("P60,", "P61,"))
    found = checked(here / "own.toml", "data.id=patient", 'data.ignore=["ward"]')
    assert len(found.warnings) == 1
    assert "the column 'code' holds 29 different texts" in found.warnings[0]
