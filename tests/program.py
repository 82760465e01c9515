"""The program in a real process of its own, forked from one that has imported the libraries: no two seconds a call."""

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

HEAVY = [
    "limbeck.experiments.run",
    "limbeck.report.tables",
    "sklearn.ensemble",
    "sklearn.svm",
    "skl2onnx",
    "onnxruntime",
]
ONE_CORE = {"LOKY_MAX_CPU_COUNT": "1"}  # no pool of processes, which takes seconds to start


def limbeck(here: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `limbeck` with these arguments in the folder `here`."""
    return _in_a_process(here, ["limbeck", *arguments], environment)


def python(here: Path, file: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python file in the folder `here`."""
    return _in_a_process(here, [file], environment)


def _in_a_process(here: Path, words: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        variables = {**os.environ, **ONE_CORE, **environment}
        process = context.Process(target=_run, args=(here, words, variables, out, err))
        process.start()
        process.join()
        code = process.exitcode
        assert code is not None
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


def _run(here: Path, words: list[str], environment: Mapping[str, str], out: Path, err: Path) -> None:
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((0, Path(os.devnull)), (1, out), (2, err)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
    sys.argv = words
    if words[0] != "limbeck":
        sys.path.insert(0, str(here))
        runpy.run_path(words[0], run_name="__main__")
        return
    from limbeck.__main__ import main

    main()
