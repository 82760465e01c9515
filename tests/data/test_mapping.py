"""Large arrays are files that processes share."""

import os
from pathlib import Path

import numpy as np
import pytest

from factories import WhereIs
from limbeck.data import mapping
from limbeck.data.arrays import as_float
from limbeck.data.mapping import cache_of, mapped
from limbeck.data.sets import load, load_file
from limbeck.errors import LimbeckError
from limbeck.models.pool import PoolTrainer

X = np.random.default_rng(0).random((500, 40)).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "LARGE", 10_000)


def test_the_same_values_in_one_file(tmp_path: Path) -> None:
    first, second = mapped(X, tmp_path), mapped(X.copy(), tmp_path)
    assert isinstance(first, np.memmap)
    assert np.array_equal(first, X)
    assert first.filename == second.filename  # type: ignore[attr-defined]
    assert len(list(tmp_path.iterdir())) == 1
    assert mapped(X[:10], tmp_path / "unused") is not None
    assert not (tmp_path / "unused").exists()


@pytest.mark.slow
def test_processes_read_the_file_instead_of_a_copy(tmp_path: Path) -> None:
    shared = mapped(X, tmp_path)
    files = PoolTrainer(2).run([WhereIs(shared[:400]), WhereIs(shared[:300])], 2, [0, 0])
    assert files == [str(shared.filename)] * 2  # type: ignore[attr-defined]


def test_a_large_npz_is_unpacked_once(data_folder: Path) -> None:
    np.savez(data_folder / "big.npz", x_train=X, y_train=np.arange(500) % 2)
    first = load("big")
    assert isinstance(first.x, np.memmap)
    assert np.array_equal(first.x, X)
    [unpacked] = (data_folder / ".cache").iterdir()
    written = unpacked.stat().st_mtime_ns
    load("big")
    assert unpacked.stat().st_mtime_ns == written


def test_an_npy_file_is_read_where_it_lies(tmp_path: Path) -> None:
    np.save(tmp_path / "public.npy", X)
    data = load_file(tmp_path / "public.npy")
    assert isinstance(data.x, np.memmap)
    (tmp_path / "noise.npy").write_text("hello")
    with pytest.raises(LimbeckError, match=r"noise.npy is not an NPY file"):
        load_file(tmp_path / "noise.npy")
    np.save(tmp_path / "holes.npy", np.where(X > 0.999, np.nan, X))
    with pytest.raises(LimbeckError, match="hold NaN"):
        load_file(tmp_path / "holes.npy")


def test_the_cache_lies_beside_the_data(tmp_path: Path) -> None:
    assert cache_of(tmp_path) == tmp_path / ".cache"
    assert cache_of(None).parent.is_dir()


def test_files_of_one_name_and_time_stay_separate(tmp_path: Path, data_folder: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        np.savez(
            tmp_path / name / "site.npz", x_train=np.full((500, 40), value, np.float32), y_train=np.arange(500) % 2
        )
        os.utime(tmp_path / name / "site.npz", ns=(0, 0))
    assert [load_file(tmp_path / name / "site.npz").x[0, 0] for name in "ab"] == [1, 2]


def test_rows_that_had_to_be_converted_are_mapped_too(tmp_path: Path) -> None:
    np.save(tmp_path / "double.npy", X.astype(np.float64))
    rows = as_float(load_file(tmp_path / "double.npy").x)
    assert not isinstance(rows, np.memmap)
    assert isinstance(mapped(rows, tmp_path), np.memmap)
