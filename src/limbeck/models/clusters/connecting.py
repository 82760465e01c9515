"""Connections to clusters, by their addresses."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from limbeck.errors import LimbeckError, missing_extra
from limbeck.models.clusters.cluster import Cluster, check_answers
from limbeck.models.clusters.same_versions import check_versions

ADDRESS = re.compile(r"(dask|ray)://(?:([\w.-]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5}))")
HERE = "ray://auto"
LIBRARIES = {"dask": "distributed", "ray": "ray"}


@contextmanager
def connected(address: str | None, processes: int | None = None) -> Iterator[Cluster | None]:
    """Connect to a cluster for the length of a run.

    Parameters
    ----------
    address : str or None
        `dask://HOST:PORT`, `ray://HOST:PORT` or `ray://auto`; None means no cluster.
    processes : int or None
        Number of local processes, which a cluster excludes.

    Yields
    ------
    Cluster or None
        The cluster, whose workers have the versions of this program.

    Raises
    ------
    LimbeckError
        If there is no such cluster, or a worker has other versions.

    Examples
    --------
    >>> with connected("dask:8786"):
    ...     pass
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: cluster 'dask:8786': write dask://HOST:PORT, ray://HOST:PORT or ray://auto
    """
    if address is None:
        yield None
        return
    if processes is not None:
        raise LimbeckError(f"processes = {processes}, cluster = {address}: choose one of them")
    cluster = _connect(address)
    try:
        check_versions(address, cluster.versions())
        yield cluster
    finally:
        cluster.close()


def _connect(address: str) -> Cluster:
    kind, host, port = _parts(address)
    if find_spec(LIBRARIES[kind]) is None:
        raise missing_extra(f"a {kind.capitalize()} cluster", "cluster")
    if port:
        check_answers(address, host, port)
    if kind == "dask":
        from limbeck.models.clusters.on_dask import DaskCluster

        return DaskCluster(address)
    from limbeck.models.clusters.on_ray import RayCluster

    return RayCluster(address)


def _parts(address: str) -> tuple[str, str, int]:
    if address == HERE:
        return "ray", "", 0
    match = ADDRESS.fullmatch(str(address))
    if match is None or not 0 < int(match[3]) < 2**16:
        raise LimbeckError(f"cluster {address!r}: write dask://HOST:PORT, ray://HOST:PORT or {HERE}")
    return match[1], match[2], int(match[3])
