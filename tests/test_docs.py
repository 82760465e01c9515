"""What the documents say works: their code is run."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from limbeck import Privacy
from limbeck.checks import check_algorithm
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.plan import methods_in, plan
from limbeck.privacy.accountants import every_epsilon
from limbeck.privacy.events import MECHANISMS, DpEvent
from program import limbeck

ROOT = Path(__file__).parent.parent


def code(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import the algorithm, the mechanism or the encoding of docs/algorithms.md, each a file of its own."""
    sources = dict(zip(["algorithm", "mechanism", "encoding"], code("docs/algorithms.md", "python"), strict=True))
    for name, source in sources.items():
        (tmp_path / f"guide_{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda name: import_module(f"guide_{name}")


def test_the_algorithm_of_the_guide_passes(guide: Callable[[str], Any]) -> None:
    check_algorithm(guide("algorithm").Majority())


def test_the_mechanism_of_the_guide_is_accounted_for(guide: Callable[[str], Any]) -> None:
    known = dict(MECHANISMS)
    try:
        mechanism = guide("mechanism").RandomizedResponse(0.1, 3)
        found = every_epsilon([DpEvent(mechanism, 40)], 1e-5)
    finally:
        MECHANISMS.clear()
        MECHANISMS.update(known)
    assert found["basic"] == pytest.approx(4.0)
    assert found["kov"] == pytest.approx(2.51, abs=0.005)


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_the_encoding_of_the_guide_passes(guide: Callable[[str], Any], level: Literal["L1", "L2"]) -> None:
    module = guide("encoding")
    x = np.random.default_rng(0).normal(size=(60, 3))
    basis = module.Groups.fit(x, 10).basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(10), atol=1e-6)
    check_algorithm(module.GroupVote(partitions=1, subsets=2, privacy=Privacy(level=level, epsilon=5.0)))


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    program = "\n".join(code("README.md", "python"))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_experiment_of_the_readme_runs(tmp_path: Path) -> None:
    experiment, *_ = code("README.md", "toml")
    (tmp_path / "consortium.toml").write_text(experiment)
    done = limbeck(tmp_path, "run", "consortium.toml", "--json")
    assert done.returncode == 0, done.stderr


def test_the_privacy_of_the_readme_keeps_to_its_epsilon(tmp_path: Path) -> None:
    _, private, _ = code("README.md", "toml")
    (tmp_path / "private.toml").write_text(private)
    done = limbeck(tmp_path, "run", "private.toml", "--json", "--out", "run")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert 2.9 < answer["epsilon"] <= 3.0
    assert answer["accuracy"] > answer["constant"] + 0.1
    assert "at delta 1e-05 means" in (tmp_path / "run/privacy.md").read_text()


def test_the_page_on_fedkt_runs(tmp_path: Path) -> None:
    [experiment], [program] = code("docs/fedkt.md", "toml"), code("docs/fedkt.md", "python")
    (tmp_path / "fedkt.toml").write_text(experiment)
    for command in (["-m", "limbeck", "run", "fedkt.toml", "--json"], ["-c", program]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_files_of_the_readme_federate(tmp_path: Path) -> None:
    *_, experiment = code("README.md", "toml")
    (tmp_path / "sites.toml").write_text(experiment)
    rng = np.random.default_rng(0)
    jobs = {"site-a.csv": "ab", "site-b.parquet": "bc", "site-c.csv": "ac", "public.csv": "abc", "test.csv": "abc"}
    for name, letters in jobs.items():
        age, job = rng.integers(20, 60, 80), rng.choice(list(letters), 80)
        columns = {"age": age, "job": job, "income": np.where(age + 20 * (job == "a") > 45, "high", "low")}
        table = pa.table({key: columns[key] for key in columns if name != "public.csv" or key != "income"})
        csv.write_csv(table, tmp_path / name) if name.endswith("csv") else parquet.write_table(table, tmp_path / name)
    for arguments in (
        ["run", "sites.toml", "--out", "run"],
        ["predict", "run/model.onnx", "test.csv", "-o", "out.csv"],
    ):
        done = limbeck(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 81


def commands() -> Iterator[Any]:
    """Each `limbeck run`, `compare` or `sweep` of an example, in a document or in an example's own comment."""
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "README.md"]:
        for block in code(str(document.relative_to(ROOT)), "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["limbeck"] and words[1] in ("run", "compare", "sweep") and "examples/" in words[2]:
                    yield pytest.param(words[1:], id=f"{document.name}: {' '.join(words[1:])[:60]}")


@pytest.mark.parametrize("words", list(commands()))
def test_every_command_of_the_documents_can_be_planned(words: list[str]) -> None:
    _, file, *rest = words
    found: dict[str, list[str]] = {"--set": [], "--over": [], "--with": [], "--seeds": ["1"]}
    for key, value in pairwise(rest):
        if key in found:
            found[key].append(value)
    methods = [method for text in found["--with"] for method in methods_in(text)]
    assert plan(ROOT / file, methods, found["--over"], int(found["--seeds"][-1]), found["--set"]).lines


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_every_example_can_be_read(file: Path) -> None:
    assert check_table(Experiment, read_toml(file), file.name).algorithm


def test_every_test_that_the_threats_name_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/threats.md").read_text())
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
