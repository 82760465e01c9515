"""Downloads of public data sets: fetch, check, and convert to NAME.npz in the data folder."""

import gzip
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from limbeck.data.arrays import data_folder
from limbeck.errors import LimbeckError, did_you_mean, missing_extra
from limbeck.protocol.rows import Array

Convert = Callable[[Mapping[str, Path]], dict[str, Array]]
SECONDS_OF_SILENCE = 30.0
MD5_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Download:
    """Source of a data set.

    Parameters
    ----------
    home : str
        Base URL of all files.
    files : mapping of str to str or None
        MD5 or SHA-256 sum of each file; None if no sum is published.
    convert : callable
        Function from the downloaded files to the arrays of the NPZ file.
    rows : mapping of str to int
        Expected rows of each part, as a check if no MD5 sum is published.
    """

    home: str
    files: Mapping[str, str | None]
    convert: Convert
    rows: Mapping[str, int] = field(default_factory=dict)


def get(name: str, mirror: str | None = None) -> Path:
    """Download a data set into the folder that LIMBECK_DATA names.

    Parameters
    ----------
    name : str
        A key of `DOWNLOADS`, for example "mnist".
    mirror : str, optional
        Another base URL that has the same files.

    Returns
    -------
    Path
        The file NAME.npz.

    Raises
    ------
    LimbeckError
        If the name is unknown, LIMBECK_DATA is not set, or the download fails a check.
    """
    if name not in DOWNLOADS:
        raise LimbeckError(f"no download is known for {name!r}; {did_you_mean(name, DOWNLOADS)}")
    folder = data_folder()
    if folder is None:
        raise LimbeckError("LIMBECK_DATA is not set: set it to the folder for data sets")
    return fetch(name, DOWNLOADS[name], folder, mirror)


def fetch(
    name: str, download: Download, folder: Path, mirror: str | None = None, timeout: float = SECONDS_OF_SILENCE
) -> Path:
    """Download a data set, check it, and convert it. The final file is written atomically.

    Parameters
    ----------
    name : str
        Stem of the final file.
    download : Download
        Where the files are, and how to convert them.
    folder : Path
        Folder of the final file.
    mirror : str, optional
        Another base URL that has the same files.
    timeout : float
        Seconds without data after which the download fails.

    Returns
    -------
    Path
        The file NAME.npz in `folder`.
    """
    home = (mirror or download.home).rstrip("/") + "/"
    if not home.startswith(("http://", "https://")):
        raise LimbeckError(f"{home} is not a URL: write http://... or https://...")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
            files = {file: _fetched(home, file, md5, Path(temporary), timeout) for file, md5 in download.files.items()}
            arrays = _converted(name, download, files, home)
            np.savez(Path(temporary) / "whole.npz", allow_pickle=False, **arrays)
            return (Path(temporary) / "whole.npz").replace(folder / f"{name}.npz")
    except OSError as error:
        raise LimbeckError(f"cannot write to {folder}: {error.strerror}") from error


def _converted(name: str, download: Download, files: Mapping[str, Path], home: str) -> dict[str, Array]:
    try:
        arrays = download.convert(files)
    except (OSError, ValueError, KeyError, EOFError, tarfile.TarError) as error:
        raise LimbeckError(f"{name}: the files from {home} cannot be read as this data set: {error}") from error
    for part, count in download.rows.items():
        if (found := len(arrays[f"x_{part}"])) != count:
            raise LimbeckError(f"{name}: {found} {part} rows came from {home}; the data set has {count}")
    return arrays


def _fetched(home: str, file: str, md5: str | None, folder: Path, timeout: float) -> Path:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise missing_extra("a download", "download") from error
    pooch.get_logger().setLevel("ERROR")
    try:
        loader = pooch.HTTPDownloader(timeout=timeout, headers={"User-Agent": "limbeck"})
        known = f"{'md5' if len(md5) == MD5_DIGITS else 'sha256'}:{md5}" if md5 else None
        return Path(pooch.retrieve(home + file, known, fname=file, path=folder, downloader=loader))
    except requests.RequestException as error:
        reason = " ".join(str(error).split())[:200]
        raise LimbeckError(f"cannot fetch {home}{file}: {reason}") from error
    except ValueError as error:
        raise LimbeckError(f"{home}{file} is corrupt or truncated: its checksum is not {md5}") from error


