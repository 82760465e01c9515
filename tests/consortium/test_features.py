"""Features between organisations: one map for all, in a file that is known by its hash."""

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from direct_parties import IRIS, DirectConsortium
from limbeck.consortium.checking import check
from limbeck.consortium.coordinator import begin
from limbeck.consortium.experiment import features_file, prepare_run
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.run import run_experiment
from limbeck.features.files import read_map, source_of_map, write_map
from limbeck.features.map import FeatureMap

VOTE = 'name = "fedvote"\n[features]\nkind = "standard"\nnumber = 3'


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectConsortium:
    found = DirectConsortium(tmp_path, monkeypatch)
    found.experiment(VOTE)
    found.admit("a", "b", "c")
    return found


def test_the_model_of_a_run_takes_raw_rows_everywhere(consortium: DirectConsortium) -> None:
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)
    own = next((consortium.home / "a" / "models").iterdir()).read_bytes()
    first, second = (onnxruntime.InferenceSession(each) for each in (consortium.model("experiment-1"), own))
    assert first.get_inputs()[0].shape[1:] == [4]
    labels = [each.run(["label"], {"rows": IRIS.x})[0] for each in (first, second)]
    assert (labels[0] == labels[1]).all()
    assert len(set(labels[0])) > 1


def test_it_is_the_run_in_one_process(consortium: DirectConsortium) -> None:
    begin(consortium.folder, consortium.folder.path / "experiment.toml", print)
    files = [str(consortium.home / name / "private.npz") for name in "abc"]
    table = {
        "seed": 3,
        "noise": "simulated",
        "data": {"public": {"path": str(consortium.folder.path / "public.npz")}, "classes": ["0", "1", "2"]},
        "party": [{"index": index, "data": file} for index, file in enumerate(files)],
        "model": {"name": "decision-tree"},
        "algorithm": {"name": "fedvote"},
        "features": {"kind": "standard", "number": 3},
    }
    result = run_experiment(check_table(Experiment, table, "x.toml"), table, processes=1)
    assert result.model is not None
    session = onnxruntime.InferenceSession(consortium.model("experiment-1"))
    assert (session.run(["label"], {"rows": IRIS.x})[0] == result.model.predict(IRIS.x).astype(int)).all()


def test_the_map_stays_in_its_file_until_the_experiment_changes(consortium: DirectConsortium) -> None:
    file = consortium.folder.path / "experiment.toml"
    path, terms = features_file(file), prepare_run(file).terms(3)
    other = read_map(path, (4,))
    key = next(name for name, each in other.arrays.items() if each.size > 1)
    changed = {**other.arrays, key: other.arrays[key] * np.float32(0.5)}
    write_map(path, FeatureMap(other.kind, changed, (4,)), source_of_map(path))  # as if another machine had fitted it
    assert prepare_run(file).terms(3).features not in (terms.features, None)
    consortium.experiment(VOTE.replace("3", "2"))
    assert prepare_run(file).terms(3).features != terms.features
    consortium.experiment(VOTE)
    assert prepare_run(file).terms(3) == terms


def test_a_party_needs_the_map_of_the_join_file(consortium: DirectConsortium) -> None:
    home = consortium.home / "a"
    settings = (home / "party.toml").read_text()
    (home / "party.toml").write_text(settings.replace('features = "features.safetensors"\n', ""))
    with pytest.raises(LimbeckError, match=r"party\.toml: features is missing"):
        check(PartyFolder(home))
    (home / "party.toml").write_text(settings)
    (home / "features.safetensors").unlink()
    with pytest.raises(LimbeckError, match=r"cannot read .*features\.safetensors"):
        check(PartyFolder(home))
    consortium.experiment(VOTE.replace("3", "2"), "other")
    prepare_run(consortium.folder.path / "other.toml")
    shutil.copy(features_file(consortium.folder.path / "other.toml"), home / "features.safetensors")
    with pytest.raises(LimbeckError, match=r"holds another feature map .* than the join file"):
        check(PartyFolder(home))


def test_a_server_with_another_map_is_refused(consortium: DirectConsortium) -> None:
    file = consortium.experiment(VOTE.replace("3", "2"))
    with pytest.raises(LimbeckError, match="the server has another feature map than the join file"):
        begin(consortium.folder, file, print)
