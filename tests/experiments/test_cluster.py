"""Runs and sweeps on real clusters give what local processes give, also when workers are killed."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import limbeck
from limbeck.errors import LimbeckError
from limbeck.experiments.compare import compare
from limbeck.experiments.plan import plan
from limbeck.experiments.results_folder import Results
from limbeck.experiments.run import run_file
from limbeck.models.clusters import on_dask
from limbeck.models.clusters.connecting import connected
from limbeck.models.clusters.trainer import ClusterError
from local_clusters import dask_cluster, killing, ray_cluster
from program import limbeck as program

CODE = os.pathsep.join([str(Path(limbeck.__file__).parents[1]), str(Path(__file__).parents[1])])
Address = tuple[str, psutil.Process]
FILE = """
[data]
name = "digits"
parties = 4
split = { kind = "dirichlet", beta = 0.5, min_rows = 5 }
public = 0.1
test = 0.2
[model]
name = "random-forest"
n_estimators = 5
[algorithm]
name = "fedkt"
"""
GRID = ["algorithm.partitions=1,2", "algorithm.subsets=2,3,4,5,6"]  # at ten seeds: 100 runs


@pytest.fixture(scope="module", params=["dask", "ray"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Address]:
    started = (
        dask_cluster("--nworkers", "2", PYTHONPATH=CODE) if request.param == "dask" else ray_cluster(PYTHONPATH=CODE)
    )
    with started as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(FILE)
    return path


def stored(folder: Path) -> dict[str, Any]:
    """Results of a folder without the seconds that training took."""
    found = {path.name: json.loads(path.read_text()) for path in (folder / "runs").glob("*.json")}
    return {name: {key: value for key, value in each.items() if key != "seconds"} for name, each in found.items()}


def outcome(folder: Path) -> dict[str, Any]:
    """Files of a run's folder, without what depends on the clock, the machine or the trainer."""
    record = json.loads((folder / "record.json").read_text())
    del record["timing"]
    return {"record": record, "model": (folder / "model.onnx").read_bytes()}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the hundred runs in local processes."""
    folder = tmp_path_factory.mktemp("local")
    file = folder / "e.toml"
    file.write_text(FILE)
    compare(plan(file, over=GRID, seeds=10), Results(folder), processes=2)
    assert len(stored(folder)) == 100
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    ["{name='fedkt'}", "{name='fedkt', privacy={level='L2', gamma=0.5}}", "{name='fedvote'}", "{name='fedridge'}"],
)
def test_a_run_is_the_same_to_the_bit(cluster: Address, file: Path, tmp_path: Path, algorithm: str) -> None:
    """Model, ledger, metrics, bytes and curve: only times and the trainer differ."""
    command = ["run", file.name, "--set", f"algorithm={algorithm}", "--set", "noise='simulated'"]
    here = program(tmp_path, *command, "--processes", "1", "--out", "here")
    there = program(tmp_path, *command, "--cluster", cluster[0], "--out", "there")
    assert here.returncode == there.returncode == 0, there.stderr
    assert outcome(tmp_path / "there") == outcome(tmp_path / "here")
    trainer = json.loads((tmp_path / "there" / "record.json").read_text())["timing"]["training"]
    assert trainer == {"trainer": "cluster", "device": "cpu", "why": f"cluster = {cluster[0]}"}


@pytest.mark.slow
def test_a_sweep_of_a_hundred_runs_is_the_same_while_workers_are_killed(
    cluster: Address, local: Path, file: Path, tmp_path: Path
) -> None:
    """Ten seeds are at least as many as workers: whole runs are spread."""
    with connected(cluster[0]) as workers, killing(cluster[1], times=3, pause=1.0) as killed:
        compare(plan(file, over=GRID, seeds=10), Results(tmp_path), cluster=workers)
    assert len(set(killed)) == 3
    assert stored(tmp_path) == stored(local)


@pytest.mark.slow
def test_the_fits_of_a_run_are_spread_while_workers_are_killed(
    cluster: Address, local: Path, file: Path, tmp_path: Path
) -> None:
    """One seed: the fits of one run after the other are spread."""
    with connected(cluster[0]) as workers, killing(cluster[1], times=2, pause=1.0) as killed:
        compare(plan(file, over=GRID, seeds=1), Results(tmp_path), cluster=workers)
    found, expected = stored(tmp_path), stored(local)
    assert killed
    assert len(found) == 10
    assert found == {name: expected[name] for name in found}


@pytest.mark.slow
def test_the_program_compares_on_a_cluster(cluster: Address, file: Path, tmp_path: Path) -> None:
    command = ["compare", file.name, "--with", "solo,fedkt:subsets=9999", "--seeds", "2", "--json"]
    here = program(tmp_path, *command, "--out", "here")
    there = program(tmp_path, *command, "--out", "there", "--cluster", cluster[0])
    assert there.returncode == 0, there.stderr
    assert stored(tmp_path / "there") == stored(tmp_path / "here")
    notes = [[line["why_not"] for line in json.loads(done.stdout)["lines"]] for done in (here, there)]
    assert notes[0] == notes[1]
    assert "fewer than 9999 subsets" in notes[0][2]


@pytest.mark.slow
def test_features_and_rows_that_cannot_be_split(cluster: Address, file: Path, tmp_path: Path) -> None:
    """The map of features is fitted here; a group whose rows cannot be split is reported for each of its runs."""
    planned = plan(file, over=["data.parties=3,4,900"], seeds=2, settings=["features={kind='fourier'}"])
    compare(planned, Results(tmp_path / "here"), processes=2)
    with connected(cluster[0]) as workers:
        lines = compare(planned, Results(tmp_path / "there"), cluster=workers)
    assert stored(tmp_path / "there") == stored(tmp_path / "here")
    assert ["900 parties" in line.note for line in lines] == [False, False, True]


@pytest.mark.slow
def test_networks_train_on_a_cpu_of_the_cluster(cluster: Address, file: Path, tmp_path: Path) -> None:
    network = ["model={name='torch-mlp', recipe={epochs=2}}", "algorithm={name='fedavg', rounds=2}"]
    here, there = (run_file(file, network, processes=n, cluster=c) for n, c in ((1, None), (None, cluster[0])))
    assert here.files()["model.onnx"] == there.files()["model.onnx"]
    with pytest.raises(
        LimbeckError, match=r'training\.trainer = "stacked": a cluster does not support it; leave out the key'
    ):
        run_file(file, [*network, "training.trainer=stacked"], cluster=cluster[0])


@pytest.mark.slow
def test_without_workers_a_comparison_stops_and_continues_later(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_dask, "PATIENCE", 2.0)
    planned = plan(file, over=GRID[1:], seeds=1)
    with dask_cluster("--no-nanny", PYTHONPATH=CODE) as (address, worker):

        def watch(results: Iterable[Any], total: int) -> Iterator[Any]:
            for number, result in enumerate(results):
                yield result
                if number == 1:
                    worker.kill()

        with connected(address) as workers, pytest.raises(ClusterError, match="no worker is left"):
            compare(planned, Results(tmp_path), watch=watch, cluster=workers)
    assert len(stored(tmp_path)) == 2
    compare(planned, Results(tmp_path), processes=1)
    assert len(stored(tmp_path)) == 5


@pytest.mark.parametrize("verb", ["run", "compare", "sweep"])
def test_an_address_where_nobody_answers_is_one_line(file: Path, tmp_path: Path, verb: str) -> None:
    over = ["--over", "algorithm.subsets=2,3"] if verb == "sweep" else []
    done = program(tmp_path, verb, file.name, *over, "--cluster", "dask://127.0.0.1:1", "--out", "there")
    assert done.returncode == 1
    headline = {"e.toml: fedkt on digits, 4 parties, random-forest"} if verb == "run" else set()
    lines = done.stderr.splitlines()
    assert set(lines[:-1]) == headline
    assert lines[-1] == "limbeck: cluster dask://127.0.0.1:1: nobody answers: Connection refused"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.toml"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_cluster_that_demands_tls(file: Path, tmp_path: Path) -> None:
    """Dask's configuration has the certificates; without it nothing is sent."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=cluster", "-days", "1"]
    subprocess.run([*made, "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    names = {"CERT": "cert.pem", "KEY": "key.pem"}
    sites = {f"{site}__{key}": file for site in ("SCHEDULER", "WORKER", "CLIENT") for key, file in names.items()}
    paths = {key: str(tmp_path / file) for key, file in {"CA_FILE": "cert.pem", **sites}.items()}
    tls = {f"DASK_DISTRIBUTED__COMM__TLS__{key}": path for key, path in paths.items()}
    tls["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "True"
    with dask_cluster("--nworkers", "2", PYTHONPATH=CODE, **tls) as (address, _):
        command = ["run", file.name, "--cluster", address, "--out"]
        assert program(tmp_path, *command, "open").returncode == 1
        assert not (tmp_path / "open").exists()
        done = program(tmp_path, *command, "secret", **tls)
        assert done.returncode == 0, done.stderr
