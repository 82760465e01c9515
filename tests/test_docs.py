"""What the documents say works: their code is run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from limbeck.checks import check_algorithm

ROOT = Path(__file__).parent.parent


def code(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_algorithm_of_the_guide_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [source] = code("docs/algorithms.md", "python")
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import mine  # type: ignore[import-not-found]

    check_algorithm(mine.Majority())


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    program = "\n".join(code("README.md", "python"))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_experiment_of_the_readme_runs(tmp_path: Path) -> None:
    experiment, *_ = code("README.md", "toml")
    (tmp_path / "consortium.toml").write_text(experiment)
    command = [sys.executable, "-m", "limbeck", "run", "consortium.toml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_privacy_of_the_readme_keeps_to_its_epsilon(tmp_path: Path) -> None:
    _, private, _ = code("README.md", "toml")
    (tmp_path / "private.toml").write_text(private)
    command = [sys.executable, "-m", "limbeck", "run", "private.toml", "--json", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert 2.9 < answer["epsilon"] <= 3.0
    assert answer["accuracy"] > answer["constant"] + 0.1
    assert "at delta 1e-05 means" in (tmp_path / "run/privacy.md").read_text()


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
        command = [sys.executable, "-m", "limbeck", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 81


def test_every_test_that_the_threats_name_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/threats.md").read_text())
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
