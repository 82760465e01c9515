"""What the documents say works: their code is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    [experiment] = code("README.md", "toml")
    (tmp_path / "consortium.toml").write_text(experiment)
    command = [sys.executable, "-m", "limbeck.cli", "run", "consortium.toml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
