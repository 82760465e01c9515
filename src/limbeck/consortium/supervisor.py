"""The server's supervisor: runs Flower's SuperLink in a child process, and restarts it when it crashes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from limbeck.consortium.server import ServerFolder
from limbeck.engines.flower.coordinator import wait_for
from limbeck.engines.flower.keys import expires
from limbeck.errors import LimbeckError
from limbeck.locks import locked

START_TIMEOUT = 60.0  # seconds
MAX_WAIT = 30.0
Log = Callable[[str], None]


def supervise(path: Path, log: Log) -> None:
    """Run the server until it is interrupted.

    Parameters
    ----------
    path : Path
        The server's folder.
    log : callable
        Gets a line about each event.
    """
    from limbeck.engines.flower.superlink import check_free

    folder, wait = ServerFolder(path), 1.0
    host, port = folder.settings.host, folder.settings.port
    check_certificate(folder)
    with locked(path / ".serving.lock", f"{path}: another program serves this folder already; stop it first"):
        check_free(host, port)
        while True:
            child = subprocess.Popen([sys.executable, "-m", __name__, str(path)])
            try:
                began = time.monotonic()
                _ready(folder, child)
                log(f"listening on {host}:{port}; parties connect to {folder.address}")
                child.wait()
                wait = 1.0 if time.monotonic() - began > START_TIMEOUT else min(2 * wait, MAX_WAIT)
                log(f"the SuperLink crashed (exit {child.returncode}); restarting it")
                time.sleep(wait)
            finally:
                child.terminate()
                child.wait()


def check_certificate(folder: ServerFolder) -> None:
    """Raise if a certificate of the folder has expired."""
    for name in ("ca.pem", "server.pem"):
        if (ends := expires(folder.path / name)) < datetime.now(UTC):
            raise LimbeckError(
                f"{folder.path / name} expired on {ends:%Y-%m-%d}: docs/deploy.md explains how to make a new one"
            )


def _ready(folder: ServerFolder, child: "subprocess.Popen[bytes]") -> None:
    """Wait until the SuperLink answers, and register the admitted parties."""
    control = folder.control()
    until = time.monotonic() + START_TIMEOUT
    while True:
        if child.poll() is not None:
            raise LimbeckError("the SuperLink could not be started; its output is above")
        try:
            wait_for(control, 0.5)
            break
        except LimbeckError:
            if time.monotonic() > until:
                raise
    folder.sync(control)
    control.close()


def main(path: str) -> None:
    """In the child: serve until terminated; the argument is the server's folder."""
    from limbeck.engines.flower.superlink import serve

    os.umask(0o077)  # the SuperLink stores answers in its own files
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = ServerFolder(Path(path))
    try:
        serve(folder.path, folder.settings.host, folder.settings.port)
    except LimbeckError as error:
        sys.stderr.write(f"limbeck: {error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
