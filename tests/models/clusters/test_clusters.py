"""Real clusters of several processes: workers that are killed, data that goes once, and errors in one line."""

import http.server
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import limbeck
from dying_jobs import DyingSum
from limbeck.errors import LimbeckError
from limbeck.models.clusters import connecting, on_dask
from limbeck.models.clusters.connecting import connected
from limbeck.models.clusters.trainer import ClusterError, ClusterTrainer
from limbeck.models.jobs import Fit, FitAndVote
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.learning import FitError
from limbeck.protocol.rows import content_hash
from local_clusters import HERE, dask_cluster, ray_cluster, workers_of

TESTS = str(Path(__file__).parents[2])
CODE = os.pathsep.join([str(Path(limbeck.__file__).parents[1]), TESTS])  # what workers import
TREE, BAYES = model_from({"name": "decision-tree"}), model_from({"name": "naive-bayes"})
RNG = np.random.default_rng(0)
ROWS, LABELS = RNG.normal(size=(20_000, 20)).astype(np.float32), RNG.integers(0, 3, 20_000)


@pytest.fixture(scope="module")
def dask() -> Iterator[tuple[str, psutil.Process]]:
    """Its memory manager, which frees second copies every two seconds, is off: transfers can be counted."""
    manager = {"DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False"}
    with dask_cluster("--nworkers", "2", PYTHONPATH=CODE, **manager) as found:
        yield found


@pytest.fixture(scope="module")
def ray() -> Iterator[tuple[str, psutil.Process]]:
    with ray_cluster(PYTHONPATH=CODE) as found:
        yield found


@pytest.fixture(params=["dask", pytest.param("ray", marks=pytest.mark.slow)])
def cluster(request: pytest.FixtureRequest) -> tuple[str, psutil.Process]:
    found: tuple[str, psutil.Process] = request.getfixturevalue(request.param)
    return found


def jobs(number: int) -> list[Any]:
    return [FitAndVote(TREE, ROWS[i : i + 2000], LABELS[i : i + 2000], ROWS[-2000:]) for i in range(number)]


def test_jobs_give_what_local_processes_give(cluster: tuple[str, psutil.Process]) -> None:
    """Also after a job that fails."""
    with connected(cluster[0]) as workers:
        assert workers is not None
        trainer = ClusterTrainer(workers)
        found, here = (each.run(jobs(6), 3, range(6)) for each in (trainer, PoolTrainer(1)))
        np.testing.assert_array_equal(found, here)
        fits = [Fit(TREE, ROWS[:3000], LABELS[:3000]), Fit(BAYES, ROWS, LABELS)]
        assert trainer.run(fits, 3, [5, 6]) == PoolTrainer(1).run(fits, 3, [5, 6])
        with pytest.raises(FitError, match="cannot fit decision-tree to 0 rows: no row has a label") as failed:
            trainer.run([*jobs(2), Fit(TREE, ROWS[:0], LABELS[:0])], 3, range(3))
        assert failed.value.index == 2
        np.testing.assert_array_equal(trainer.run(jobs(6), 3, range(6)), here)


@pytest.mark.slow
def test_a_job_whose_worker_is_killed_runs_again(cluster: tuple[str, psutil.Process], tmp_path: Path) -> None:
    """Two deaths, one of each worker perhaps: what they stored is sent again."""
    address, parent = cluster
    with connected(address) as workers:
        assert workers is not None
        before = {process.pid for process in workers_of(parent)}
        dying = [DyingSum(ROWS, str(tmp_path / "journal"), deaths=2) for _ in range(6)]
        assert ClusterTrainer(workers).run(dying, 3, range(6)) == [float(ROWS.sum()) + seed for seed in range(6)]
        assert (tmp_path / "journal").stat().st_size == 2
        assert before != {process.pid for process in workers_of(parent)}


@pytest.mark.slow
def test_a_job_that_kills_every_worker_ends_the_run(cluster: tuple[str, psutil.Process], tmp_path: Path) -> None:
    with connected(cluster[0]) as workers:
        assert workers is not None
        with pytest.raises(ClusterError, match="a task's worker was killed again and again"):
            ClusterTrainer(workers).run([DyingSum(ROWS, str(tmp_path / "journal"), deaths=99)], 3, [0])


@contextmanager
def counting(address: str) -> Iterator[tuple[str, list[int]]]:
    """An address that passes everything on to a cluster; yields it with the sizes of what the client sends."""
    kind, _, port = address.replace("//", "").split(":")
    sent: list[int] = []

    def copy(source: socket.socket, target: socket.socket, sizes: list[int]) -> None:
        try:
            while data := source.recv(2**16):
                sizes.append(len(data))
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            each.close()

    def accept() -> None:
        while True:
            try:
                client, _ = entrance.accept()
            except OSError:
                return
            server = socket.create_connection((HERE, int(port)))
            for ends in ((client, server, sent), (server, client, [])):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    with socket.create_server((HERE, 0)) as entrance:
        threading.Thread(target=accept, daemon=True).start()
        yield f"{kind}://{HERE}:{entrance.getsockname()[1]}", sent


