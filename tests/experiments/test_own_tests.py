"""Test rows of each party's own."""

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import limbeck as lb
from limbeck.experiments.cached_runs import CachedRun
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.evaluation import evaluate
from limbeck.report.tables import own_test_table

SITES = """
[data]
label = "sick"
classes = ["no", "yes"]
public = { path = "public.csv" }
[model]
name = "decision-tree"
max_depth = 2
[[party]]
index = 1
data = "b.csv"
test = "b-test.csv"
[[party]]
index = 0
data = "a.csv"
test = "a-test.csv"
[[party]]
index = 2
data = "c.csv"
[algorithm]
name = "fedvote"
"""


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, rows in {"a": 60, "b": 60, "c": 60, "public": 80, "a-test": 30, "b-test": 50, "test": 40}.items():
        size, color = rng.normal(size=rows), rng.choice(["red", "blue"], rows)
        sick = np.where(size + 0.5 * rng.normal(size=rows) + (color == "red") > 0.5, "yes", "no")
        lines = [f"{a:.3f},{b},{c}" for a, b, c in zip(size, color, sick, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["size,color,sick", *lines]) + "\n")
    (tmp_path / "e.toml").write_text(SITES)
    return tmp_path / "e.toml"


def test_the_final_model_is_measured_for_each_party_and_on_all_rows(sites: Path) -> None:
    result = lb.run_file(sites, processes=1)
    assert result.model is not None
    parties = result.record.parties
    for party, name, rows in zip(parties, "ab", (30, 50), strict=False):
        assert party.tested == rows
        assert party.own_test == evaluate(result.model, sites.parent / f"{name}-test.csv").metrics
    assert (parties[2].tested, parties[2].own_test) == (0, None)
    first, second = (party.own_test for party in parties[:2])
    assert first is not None
    assert second is not None
    pooled = np.array(first.confusion) + second.confusion
    assert result.metrics is not None
    assert result.metrics.confusion == pooled.tolist()
    assert result.record.data["test"] == 80
    console = Console(width=100)
    with console.capture() as shown:
        console.print(*own_test_table(result.record))
    lines = [line.split() for line in shown.get().splitlines()]
    assert [line[:2] for line in lines[-2:]] == [["0", "30"], ["1", "50"]]
    assert json.loads(json.dumps(result.record.summary(None)))["parties"][0]["tested"] == 30


def test_common_test_rows_stay_the_test_rows(sites: Path) -> None:
    result = lb.run_file(sites, ['data.test={ path = "test.csv" }'], processes=1)
    assert result.record.data["test"] == 40
    assert result.record.parties[1].tested == 50


def test_own_models_are_measured_on_own_rows_and_features_apply(sites: Path) -> None:
    result = lb.run_file(sites, ["algorithm.name=solo", "features={kind='standard'}"], processes=1)
    for party, name in ((0, "a"), (1, "b")):
        expected = evaluate(result.models[party], sites.parent / f"{name}-test.csv").metrics
        assert result.record.parties[party].own_test == expected


def test_a_real_run_withholds_them(sites: Path) -> None:
    settings = ["algorithm.privacy={level='L1',epsilon=5.0}", "algorithm.partitions=1"]
    result = lb.run_file(sites, settings, processes=1)
    assert result.record.real
    assert result.record.metrics is None
    assert result.record.data["test"] is None
    assert {(party.tested, party.own_test) for party in result.record.parties} == {(None, None)}
    assert result.owner is not None
    assert result.owner.metrics is not None
    assert [party.tested for party in result.owner.parties] == [30, 50, 0]


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("party.0.test=no.csv", "no.csv"),
        ("party.0.test=wild.csv", "wild.csv: the label 'maybe' in 'sick' is none of no, yes"),
    ],
)
def test_wrong_files_are_reported(sites: Path, setting: str, line: str) -> None:
    (sites.parent / "wild.csv").write_text("size,color,sick\n1,red,maybe\n")
    with pytest.raises(lb.LimbeckError, match=line):
        lb.run_file(sites, [setting])


def test_parties_without_files_have_none(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text('data = { name = "iris" }\nparty = [{ index = 1, test = "t.csv" }]\n')
    with pytest.raises(lb.LimbeckError, match=r"\[\[party\]\] index = 1: test is for parties with files"):
        lb.run_file(tmp_path / "e.toml")


def test_a_comparison_runs_again_if_they_change(sites: Path) -> None:
    table = read_toml(sites)

    def key() -> str:
        return CachedRun(check_table(Experiment, table, "e.toml"), table, sites.parent).key

    before = key()
    with (sites.parent / "a-test.csv").open("a") as file:
        file.write("1.0,red,no\n")
    assert key() != before
