"""Downloads from a real server on this machine, which also sends corrupt, truncated and slow files."""

import gzip
import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from limbeck.data.downloads import DOWNLOADS, Download, fetch, get
from limbeck.data.sets import load
from limbeck.errors import LimbeckError

RNG = np.random.default_rng(0)


@dataclass
class Server:
    """Serves bytes by name; `manner` says how badly."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    manner: str = "well"


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = state.files.get(self.path.lstrip("/"))
            if data is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if state.manner == "slow":
                time.sleep(3)
            elif state.manner == "corrupt":
                data = bytes([data[0] ^ 1]) + data[1:]
            elif state.manner == "truncated":
                data = data[: len(data) // 2]
            try:
                self.wfile.write(data)
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}"
    yield state
    http.shutdown()
    http.server_close()


def small(name: str, server: Server, files: dict[str, bytes]) -> Download:
    """The named download with these files and their own sums in place of the real ones."""
    assert set(files) == set(DOWNLOADS[name].files)
    server.files = files
    sums = {file: hashlib.md5(data).hexdigest() for file, data in files.items()}
    return replace(DOWNLOADS[name], home=server.url, files=sums, rows={})


def mnist(rows: int = 5) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for stem in ("train", "t10k"):
        files[f"{stem}-images-idx3-ubyte.gz"] = gzip.compress(bytes(16) + RNG.bytes(rows * 784))
        files[f"{stem}-labels-idx1-ubyte.gz"] = gzip.compress(bytes(8) + bytes(i % 10 for i in range(rows)))
    return files


def tar(files: dict[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"folder/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return memory.getvalue()


def test_mnist(server: Server, data_folder: Path) -> None:
    fetch("mnist", small("mnist", server, mnist()), data_folder)
    data = load("mnist")
    assert data.x.shape == (5, 28, 28)
    assert data.x.dtype == np.uint8
    assert data.official_test == 5
    assert data.y.tolist() == [0, 1, 2, 3, 4]
    assert [path.name for path in data_folder.iterdir()] == ["mnist.npz"]


@pytest.mark.parametrize(
    ("name", "train", "test", "features"), [("adult", "a9a", "a9a.t", 123), ("cod-rna", "cod-rna", "cod-rna.t", 8)]
)
def test_libsvm_files(server: Server, data_folder: Path, name: str, train: str, test: str, features: int) -> None:
    files = {train: b"-1 1:1 3:0.5\n+1 2:1\n", test: b"+1 1:2\n"}
    fetch(name, small(name, server, files), data_folder)
    data = load(name)
    assert data.x.shape == (2, features)
    assert data.x[0, :3].tolist() == [1, 0, 0.5]
    assert data.y.tolist() == [0, 1]


def test_cifar(server: Server, data_folder: Path) -> None:
    """Red comes first in the file; the colour is last in our rows."""
    record = bytes([7]) + bytes([255]) * 1024 + bytes(2048)
    batches = {f"data_batch_{i}.bin": record for i in range(1, 6)} | {"test_batch.bin": record * 2}
    fetch("cifar10", small("cifar10", server, {"cifar-10-binary.tar.gz": tar(batches)}), data_folder)
    data = load("cifar10")
    assert (data.x.shape, data.official_test, data.classes) == ((5, 32, 32, 3), 2, ("7",))
    assert data.x[0, 0, 0].tolist() == [255, 0, 0]
    fine = bytes([3, 9]) + bytes(3072)
    fetch(
        "cifar100",
        small("cifar100", server, {"cifar-100-binary.tar.gz": tar({"train.bin": fine, "test.bin": fine})}),
        data_folder,
    )
    assert load("cifar100").classes == ("9",)
    assert load("cifar100").groups["coarse"].tolist() == [3]


def test_svhn(server: Server, data_folder: Path) -> None:
    memory = io.BytesIO()
    savemat(memory, {"X": RNG.integers(0, 255, (32, 32, 3, 4)).astype(np.uint8), "y": np.array([[1], [10], [2], [3]])})
    files = dict.fromkeys(("train_32x32.mat", "test_32x32.mat"), memory.getvalue())
    fetch("svhn", small("svhn", server, files), data_folder)
    assert load("svhn").x.shape == (4, 32, 32, 3)
    assert load("svhn").y.tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize(
    ("manner", "line"),
    [
        ("corrupt", "corrupt or truncated"),
        ("truncated", "train-images-idx3-ubyte.gz"),
        ("slow", "cannot fetch .* timed out"),
    ],
)
def test_bad_deliveries_leave_nothing(server: Server, data_folder: Path, manner: str, line: str) -> None:
    download = small("mnist", server, mnist())
    server.manner = manner
    with pytest.raises(LimbeckError, match=line):
        fetch("mnist", download, data_folder, timeout=0.5)
    assert list(data_folder.iterdir()) == []


def test_a_file_of_another_kind_with_the_right_sum_is_refused(server: Server, data_folder: Path) -> None:
    files = dict.fromkeys(DOWNLOADS["mnist"].files, b"not gzip")
    with pytest.raises(LimbeckError, match="cannot be read as this data set"):
        fetch("mnist", small("mnist", server, files), data_folder)
    assert list(data_folder.iterdir()) == []


def test_a_home_that_is_gone_and_a_mirror(server: Server, data_folder: Path) -> None:
    download = small("mnist", server, mnist())
    moved = replace(download, home=server.url + "/nowhere")
    with pytest.raises(LimbeckError, match=r"cannot fetch .*404"):
        fetch("mnist", moved, data_folder)
    assert fetch("mnist", moved, data_folder, mirror=server.url) == data_folder / "mnist.npz"


def test_names_and_folders(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimbeckError, match="no download is known for 'minst'; did you mean 'mnist'"):
        get("minst")
    monkeypatch.delenv("LIMBECK_DATA")
    with pytest.raises(LimbeckError, match="LIMBECK_DATA is not set"):
        get("mnist")


def test_through_the_program(server: Server, data_folder: Path) -> None:
    """The real sums stand in the way of small files: what the program says of them is the test."""
    import subprocess
    import sys

    server.files = mnist()
    command = [sys.executable, "-m", "limbeck", "data", "get", "mnist", "--mirror", server.url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"limbeck: {server.url}/train-images-idx3-ubyte.gz is corrupt or truncated")
    assert len(done.stderr.splitlines()) == 1