def test_rows_are_sent_once(cluster: tuple[str, psutil.Process]) -> None:
    """Twenty-four jobs on the same 1.8 MB, in three calls: this program sends them once, and no worker fetches them twice."""
    rows, labels = ROWS + 1, LABELS.copy()
    labels[0] = 2
    same_rows = [FitAndVote(BAYES, rows, labels, rows[: 100 + i]) for i in range(8)]
    with counting(cluster[0]) as (address, sent), connected(address) as workers:
        assert workers is not None
        for _ in range(3):
            ClusterTrainer(workers).run(same_rows, 3, range(8))
        size = rows.nbytes + labels.nbytes
        assert size < sum(sent) < 1.25 * size
        if isinstance(workers, on_dask.DaskCluster):
            large = [f"limbeck-C{content_hash(array)}" for array in (rows, labels)]
            logs = workers._client.run(lambda dask_worker: [log["keys"] for log in dask_worker.transfer_incoming_log])
            for log in logs.values():
                assert all(sum(key in keys for keys in log) <= 1 for key in large)


@pytest.mark.slow
def test_without_workers_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "PATIENCE", 2.0)
    with dask_cluster("--no-nanny", PYTHONPATH=CODE) as (address, worker), connected(address) as workers:
        assert workers is not None
        worker.kill()
        with pytest.raises(ClusterError, match=r"no worker is left; start workers, and repeat the command"):
            ClusterTrainer(workers).run(jobs(2), 3, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("start", [dask_cluster, ray_cluster])
def test_a_worker_of_another_version_is_refused(start: Any, tmp_path: Path) -> None:
    package = Path(limbeck.__file__).parent
    shutil.copytree(package, tmp_path / "limbeck", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "limbeck" / "_version.py").write_text('__version__ = "0.0.9"\n')
    line = rf"has limbeck 0\.0\.9, this program has limbeck {limbeck.__version__}; install the same versions"
    with start(PYTHONPATH=str(tmp_path)) as (address, _), pytest.raises(LimbeckError, match=line), connected(address):
        pass


@pytest.mark.slow
def test_a_module_that_a_worker_lacks_is_named() -> None:
    with dask_cluster(PYTHONPATH=CODE.partition(os.pathsep)[0]) as (address, _), connected(address) as workers:
        assert workers is not None
        with pytest.raises(ClusterError, match=r"a worker: No module named 'dying_jobs'; put the folder of the module"):
            ClusterTrainer(workers).run([DyingSum(ROWS, "", 0)], 3, [0])


@pytest.mark.slow
def test_a_scheduler_that_stops_ends_the_run() -> None:
    with dask_cluster("--nworkers", "2", PYTHONPATH=CODE) as (address, _), connected(address) as workers:
        assert workers is not None
        port = address.rpartition(":")[2]
        [scheduler] = [each for each in psutil.Process().children() if port in each.cmdline()]
        threading.Timer(1.0, scheduler.kill).start()
        with pytest.raises(ClusterError, match="the connection to the scheduler is lost"):
            ClusterTrainer(workers).run([FitAndVote(TREE, ROWS, LABELS, ROWS[:9]) for _ in range(30)], 3, range(30))


@pytest.mark.slow
def test_a_scheduler_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "PATIENCE", 2.0)
    with dask_cluster("--no-nanny") as (address, worker):
        worker.kill()
        with pytest.raises(LimbeckError, match="the Dask scheduler has no workers"), connected(address):
            pass


@pytest.mark.parametrize(
    "address",
    ["dask:8786", "dask://", "dask://here", "spark://here:1", "ray://here:x", "dask://a:0", "dask://here:８７８６"],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with (
        pytest.raises(LimbeckError, match=r"write dask://HOST:PORT, ray://HOST:PORT or ray://auto"),
        connected(address),
    ):
        pass


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_an_address_where_nobody_answers_is_refused(kind: str) -> None:
    with socket.socket() as bound:
        bound.bind((HERE, 0))
        address = f"{kind}://{HERE}:{bound.getsockname()[1]}"
        with (
            pytest.raises(LimbeckError, match=f"cluster {address}: nobody answers: Connection refused"),
            connected(address),
        ):
            pass


def test_a_host_that_is_no_name_is_refused() -> None:
    with pytest.raises(LimbeckError, match=r"cluster dask://\.\.:80: nobody answers"), connected("dask://..:80"):
        pass


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_another_program_than_the_cluster_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server, which answers each of them with an error page of HTTP."""
    monkeypatch.setattr(pytest.importorskip(f"limbeck.models.clusters.on_{kind}"), "ANSWERING", 2.0)
    with http.server.ThreadingHTTPServer((HERE, 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"{kind}://{HERE}:{server.server_port}"
        with (
            pytest.raises(LimbeckError, match=rf"^cluster {address}: no (Dask scheduler|Ray) answers.*$"),
            connected(address),
        ):
            pass
        server.shutdown()


@pytest.mark.parametrize(
    ("found", "message"),
    [("{here}", r"auto \(found {here}\): nobody answers: Connection refused"), ("local", "it must be HOST:PORT")],
)
def test_the_address_of_a_killed_ray_is_refused(
    found: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = pytest.importorskip("ray._private.services")
    monkeypatch.setattr(services, "find_gcs_addresses", set)  # whatever else runs on this machine
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.socket() as bound:
        bound.bind((HERE, 0))
        here = f"{HERE}:{bound.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(found.format(here=here))
        with pytest.raises(LimbeckError, match=message.format(here=here)), connected("ray://auto"):
            pass


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connecting.LIBRARIES, "ray", "a_library_that_is_not_there")
    with pytest.raises(LimbeckError, match="a Ray cluster needs the extra `cluster`"), connected("ray://here:10001"):
        pass


def test_processes_and_a_cluster_exclude_each_other() -> None:
    with pytest.raises(LimbeckError, match="choose one of them"), connected("dask://here:8786", processes=2):
        pass
