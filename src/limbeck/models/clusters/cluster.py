"""What Dask and Ray have in common: workers run tasks, and a large value goes to each worker once."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.models.clusters.packing import Known, packed
from limbeck.models.clusters.trainer import ClusterError

AHEAD = 2  # tasks for each worker that are submitted: the next one is there when a task ends
KEPT = 8  # calls of `run` after which a stored value that no task used is forgotten
PATIENCE = 30.0  # seconds without any worker until a run stops
POLL = 1.0  # seconds between checks that there are workers


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
        self._calls += 1
        known: Known = {}
        numbered = enumerate(tasks)
        waiting: dict[Any, int] = {}
        try:
            while True:
                for number, task in islice(numbered, max(0, AHEAD * self.width - len(waiting))):
                    waiting[self._submitted(function, task, known)] = number
                if not waiting:
                    return
                handle = self._first(waiting)
                number = waiting.pop(handle)
                yield number, self._unpacked(handle)
        finally:
            self._cancel(waiting)
            self._forget()

    def _submitted(self, function: Callable[..., Any], task: Sequence[Any], known: Known) -> Any:
        call, large = packed(function, task, known)
        for key, value in large.items():
            if key not in self._stored:
                self._stored[key] = self._store(key, value)
            self._used[key] = self._calls
        return self._submit(call, [self._stored[key] for key in large])

    def _unpacked(self, handle: Any) -> Any:
        try:
            return pickle.loads(self._result(handle))  # noqa: S301 - from our own worker
        except LimbeckError:
            raise
        except Exception as error:  # a worker may lack a module of the user's
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ClusterError(f"cluster {self.address}: a worker cannot run a task: {reason}") from error

    def _forget(self) -> None:
        for key in [key for key, call in self._used.items() if self._calls - call >= KEPT]:
            del self._used[key], self._stored[key]

    def _no_worker(self) -> ClusterError:
        return ClusterError(f"cluster {self.address}: no worker is left; start workers, and repeat the command")

    def _worker_died(self) -> ClusterError:
        return ClusterError(
            f"cluster {self.address}: a task's worker was killed again and again, perhaps for lack of memory"
        )
