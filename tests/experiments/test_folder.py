from pathlib import Path

import pytest

from limbeck.errors import LimbeckError
from limbeck.experiments.folder import RunFolder, free_folder


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "run"
    with RunFolder(target) as folder:
        assert not target.exists()
        folder.write({"record.json": b"{}", "models/party-0.onnx": b"x"})
    assert (target / "models" / "party-0.onnx").read_bytes() == b"x"
    assert [path.name for path in target.parent.iterdir()] == ["run"]


def test_a_name_that_another_run_took_meanwhile_gets_a_number(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as first, RunFolder(tmp_path / "run") as second:
        places = [folder.write({"record.json": b"{}"}) for folder in (first, second)]
    assert [place.name for place in places] == ["run", "run-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]


def test_nothing_stays_behind_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path / "a" / "b" / "run"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (
        pytest.raises(LimbeckError, match="exists already; name another folder with --out"),
        RunFolder(tmp_path / "run"),
    ):
        pass


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LimbeckError, match="cannot write to"), RunFolder(tmp_path / "file" / "run"):
        pass


def test_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_folder("demo") == Path("runs/demo-1")
    Path("runs/demo-1").mkdir(parents=True)
    assert free_folder("demo") == Path("runs/demo-2")
