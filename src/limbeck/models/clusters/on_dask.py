"""Tasks on a Dask cluster."""

import asyncio
import logging
import queue
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import connect
from distributed.security import Security

from limbeck.models.clusters.cluster import ANSWERING, KILLED, NO_WORKER, PATIENCE, POLL, Cluster
from limbeck.models.clusters.packing import run_packed
from limbeck.models.clusters.same_versions import is_other_python, probe


class DaskCluster(Cluster):
    """Workers of a Dask cluster.

    A stored value is the result of a task, which Dask runs again if all workers that hold it have died.

    Parameters
    ----------
    address : str
        Address that the user gave.

    Notes
    -----
    The connection is TLS if Dask's configuration says `distributed.comm.require-encryption`.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        protocol = "tls" if dask.config.get("distributed.comm.require-encryption") else "tcp"
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what concerns a run is raised
        try:
            where = address.replace("dask", protocol, 1)
            _check_is_dask(where)
            self._client = Client(where, timeout=ANSWERING, set_as_default=False)
        except Exception as error:  # whatever listens there may send anything
            reason = str(error) or f"nothing within {ANSWERING:.0f} s"
            raise self.stopped(f"no Dask scheduler answers: {reason}") from error
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            self.close()
            raise self.stopped("the Dask scheduler has no workers; start some with `dask worker`") from error

    @property
    def width(self) -> int:
        return len(self._client.nthreads())

    def versions(self) -> Mapping[str, Mapping[str, str]]:
        there = self._client.get_versions()["workers"]
        pythons = {worker: str(each["host"]["python"]) for worker, each in there.items()}
        if any(map(is_other_python, pythons.values())):
            return {worker: {"python": python} for worker, python in pythons.items()}
        found: dict[str, dict[str, str]] = self._client.run(probe())
        return found

    def close(self) -> None:
        self._client.close()

    def _store(self, key: str, value: Any) -> Future:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": 2**60}):
            return self._client.submit(_same, value, key=f"limbeck-{key}")

    def _submit(self, call: bytes, references: Sequence[Any]) -> Future:
        future = self._client.submit(run_packed, call, *references, pure=False)
        future.add_done_callback(self._ended.put)
        return future

    def _first(self, handles: Collection[Any]) -> Future:
        seen = time.monotonic()
        while True:
            try:
                future = self._ended.get(timeout=POLL)
                if future in handles:
                    return future
            except queue.Empty:
                seen = time.monotonic() if self._has_workers() else seen
                if time.monotonic() - seen > PATIENCE:
                    raise self.stopped(NO_WORKER) from None

    def _has_workers(self) -> bool:
        try:
            return self._client.status == "running" and bool(self._client.nthreads())
        except OSError:
            return False

    def _result(self, handle: Future) -> bytes:
        try:
            result: bytes = handle.result()
        except KilledWorker as error:
            raise self.stopped(KILLED) from error
        except FutureCancelledError as error:
            raise self.stopped("the connection to the scheduler is lost") from error
        return result

    def _cancel(self, handles: Collection[Any]) -> None:
        self._client.cancel(list(handles))


def _check_is_dask(where: str) -> None:
    """Raise in time if what listens does not greet as Dask does; a `Client` would wait for ever."""

    async def greet() -> None:
        greeted = connect(where, timeout=ANSWERING, **Security().get_connection_args("client"))
        (await asyncio.wait_for(greeted, ANSWERING)).abort()

    with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a loop, as in a notebook
        thread.submit(asyncio.run, greet()).result()


def _same(value: Any) -> Any:
    return value
