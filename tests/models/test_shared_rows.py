"""Rows in files: written once, read-only, and gone with the array or the program."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.models.caching import Timed, plain
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.shared_rows import SharedRows
from limbeck.protocol.learning import Guarded
from limbeck.protocol.rows import Rows

PROGRAM = """
import os, sys
import numpy as np
from limbeck.protocol.rows import Rows
from limbeck.models.shared_rows import SharedRows
shared = SharedRows()
rows = np.ones(2**20)
print(shared.mapped(rows).filename, oct(os.stat(os.path.dirname(shared.mapped(rows).filename)).st_mode)[-3:], flush=True)
os.kill(os.getpid(), 9) if sys.argv[1] == "killed" else None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    return tmp_path


def test_a_job_keeps_its_values(folder: Path) -> None:
    rows = np.random.default_rng(0).random((4096, 80))
    job = Fit(model_from({"name": "naive-bayes"}), rows, np.arange(4096) % 3, weight=np.arange(4096) % 7 + 1.0)
    shared = SharedRows()
    there: Any = plain(shared.in_files(Timed(Guarded(job))))
    assert isinstance(there.rows, np.memmap)
    assert not there.rows.flags.writeable
    assert np.array_equal(there.rows, rows)
    assert there.targets is job.targets
    assert (there.weight == job.weight).all()  # not scaled again
    assert plain(shared.in_files(job)).rows is there.rows
    assert len(list(folder.glob("*/*"))) == 1


def test_a_file_goes_with_its_array(folder: Path) -> None:
    shared, rows = SharedRows(), np.ones(2**20)
    shared.mapped(rows)
    assert len(list(folder.glob("*/*"))) == 1
    del rows
    assert not list(folder.glob("*/*"))


def test_small_and_strided_arrays_travel_with_their_job(folder: Path) -> None:
    model = model_from({"name": "naive-bayes"})
    for rows in (np.ones((9, 2)), np.asfortranarray(np.ones((2**15, 8)))):
        job = Fit(model, rows, np.arange(len(rows), dtype=np.int32) % 2)
        assert SharedRows().in_files(job) is job
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_nothing_is_left(folder: Path, how: str) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=False)
    file, mode = ran.stdout.split()
    assert mode == "700"
    for _ in range(100):
        if not Path(file).parent.exists():
            return
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.1)"], check=True)
    pytest.fail(f"{file} is left")


def test_a_full_folder_is_an_error_with_one_line() -> None:
    shared = SharedRows()
    shared._folder, shared._numbers = Path("/dev"), iter(["full"])
    with pytest.raises(LimbeckError, match=r"^/dev cannot take rows .*JOBLIB_TEMP_FOLDER"):
        shared.mapped(np.ones(2**20))


def test_the_pool_gives_the_same_results_in_order() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.random((n, 100)) for n in (2000, 1500, 3000)]
    jobs = [Fit(model_from({"name": "naive-bayes"}), x, np.arange(len(x)) % 3) for x in rows]
    assert PoolTrainer(2).run(jobs, 3, [0, 1, 2]) == PoolTrainer(1).run(jobs, 3, [0, 1, 2])


def test_an_array_that_has_changed_is_written_again() -> None:
    """A buffer that is filled anew in each round."""
    shared, rows = SharedRows(), np.zeros(2**18)
    first = shared.mapped(rows)
    assert shared.mapped(rows) is first
    rows[-1] = 7
    assert shared.mapped(rows)[-1] == 7
    rows[0] = np.nan
    assert np.isnan(shared.mapped(rows)[0])
    assert len(list(Path(str(shared.mapped(rows).filename)).parent.iterdir())) == 1  # type: ignore[attr-defined]


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path / "file"))
    with pytest.raises(
        LimbeckError, match=r"cannot take rows for other processes .*: set the variable JOBLIB_TEMP_FOLDER"
    ):
        SharedRows().mapped(np.zeros(2**18))


def test_rows_of_a_party_cannot_be_changed(folder: Path) -> None:
    """So they need not be compared in each round; the arrays of the user stay as they were."""
    x = np.zeros((2**10, 2**8))
    rows = Rows(x, np.zeros(2**10, np.int64)).read_only
    shared = SharedRows()
    assert shared.mapped(rows.x) is shared.mapped(rows.x)
    with pytest.raises(ValueError, match="read-only"):
        rows.x[0] = 1
    x[0] = 1
    assert rows.weight is None
