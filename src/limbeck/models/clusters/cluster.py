"""What Dask and Ray have in common: workers run tasks, and a large value goes to each worker once."""

import pickle
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.models.clusters.packing import Known, packed
from limbeck.models.clusters.trainer import ClusterError

ANSWERING = 10.0  # seconds until a connection must be there
AHEAD = 2  # tasks for each worker that are submitted: the next one is there when a task ends
UNUSED = 8  # calls of `run` after which a stored value that no task used is released
PATIENCE = 30.0  # seconds without any worker until a run stops
POLL = 1.0  # seconds between checks that there are workers
NO_WORKER = "no worker is left; start workers, and repeat the command"
KILLED = "a task's worker was killed again and again, perhaps for lack of memory"


class Cluster(ABC):
    """Worker processes of a cluster; see `Workers`.

    Parameters
    ----------
    address : str
        Address that the user gave.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._stored: dict[str, Any] = {}
        self._used: dict[str, int] = {}  # number of the last call that used a stored value
        self._calls = 0

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of tasks that run at the same time."""

    @abstractmethod
    def versions(self) -> Mapping[str, Mapping[str, str]]:
        """Versions of the libraries at each worker, by its address."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect. The workers go on."""

    @abstractmethod
    def _store(self, key: str, value: Any) -> Any:
        """Store a value under its content hash; returns a reference to it."""

    @abstractmethod
    def _submit(self, call: bytes, references: Sequence[Any]) -> Any:
        """Submit a packed call; returns a handle."""

    @abstractmethod
    def _first(self, handles: Collection[Any]) -> Any:
        """Wait until one of several tasks has ended; returns its handle."""

    @abstractmethod
    def _result(self, handle: Any) -> bytes:
        """Return the result of a task that has ended, or raise its error."""

    @abstractmethod
    def _cancel(self, handles: Collection[Any]) -> None:
        """Cancel tasks."""

    def run(self, function: Callable[..., Any], tasks: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        """Run a function once for each task; see `Workers`."""
        self._calls += 1
        known: Known = {}
        numbered = enumerate(tasks)
        waiting: dict[Any, int] = {}
        try:
            while True:
                for number, task in islice(numbered, max(not waiting, AHEAD * self.width - len(waiting))):
                    with self._naming_errors():
                        waiting[self._submitted(function, task, known)] = number
                if not waiting:
                    return
                with self._naming_errors():
                    handle = self._first(waiting)
                    result = pickle.loads(self._result(handle))  # noqa: S301 - from our own worker
                yield waiting.pop(handle), result
        finally:
            if waiting:
                with suppress(Exception):  # the connection may be lost
                    self._cancel(waiting)
            self._release()

    def _submitted(self, function: Callable[..., Any], task: Sequence[Any], known: Known) -> Any:
        call, large = packed(function, task, known)
        for key, value in large.items():
            if key not in self._stored:
                self._stored[key] = self._store(key, value)
            self._used[key] = self._calls
        return self._submit(call, [self._stored[key] for key in large])

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except LimbeckError:
            raise
        except ImportError as error:
            raise self.stopped(f"a worker: {error}; put the folder of the module on its PYTHONPATH") from error
        except Exception as error:
            raise self.stopped(f"{type(error).__name__}: {error}") from error

    def stopped(self, reason: str) -> ClusterError:
        """Return the error that a run cannot go on, in one line."""
        return ClusterError(f"cluster {self.address}: {' '.join(reason.split())}")

    def _release(self) -> None:
        for key in [key for key, call in self._used.items() if self._calls - call >= UNUSED]:
            del self._used[key], self._stored[key]


def check_answers(address: str, host: str, port: int) -> None:
    """Raise if nobody listens at a port.

    Parameters
    ----------
    address : str
        Address of the cluster, for the message.
    host : str
        Host; an address of IPv6 in brackets.
    port : int
        Port.

    Raises
    ------
    LimbeckError
        With the reason.
    """
    try:
        socket.create_connection((host.strip("[]"), port), timeout=ANSWERING).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: no valid name of a host
        reason = getattr(error, "strerror", None) or error
        raise LimbeckError(f"cluster {address}: nobody answers: {reason}") from error
