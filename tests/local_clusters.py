"""Dask and Ray clusters of several processes on this machine, started as their users start them."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from distributed import Client

from pages import free_port

BIN = Path(sys.executable).parent
HERE = "127.0.0.1"
STARTING = 60.0  # seconds
WORKERS = ("multiprocessing.spawn", "ray::")  # how the command lines of Dask's and Ray's workers are known


@contextmanager
def dask_cluster(*options: str, **environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """A scheduler and two workers of one thread each; yields the address, and the parent of the workers."""
    port, protocol = free_port(), "tls" if "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION" in environment else "tcp"
    scheduler = ["dask", "scheduler", "--host", HERE, "--port", str(port), "--protocol", protocol, "--no-dashboard"]
    worker = ["dask", "worker", f"{protocol}://{HERE}:{port}", "--nthreads", "1", "--no-dashboard", *options]
    with _started(scheduler, environment) as first, _started(worker, environment) as second:
        _wait_for(port, first)
        if protocol == "tcp":
            with Client(f"tcp://{HERE}:{port}", set_as_default=False) as client:
                client.wait_for_workers(2 if "--nworkers" in options else 1, timeout=STARTING)
        yield f"dask://{HERE}:{port}", second


@contextmanager
def ray_cluster(**environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """A node with two workers; yields the address of its client server, and the parent of the workers."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        options = ["--port", "0", "--ray-client-server-port", str(port), "--temp-dir", folder, "--num-cpus", "2"]
        quiet = ["--include-dashboard=false", "--disable-usage-stats", "--object-store-memory", "200000000"]
        with _started(["ray", "start", "--head", "--block", *options, *quiet], environment) as head:
            _wait_for(port, head)
            yield f"ray://{HERE}:{port}", head


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[psutil.Process]:
    """A program in the background, which ends with all its processes."""
    words, variables = [str(BIN / command[0]), *command[1:]], {**os.environ, **environment}
    with tempfile.TemporaryFile() as log:
        program = subprocess.Popen(words, env=variables, stdout=log, stderr=log, start_new_session=True)
        process = psutil.Process(program.pid)
        try:
            yield process
        finally:
            family = process.children(recursive=True) if program.poll() is None else []
            program.terminate()
            psutil.wait_procs([process], timeout=10)
            for each in [process, *family]:
                if each.is_running():
                    each.kill()
            program.wait()


def _wait_for(port: int, program: psutil.Process) -> None:
    """Wait until somebody answers at a port."""
    end = time.monotonic() + STARTING
    while program.is_running() and time.monotonic() < end:
        with socket.socket() as trial:
            if not trial.connect_ex((HERE, port)):
                return
        time.sleep(0.1)
    raise AssertionError(f"{program} does not listen at {port}")


def workers_of(parent: psutil.Process) -> list[psutil.Process]:
    """The worker processes of a cluster."""
    found = []
    for process in parent.children(recursive=True):
        try:
            if any(mark in " ".join(process.cmdline()) for mark in WORKERS):
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def killing(parent: psutil.Process, times: int, pause: float) -> Iterator[list[int]]:
    """Kill a worker that works, after each pause; yields the ids of the killed processes."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        rng = random.Random(0)
        while len(killed) < times and not over.wait(pause):
            if working := [process for process in workers_of(parent) if _works(process)]:
                victim = rng.choice(working)
                victim.send_signal(signal.SIGKILL)
                killed.append(victim.pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _works(process: psutil.Process) -> bool:
    try:
        return bool(process.cpu_percent(0.1) > 20.0)
    except psutil.Error:
        return False
