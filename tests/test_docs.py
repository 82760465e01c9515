"""What the documents say works: their code is run."""

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from limbeck import Privacy
from limbeck.checks import check_algorithm
from limbeck.cli import app
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.privacy.accountants import every_epsilon
from limbeck.privacy.events import MECHANISMS, DpEvent
from pages import ROOT, Block, Reader, Section, planned, sections
from program import limbeck

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = {
    "README.md: Your first experiment",
    "docs/choosing.md: If the file names no algorithm",
    "docs/data.md: Texts",
    "docs/data.md: Your own files",  # those of the README run among the fast ones
    "docs/deploy.md: Step by step",
    "docs/experiments.md: Compare and sweep",
    "docs/experiments.md: In Python",
    "docs/experiments.md: The file",
    "docs/experiments.md: What a run writes",
    "docs/fedkd.md: Across domains",
    "docs/fedkd.md: FedKD: one shot of logits, across domains",
    "docs/fedkt.md: Run it",
    "docs/fedmd.md: FedMD: every party has a model of its own design",
    "docs/iterative.md: FedAvg and related methods, FedKT as their start, and Byzantine parties",
    "docs/iterative.md: In scikit-learn",
    "docs/labels.md: Numbers",
    "docs/labels.md: Several labels a row",
    "docs/models.md: By name",
    "docs/models.md: Your own",
    "docs/parallel.md: A Dask cluster",
    "docs/parallel.md: A Ray cluster",
}
MEASURED = {  # these took minutes to hours: their configurations are checked, and nothing is trained
    "docs/choosing.md: Privacy for each party",
    "docs/choosing.md: When public rows do not fit",
    "docs/fedkd.md: How much the paper's noise protects",
    "docs/fedridge.md: Bytes and time",
    "docs/fedridge.md: What it reaches",
    "docs/iterative.md: Byzantine parties",
    "docs/privacy.md: FedKT's private tables on Adult",
    "docs/skew.md: Rare classes",
    "docs/skew.md: What it reaches",
}


def is_measured(section: Section) -> bool:
    measurements = section.page == "docs/results.md" and section.title != "Three sites with CSV files"
    return measurements or str(section) in MEASURED


def _sections() -> Iterator[Any]:
    for page in PAGES:
        for section in sections(page):
            if str(section) == "README.md: Privacy":  # a test of its own follows it
                continue
            yield pytest.param(section, marks=[pytest.mark.slow] if str(section) in SLOW else [])


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


@pytest.mark.slow
def test_the_encoding_of_the_guide_passes(guide: Callable[[str], Any]) -> None:
    module = guide("encoding")
    x = np.random.default_rng(0).normal(size=(60, 3))
    basis = module.Groups.fit(x, 10).basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(10), atol=1e-6)
    check_algorithm(module.GroupVote(partitions=1, subsets=2, privacy=Privacy("L1", epsilon=5.0)))


@pytest.mark.parametrize("section", list(_sections()), ids=str)
def test_every_section_runs(section: Section, tmp_path: Path) -> None:
    Reader(tmp_path).follow(section, measured=is_measured(section))


def test_every_block_is_of_a_known_kind() -> None:
    found = [block for page in PAGES for section in sections(page) for block in section.blocks]
    assert {block.language for block in found} == {"sh", "toml", "python", "ini", ""}
    assert len(found) == sum(len(re.findall(r"^```\w*$", page.read_text(), re.MULTILINE)) // 2 for page in PAGES)


def test_lists_of_sections_name_sections_that_are_there() -> None:
    assert {*SLOW, *MEASURED} <= {str(section) for page in PAGES for section in sections(page)}


def test_a_section_that_lacks_a_file_is_noticed(tmp_path: Path) -> None:
    section = Section("page.md", "Run", [Block("sh", "limbeck run nowhere.toml\n")])
    with pytest.raises(AssertionError, match=r"nowhere\.toml"):
        Reader(tmp_path).follow(section)


def test_the_demonstration_prints_what_the_readme_shows(tmp_path: Path) -> None:
    done = limbeck(tmp_path, "demo")
    assert done.returncode == 0, done.stderr
    [shown] = [block.text for section in sections(ROOT / "README.md") for block in section.blocks if not block.language]
    for line, printed in zip(shown.splitlines(), done.stdout.splitlines(), strict=False):
        numbers = [float(number) for number in re.findall(r"\d+\.\d(?= %)", line)]
        assert [float(number) for number in re.findall(r"\d+\.\d(?= %)", printed)] == pytest.approx(numbers, abs=3)
        assert words_of(line) == words_of(printed)
    assert (tmp_path / "runs" / "demo-1" / "model.onnx").exists()


def words_of(line: str) -> list[str]:
    return re.findall(r"[a-z-]+", line)


def test_the_privacy_of_the_readme_keeps_to_its_epsilon(tmp_path: Path) -> None:
    [section] = [section for section in sections(ROOT / "README.md") if section.title == "Privacy"]
    Reader(tmp_path).follow(section)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert 2.9 < record["epsilon"]["server"] <= 3.0
    assert record["metrics"]["accuracy"] > record["constant"] + 0.1
    assert "thinks with 50 % probability that" in (tmp_path / "run" / "privacy.md").read_text()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 250


def commands() -> Iterator[Any]:
    """Each `limbeck run`, `compare` or `sweep` of an example, in the benchmarks' page or in an example's own comment."""
    blocks = [block for section in sections(ROOT / "benchmarks" / "README.md") for block in section.blocks]
    for file in sorted((ROOT / "examples").glob("*.toml")):
        comment = "\n".join(re.findall(r"^#   (.*)$", file.read_text(), re.MULTILINE))
        blocks.append(Block("sh", comment))
    yield from (command for block in blocks for command in block.commands if command.startswith("limbeck"))


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_of_an_example_can_be_planned(command: str) -> None:
    assert planned(command)


def test_every_command_that_a_page_names_is_there() -> None:
    known = {" ".join(words) for words in verbs(get_command(app))}
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for named in re.findall(r"`limbeck ((?:[a-z][a-z-]* ?)+)", text):
            group, *rest = named.split()
            found = {group, *(f"{group} {verb}" for verb in rest[:1] if any(f"{group} " in each for each in known))}
            assert found <= known, f"{page.name}: limbeck {named}"


def verbs(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    for name, verb in getattr(command, "commands", {}).items():
        yield (*path, name)
        yield from verbs(verb, *path, name)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_every_example_can_be_read(file: Path) -> None:
    assert check_table(Experiment, read_toml(file), file.name).algorithm


def test_every_test_that_the_threats_name_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/threats.md").read_text())
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
