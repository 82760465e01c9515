"""What contributors rely on: make targets, workflows, the pages about architecture and citation, and the changelog."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import limbeck as lb

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "limbeck"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table(path: Path) -> dict[str, Any]:
    """A YAML file as a table."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def make_targets() -> set[str]:
    """The targets that are no files."""
    [line] = re.findall(r"^\.PHONY: (.+)$", read("Makefile"), re.MULTILINE)
    return set(line.split())


def code_of(text: str) -> Iterator[str]:
    """What stands between single backticks."""
    yield from re.findall(r"`([^`\n]+)`", text)


def test_every_make_target_has_a_line_of_help() -> None:
    rules = set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.MULTILINE))
    helped = set(re.findall(r"^([a-z][a-z-]*):[^#\n]*  ## [A-Z]", read("Makefile"), re.MULTILINE))
    assert rules == helped == make_targets()


def test_make_alone_lists_the_targets() -> None:
    first, *_ = re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.MULTILINE)
    assert first == "help"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_only_run_make_targets(path: Path) -> None:
    jobs = table(path)["jobs"]
    assert jobs
    for job in jobs.values():
        commands = [step["run"].split() for step in job["steps"] if "run" in step]
        assert commands
        assert all(words[0] == "make" and len(words) == 2 and words[1] in make_targets() for words in commands)
        actions = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in actions)


def test_there_is_a_workflow_for_each_check() -> None:
    run = {step.get("run") for path in WORKFLOWS for job in table(path)["jobs"].values() for step in job["steps"]}
    assert {"make lint", "make test", "make test-all", "make docs", "make wheel"} <= run


def test_tests_run_on_every_supported_python_and_system() -> None:
    strategy = table(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]
    assert strategy["fail-fast"] is False
    assert strategy["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert {system.partition("-")[0] for system in strategy["matrix"]["os"]} == {"ubuntu", "macos", "windows"}
    assert tomllib.loads(read("pyproject.toml"))["project"]["requires-python"] == ">=3.11"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_are_complete(path: Path) -> None:
    form = table(path)
    assert form["name"]
    assert form["description"]
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert all(part["type"] in ("textarea", "input", "dropdown", "checkboxes") for part in asked)
    assert all(part["attributes"]["label"] for part in asked)
    names = [part["id"] for part in asked]
    assert len(set(names)) == len(names)


def test_there_is_a_form_for_bugs_features_and_questions() -> None:
    assert [path.stem for path in FORMS] == ["bug", "feature", "question"]
    assert "- [ ]" in read(".github/PULL_REQUEST_TEMPLATE.md")


def test_the_citation_is_that_of_this_version() -> None:
    citation = table(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"].startswith("Limbeck")
    assert citation["message"]
    assert citation["authors"] == [{"name": "The Limbeck authors"}]
    assert str(citation["version"]) == lb.__version__
    assert citation["license"] == tomllib.loads(read("pyproject.toml"))["project"]["license"]
    papers = citation["references"]
    assert len(papers) == 4
    assert all(paper["title"] and paper["authors"] and paper["type"] == "article" for paper in papers)
    assert [paper["year"] for paper in papers] == [2021, 2019, 2021, 2022]


def test_the_changelog_keeps_its_form() -> None:
    text = read("CHANGELOG.md")
    first, *versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d", heading) for heading in versions]
    assert all(found)
    assert lb.__version__ in [each[1] for each in found if each]
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= SECTIONS


def test_the_architecture_names_every_package() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\*\*`(\w+)/`\*\*", read("ARCHITECTURE.md"), re.MULTILINE))


def test_every_path_of_the_architecture_is_there() -> None:
    """A name without a folder in the paragraph of a package is a file of that package."""
    named = 0
    for paragraph in read("ARCHITECTURE.md").split("\n\n"):
        [package] = re.findall(r"\A\*\*`(\w+/)`\*\*", paragraph) or [""]
        for name in code_of(paragraph):
            if re.fullmatch(r"[\w./]+(\.py|/)", name):
                named += 1
                paths = [PACKAGE / package / name, PACKAGE / name, ROOT / name]
                assert any(path.exists() for path in paths), f"{name} is not there"
    assert named > 90


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    [contract] = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [block] = re.findall(r"```\n(cli\n.*?)```", read("ARCHITECTURE.md"), re.DOTALL)
    checked = [layer.replace("limbeck.", "") for layer in contract["layers"]]
    assert ["__main__", *block.split("\n")[:-1]] == checked


def test_every_path_and_name_of_the_guide_for_contributors_is_there() -> None:
    text = read("CONTRIBUTING.md")
    paths = {
        name for name in code_of(text) if re.match(r"(src|tests|benchmarks|examples)/", name) and "NAME" not in name
    }
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []
    names = re.findall(r"`([A-Z_]{4,}|test_\w+)`\s+(?:in|of)\s+`([\w/]+\.py)`", text)
    assert len(names) >= 5
    assert [(name, path) for name, path in names if name not in read(path)] == []
    for command in re.findall(r"\.venv/bin/pytest ([^`\n]+)`", text):
        assert [path for path in command.split() if path.startswith("tests/") and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_every_make_target_that_a_page_names_is_there(page: str) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", read(page), re.MULTILINE))
    assert named <= make_targets()


def test_the_picture_of_the_architecture_can_be_read() -> None:
    picture = ElementTree.fromstring(read("docs/images/architecture.svg"))
    texts = list(picture.iter("{http://www.w3.org/2000/svg}text"))
    assert picture.get("width") == "860"
    assert all(float(text.get("font-size", "0")) >= 12 for text in texts)
    shown = {text.text for text in texts}
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} <= shown
