"""The program on a system without what only Unix has: locks of fcntl, limits of processes, fork, SIGHUP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from limbeck.locks import locked

AS_ELSEWHERE = """
import os, signal, sys
for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None
for home, names in (
    (os, ("fork", "forkpty", "getuid", "geteuid", "getgid", "sched_getaffinity", "killpg", "setsid", "fchmod")),
    (signal, ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "pthread_sigmask")),
):
    for name in names:
        if hasattr(home, name):
            delattr(home, name)
"""
PROGRAM = (
    AS_ELSEWHERE
    + """
import json
from limbeck.__main__ import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["limbeck", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
"""
)
EXPERIMENT = """
data = { name = "iris", parties = 2, public = 0.3, test = 0.2 }
model = { name = "decision-tree" }
algorithm = { name = "fedvote" }
"""
HOLDER = """
import sys, time
from pathlib import Path
from limbeck.locks import locked
with locked(Path(sys.argv[1]), "held"):
    print("locked", flush=True)
    time.sleep(60)
"""


def elsewhere(here: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LOKY_MAX_CPU_COUNT": "1", "PYTHONIOENCODING": "cp1252"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_run_predict_and_compare(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    (tmp_path / "rows.csv").write_text("a,b,c,d\n5.1,3.5,1.4,0.2\n")
    commands = [
        ["run", "e.toml", "--out", "out"],
        ["predict", "out/model.onnx", "rows.csv"],
        ["compare", "e.toml", "--with", "solo", "--seeds", "1"],
    ]
    shown = elsewhere(tmp_path, PROGRAM, json.dumps(commands))
    assert "epsilon" in shown
    assert json.loads((tmp_path / "out" / "record.json").read_text())["metrics"]["accuracy"] > 0.5
    assert "prediction," in shown
    assert (tmp_path / "results" / "e-compare.json").is_file()


def test_a_fresh_process_needs_no_fork(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("def work(home):\n    (home / 'done').write_text('yes')\n")
    program = (
        f"{AS_ELSEWHERE}\nfrom pathlib import Path\nsys.path.insert(0, '.')\n"
        "from limbeck.engines.fork_server import in_a_fresh_process\nin_a_fresh_process('task:work', Path('.'))"
    )
    elsewhere(tmp_path, program)
    assert (tmp_path / "done").read_text() == "yes"


def test_models_of_others_are_refused_where_processes_have_no_limits(tmp_path: Path) -> None:
    program = (
        f"{AS_ELSEWHERE}\nfrom pathlib import Path\nfrom limbeck.models.inspection import Limits, limit_process\n"
        "try:\n    limit_process(Path('.'), Limits())\nexcept ValueError as error:\n    print(error)"
    )
    assert "use Linux or macOS" in elsewhere(tmp_path, program)


def test_a_lock_ends_with_its_program(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(ValueError, match="in use"), locked(path, "in use"):
            pass
        holder.kill()
        holder.wait()
    with locked(path, "in use"):
        pass


def test_a_program_that_fails_to_lock_does_not_release_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    tries = "import sys; from pathlib import Path; from limbeck.locks import locked\nwith locked(Path(sys.argv[1]), 'in use'): pass"
    with locked(path, "in use"):
        with pytest.raises(ValueError, match="in use"), locked(path, "in use"):
            pass
        done = subprocess.run([sys.executable, "-c", tries, str(path)], capture_output=True, text=True, check=False)
    assert "in use" in done.stderr