def _mnist(files: Mapping[str, Path]) -> dict[str, Array]:
    def idx(file: str, header: int) -> Array:
        raw = gzip.decompress(files[file].read_bytes())
        return np.frombuffer(raw, np.uint8, offset=header)

    parts = {"train": "train", "test": "t10k"}
    images = {f"x_{part}": idx(f"{stem}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28) for part, stem in parts.items()}
    labels = {f"y_{part}": idx(f"{stem}-labels-idx1-ubyte.gz", 8) for part, stem in parts.items()}
    return images | labels


def _svmlight(train: str, test: str, features: int) -> Convert:
    def convert(files: Mapping[str, Path]) -> dict[str, Array]:
        from sklearn.datasets import load_svmlight_file

        arrays: dict[str, Array] = {}
        for part, file in (("train", train), ("test", test)):
            x, y = load_svmlight_file(str(files[file]), n_features=features, dtype=np.float32)
            arrays |= {f"x_{part}": x.toarray(), f"y_{part}": (y > 0).astype(np.uint8)}
        return arrays

    return convert


def _cifar(archive: str, train: list[str], test: str, labels: tuple[str, ...]) -> Convert:
    """Reader of the binary version: each record has its labels, then 3 x 32 x 32 bytes. The last label is the class."""

    def convert(files: Mapping[str, Path]) -> dict[str, Array]:
        with tarfile.open(files[archive]) as tar:
            members = {Path(member.name).name: member for member in tar if member.isfile()}
            read = {name: _member(tar, members[name], 3072 + len(labels)) for name in (*train, test)}
        parts = {"train": np.concatenate([read[name] for name in train]), "test": read[test]}
        arrays: dict[str, Array] = {}
        for part, records in parts.items():
            pixels = records[:, len(labels) :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            arrays[f"x_{part}"] = np.ascontiguousarray(pixels)
            arrays |= {f"{label}_{part}": records[:, i] for i, label in enumerate(labels)}
        return arrays

    return convert


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, width: int) -> Array:
    file = tar.extractfile(member)
    assert file is not None
    return np.frombuffer(file.read(), np.uint8).reshape(-1, width)


def _svhn(files: Mapping[str, Path]) -> dict[str, Array]:
    from scipy.io import loadmat

    arrays: dict[str, Array] = {}
    for part in ("train", "test"):
        mat = loadmat(files[f"{part}_32x32.mat"])
        arrays[f"x_{part}"] = np.ascontiguousarray(mat["X"].transpose(3, 0, 1, 2))
        arrays[f"y_{part}"] = (mat["y"].ravel() % 10).astype(np.uint8)
    return arrays


def _california(files: Mapping[str, Path]) -> dict[str, Array]:
    """Columns as in scikit-learn's `fetch_california_housing`; the target is in units of 100 000 dollars."""
    with tarfile.open(files[HOUSING]) as tar:
        file = tar.extractfile("CaliforniaHousing/cal_housing.data")
        assert file is not None
        values = np.loadtxt(file, delimiter=",")[:, [8, 7, 2, 3, 4, 5, 6, 1, 0]]
    x = values[:, 1:].copy()
    x[:, 2] /= x[:, 5]
    x[:, 3] /= x[:, 5]
    x[:, 5] = x[:, 4] / x[:, 5]
    return {"x_train": x.astype(np.float32), "y_train": values[:, 0] / 1e5}


HOUSING = "5976036"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
CIFAR = "https://www.cs.toronto.edu/~kriz"
DOWNLOADS = {
    "mnist": Download(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        _mnist,
    ),
    "adult": Download(
        LIBSVM,
        {"a9a": "983b7716a395c5ed24f4dc3dd3c26303", "a9a.t": "f0bb16cf1ee3e80ff560e9d132ee647e"},
        _svmlight("a9a", "a9a.t", 123),
    ),
    "cod-rna": Download(
        LIBSVM,
        {"cod-rna": None, "cod-rna.t": None},
        _svmlight("cod-rna", "cod-rna.t", 8),
        {"train": 59_535, "test": 271_617},
    ),
    "cifar10": Download(
        CIFAR,
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        _cifar("cifar-10-binary.tar.gz", [f"data_batch_{i}.bin" for i in range(1, 6)], "test_batch.bin", ("y",)),
    ),
    "cifar100": Download(
        CIFAR,
        {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        _cifar("cifar-100-binary.tar.gz", ["train.bin"], "test.bin", ("coarse", "y")),
    ),
    "california-housing": Download(
        "https://ndownloader.figshare.com/files",
        {HOUSING: "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681"},
        _california,
        {"train": 20_640},
    ),
    "svhn": Download(
        "http://ufldl.stanford.edu/housenumbers",
        {"train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373", "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3"},
        _svhn,
    ),
}
