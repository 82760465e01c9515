"""The sections of README and docs, and a reader who follows them: saves their files and runs their commands."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.plan import methods_in, plan
from program import limbeck, python

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"[Ss]ave this as\s+`([^`]+)`")
PORTS = ("9443", "8786", "10001")  # of servers in the documents; others that are free take their place
PAUSE = 10.0  # seconds until a program in the background is there
BASE = {"data": {"name": "digits"}, "model": {"name": "random-forest"}, "algorithm": {"name": "fedvote"}}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; the file that the paragraph before it names."""

    language: str
    text: str
    file: str | None = None

    @property
    def commands(self) -> list[str]:
        """The lines of a block of shell commands, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [shown for line in lines if (shown := re.sub(r"(^|\s+)#\s.*$", "", line).strip())]


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below one heading of the second level."""

    page: str
    title: str
    blocks: list[Block]

    def __str__(self) -> str:
        return f"{self.page}: {self.title}"


def sections(page: Path) -> Iterator[Section]:
    """The sections of a page that have blocks."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    fences = [(found.start(), found.end()) for found in BLOCK.finditer(text)]
    headings = [
        found
        for found in re.finditer(r"^##? (.+)$", text, re.MULTILINE)
        if not any(start < found.start() < end for start, end in fences)
    ]
    for heading, following in pairwise([*headings, None]):
        assert heading
        part = text[heading.end() : following.start() if following else None]
        if blocks := list(_blocks(part)):
            yield Section(name, heading[1], blocks)


def _blocks(text: str) -> Iterator[Block]:
    last = 0
    for found in BLOCK.finditer(text):
        named = SAVED.findall(text[last : found.start()].strip().rpartition("\n\n")[2])
        yield Block(found[1], found[2], named[-1] if named else None)
        last = found.end()


def planned(command: str) -> bool:
    """Whether this compares methods in an example's setting; its configurations are checked, and nothing is trained."""
    words = shlex.split(command)
    if words[:1] != ["limbeck"] or words[1] not in ("run", "compare", "sweep") or "examples/" not in words[2]:
        return False
    _, _, file, *rest = words
    found: dict[str, list[str]] = {"--set": [], "--over": [], "--with": [], "--seeds": ["1"]}
    for key, value in pairwise(rest):
        if key in found:
            found[key].append(value)
    methods = [method for text in found["--with"] for method in methods_in(text)]
    assert plan(ROOT / file, methods, found["--over"], int(found["--seeds"][-1]), found["--set"]).lines
    return True


@dataclass(slots=True)
class Reader:
    """Somebody in a fresh folder that has the examples and benchmarks of the clone."""

    folder: Path
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def follow(self, section: Section, measured: bool = False) -> None:
        """Do what a section says; commands that were measured for hours are only planned."""
        for name in ("examples", "benchmarks"):
            (self.folder / name).symlink_to(ROOT / name)
        ports = {port: str(free_port()) for port in PORTS}
        try:
            for block in section.blocks:
                text = reduce(lambda text, port: text.replace(port, ports[port]), PORTS, block.text)
                self._use(replace(block, text=text), measured)
        finally:
            for program in self.running:
                program.send_signal(signal.SIGTERM)
            for program in self.running:
                _wait_for(program)

    def _use(self, block: Block, measured: bool) -> None:
        if block.file:
            assert block.language in ("toml", "python")
            (self.folder / block.file).write_text(block.text)
        elif block.language == "toml":
            check_table(Experiment, BASE | tomllib.loads(block.text), "a part of an experiment")
        elif block.language == "python":
            (self.folder / "block.py").write_text(block.text)
            self._check(python(self.folder, "block.py"), block.text)
        elif block.language == "sh":
            for command in block.commands:
                if not measured or not _measures(command):
                    self._type(command)

    def _type(self, command: str) -> None:
        words = shlex.split(command)
        if words[0] == "make":
            self._check(_run(["make", "-n", *words[1:]], ROOT), command)
        elif words[:2] == ["pip", "install"]:
            check_requirements(words[2:])
        elif words[-1] == "&":
            program = f"exec {command.removesuffix('&')}"
            self.running.append(subprocess.Popen(["bash", "-c", program], cwd=self.folder, env=_environment()))
            time.sleep(PAUSE)
        elif words[0] == "limbeck" and not set("|<>;$") & set(command):
            self._check(limbeck(self.folder, *words[1:]), command)
        else:
            self._check(_run(["bash", "-ec", command], self.folder), command)

    def _check(self, done: "subprocess.CompletedProcess[str]", what: str) -> None:
        for module in ("dask", "ray"):
            if f"No module named '{module}" in done.stderr:
                pytest.skip(f"needs {module}")
        if done.returncode and re.search(r"LIMBECK_DATA|no data set", done.stderr):
            pytest.skip(f"needs a data set: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, f"{what}\n{done.stderr}"


def _measures(command: str) -> bool:
    """Whether this is one of the long measurements; it is then checked as far as it can be without running it."""
    words = shlex.split(command)
    if words[0] == "python":
        assert (ROOT / words[1]).is_file()
        return True
    return planned(command)


def check_requirements(words: list[str]) -> None:
    """Check that what is to be installed is an extra of this package, or a package with a tested version."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert words[:2] == ["-c", "constraints.txt"]
    for word in words[2:]:
        if named := re.fullmatch(r"\.\[([\w,]+)\]", word):
            assert set(named[1].split(",")) <= set(extras)
        else:
            assert word == "-e" or word in pinned


def _run(words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    if not shutil.which(words[0]):
        pytest.skip(f"needs {words[0]}")
    return subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)


def _wait_for(program: "subprocess.Popen[bytes]") -> None:
    try:
        program.wait(60)
    except subprocess.TimeoutExpired:
        program.kill()
        raise


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def _environment() -> dict[str, Any]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
