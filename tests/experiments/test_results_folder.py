"""The results folder: whole files, written once, merged with care."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cached_experiments import cached_result_of_one_run
from limbeck.errors import LimbeckError
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.results_folder import Merged, Results


def test_a_run_is_stored_once(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert results.find(cached_result_of_one_run().key) is None
    results.keep(cached_result_of_one_run())
    results.keep(replace(cached_result_of_one_run(), seconds=99.0))
    assert results.find(cached_result_of_one_run().key) == cached_result_of_one_run()


def test_a_damaged_run_is_reported_by_its_file(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(cached_result_of_one_run())
    [path] = results.runs.iterdir()
    path.write_text("{")
    with pytest.raises(LimbeckError, match=f"{path.name} is not a cached result"):
        results.find(cached_result_of_one_run().key)


def test_merging_counts_new_same_and_different_and_keeps_ours(tmp_path: Path) -> None:
    ours, theirs = Results(tmp_path / "ours"), Results(tmp_path / "theirs")
    other = replace(cached_result_of_one_run(), metrics=Metrics(0.9, 0.9, None))
    for seed in range(3):
        theirs.keep(
            replace(
                cached_result_of_one_run(), configuration={**cached_result_of_one_run().configuration, "seed": seed}
            )
        )
    ours.keep(replace(other, configuration={**cached_result_of_one_run().configuration, "seed": 1}))
    ours.keep(
        replace(cached_result_of_one_run(), configuration={**cached_result_of_one_run().configuration, "seed": 2})
    )
    assert ours.merge(theirs) == Merged(new=1, same=1, different=1)
    assert ours.merge(theirs) == Merged(new=0, same=2, different=1)
    found = ours.find(replace(other, configuration={**cached_result_of_one_run().configuration, "seed": 1}).key)
    assert found is not None
    assert found.metrics == other.metrics


def test_nothing_is_merged_from_a_folder_with_a_damaged_run(tmp_path: Path) -> None:
    ours, theirs = Results(tmp_path / "ours"), Results(tmp_path / "theirs")
    theirs.keep(cached_result_of_one_run())
    (theirs.runs / "zzz.json").write_text("{}")
    with pytest.raises(LimbeckError, match=r"zzz\.json is not a cached result"):
        ours.merge(theirs)
    assert ours.find(cached_result_of_one_run().key) is None
    with pytest.raises(LimbeckError, match="not a results folder"):
        ours.merge(Results(tmp_path / "nothing"))


def test_one_comparison_at_a_time_and_a_killed_one_frees_the_folder(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from limbeck.experiments.results_folder import Results\n"
        "with Results(Path(sys.argv[1])).alone(): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LimbeckError, match="another comparison uses"), Results(tmp_path).alone():
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with Results(tmp_path).alone():
        pass
