"""Fresh processes that start fast: they are forked from a process that has imported everything already.

Where a system cannot fork (Windows), each one is a new Python.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar


class ForkServer:
    """Process that forks one child for each task, and reports when the child has ended."""

    idle: ClassVar[list["ForkServer"]] = []

    def __init__(self) -> None:
        self.line, theirs = Pipe()
        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        self.process = subprocess.Popen(command, stdin=theirs.fileno(), env={**os.environ, "PYTHONPATH": path})
        theirs.close()
        atexit.register(self.close)

    def spawn(self, task: str, home: Path, needs: str) -> None:
        """Run a task in a child; return when the child has ended, also if it crashed.

        Parameters
        ----------
        task : str
            The task, as `module:function`.
        home : Path
            Folder that the function gets.
        needs : str
            Module to import before the fork, if it belongs to Limbeck.
        """
        self.line.send_bytes(_job(task, home, needs))
        self.line.recv_bytes()

    def close(self) -> None:
        """Stop the process."""
        self.line.close()
        self.process.wait()


def _job(task: str, home: Path, needs: str) -> bytes:
    job = {"task": task, "home": str(home), "needs": needs, "path": sys.path, "here": str(Path.cwd())}
    return json.dumps({**job, "program": os.getpid()}).encode()


def in_a_fresh_process(task: str, home: Path, needs: str = "") -> None:
    """Call a function in a child process, so that a crash does not end the caller.

    Parameters
    ----------
    task : str
        The function, as `module:function`.
    home : Path
        Folder that the function gets.
    needs : str
        Module to import before the fork, if it belongs to Limbeck.
    """
    if not hasattr(os, "fork"):
        _in_a_new_program(_job(task, home.resolve(), needs))
        return
    try:
        server = ForkServer.idle.pop()
    except IndexError:
        server = ForkServer()
    if server.process.poll() is not None:  # it crashed while it was idle
        server = ForkServer()
    with suppress(EOFError, ConnectionError):  # it crashed, and its child has ended too
        server.spawn(task, home.resolve(), needs)
        ForkServer.idle.append(server)


def _in_a_new_program(job: bytes) -> None:
    """Do a job in a new Python, where a system cannot fork; return when it has ended, also if it crashed."""
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", f"from {__name__} import serve_once; serve_once()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as child:
        assert child.stdin
        with suppress(OSError):
            child.stdin.write(job + b"\n")
            child.stdin.flush()
        child.wait()


def serve_once() -> None:
    """Do the job on the first line of stdin; end if the caller ends."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    _perform(job)


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _perform(job: Mapping[str, Any]) -> None:
    module, function = job["task"].split(":")
    sys.path[:] = job["path"]
    os.chdir(job["here"])
    getattr(import_module(module), function)(Path(job["home"]))
    sys.stdout.flush()
    os._exit(0)


def serve() -> None:
    """Main loop of the fork server: fork a child for each task, until the program closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    line = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while True:
        try:
            job = json.loads(line.recv_bytes())
        except EOFError:
            return
        import_module(job["task"].split(":")[0])
        if job["needs"].startswith("limbeck."):
            import_module(job["needs"])
        parent, child = os.getpid(), os.fork()
        if child == 0:
            line.close()
            threading.Thread(target=_end_with, args=(parent, job["program"]), daemon=True).start()
            _perform(job)
        os.waitpid(child, 0)
        line.send_bytes(b"")


def _end_with(parent: int, program: int) -> None:
    """In the child: exit when the program or the fork server has ended."""
    while os.getppid() == parent:
        try:
            os.kill(program, 0)
        except ProcessLookupError:
            break
        time.sleep(0.2)
    os._exit(1)
