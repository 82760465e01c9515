import os
from contextlib import closing
from pathlib import Path

import pytest

from limbeck.errors import LimbeckError
from limbeck.experiments.folder import RunFolder, free_folder, ledger_beside, ledger_files
from limbeck.privacy.ledger import LedgerStore
from limbeck.privacy.mechanisms import Laplace
from limbeck.protocol.release import Asked, Release, release_row


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "run"
    with RunFolder(target) as folder:
        assert not target.exists()
        folder.write({"record.json": b"{}", "models/party-0.onnx": b"x"})
    assert (target / "models" / "party-0.onnx").read_bytes() == b"x"
    assert [path.name for path in target.parent.iterdir()] == ["run"]


def test_only_the_owner_may_read_a_private_folder(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        for name in ("real", "simulated"):
            with RunFolder(tmp_path / name, private=name == "real") as folder:
                folder.write({"record.json": b"{}", "models/party-0.onnx": b"x", "ledger.sqlite.head": b""})
    finally:
        os.umask(umask)
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.startswith("real")} == {0o600, 0o700}
    assert (modes["real"], modes["real/models"]) == (0o700, 0o700)
    assert (modes["simulated"], modes["simulated/record.json"]) == (0o755, 0o666)
    assert modes["simulated/ledger.sqlite.head"] == 0o600


def test_a_ledger_of_its_own_stays_where_something_was_released(tmp_path: Path) -> None:
    row = release_row("server", 0, 0, "labels", Laplace(0.1), "public", Asked(1, 2))
    for releases in (0, 1):
        with pytest.raises(KeyboardInterrupt), ledger_beside(tmp_path / "r", None) as path:
            interrupted_run(path, [row] * releases)
        left = {file.name for file in tmp_path.iterdir()}
        assert left == ({f"r.ledger.sqlite{s}" for s in ("", ".head", ".secret")} if releases else set())
    assert set(ledger_files(tmp_path / "r.ledger.sqlite")) == {"ledger.sqlite", "ledger.sqlite.head"}


def interrupted_run(ledger: Path, rows: list[Release]) -> None:
    with closing(LedgerStore(ledger)) as ledger_store:
        ledger_store.begin({"seed": 0})
        assert ledger_store.secret
        for row in rows:
            ledger_store.of(row.site).write(row)
    raise KeyboardInterrupt


def test_a_ledger_that_cannot_be_read_is_not_deleted(tmp_path: Path) -> None:
    with ledger_beside(tmp_path / "r", None) as path:
        path.write_text("no ledger, but perhaps somebody's evidence")
    assert path.exists()


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
