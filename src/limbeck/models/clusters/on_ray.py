"""Tasks on a Ray cluster."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import grpc  # type: ignore[import-untyped]
import ray
from ray._private.grpc_utils import init_grpc_channel  # with Ray's certificates and token
from ray._private.services import get_ray_address_from_environment
from ray.exceptions import RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from limbeck.models.clusters.cluster import ANSWERING, KILLED, NO_WORKER, PATIENCE, POLL, Cluster, check_answers
from limbeck.models.clusters.packing import run_packed
from limbeck.models.clusters.same_versions import probe

RETRIES = 3  # of a task whose worker dies; Dask's default
TRIES = 3  # to connect: Ray's client server sometimes dies when it starts (github.com/ray-project/ray/issues/63202)


class RayCluster(Cluster):
    """Workers of a Ray cluster.

    Parameters
    ----------
    address : str
        Address that the user gave: `ray://auto` means the cluster of this machine.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            self._connect()
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(run_packed)

    def _connect(self) -> None:
        where = self.address
        if where == "ray://auto":
            where = self._found_here()
        self._check_is_ray(where.removeprefix("ray://"))
        for left in reversed(range(TRIES)):
            try:
                ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL)
                return
            except (ConnectionError, RuntimeError, ValueError) as error:
                if self.address == "ray://auto" or not left:
                    raise self.stopped(f"cannot connect to Ray: {error}") from error

    def _found_here(self) -> str:
        """Return the address of the cluster of this machine; the file that holds it may be of one that was killed."""
        try:
            where: str = get_ray_address_from_environment("auto", None)
        except ConnectionError as error:
            raise self.stopped(str(error)) from error
        host, _, port = where.removeprefix("ray://").rpartition(":")
        if not (host and port.isdecimal()):
            raise self.stopped(f"RAY_ADDRESS or Ray's file of its address says {where!r}; it must be HOST:PORT")
        check_answers(f"{self.address} (found {where})", host, int(port))
        return where

    def _check_is_ray(self, where: str) -> None:
        """Raise in time if no server of gRPC, as Ray's are, listens; `ray.init` would try for minutes."""
        with init_grpc_channel(where) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=ANSWERING)
            except grpc.FutureTimeoutError as error:
                raise self.stopped(
                    f"no Ray answers at {where} within {ANSWERING:.0f} s; is it another program?"
                ) from error

    @property
    def width(self) -> int:
        return sum(int(node["Resources"].get("CPU", 0)) for node in self._nodes())

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]

    def versions(self) -> Mapping[str, Mapping[str, str]]:
        task, found = ray.remote(num_cpus=0)(probe()), {}  # without a core: others may use them all
        for node in self._nodes():
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            name = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
            found[name] = task.options(scheduling_strategy=here).remote()
        return dict(zip(found, ray.get(list(found.values())), strict=True))

    def close(self) -> None:
        if self._is_ours:
            ray.shutdown()

    def _store(self, key: str, value: Any) -> Any:
        return ray.put(value)

    def _submit(self, call: bytes, references: Sequence[Any]) -> Any:
        return self._task.remote(call, *references)

    def _first(self, handles: Collection[Any]) -> Any:
        seen = time.monotonic()
        while True:
            if ended := ray.wait(list(handles), num_returns=1, timeout=POLL)[0]:
                return ended[0]
            seen = time.monotonic() if self._nodes() else seen
            if time.monotonic() - seen > PATIENCE:
                raise self.stopped(NO_WORKER)

    def _result(self, handle: Any) -> bytes:
        try:
            result: bytes = ray.get(handle)
        except WorkerCrashedError as error:
            raise self.stopped(KILLED) from error
        except RayTaskError as error:
            raise error.cause or error from None
        return result

    def _cancel(self, handles: Collection[Any]) -> None:
        for handle in handles:
            ray.cancel(handle)
