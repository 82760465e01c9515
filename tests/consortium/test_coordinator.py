"""A coordinator's run, as far as it goes without a line."""

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.consortium import party, server
from limbeck.consortium.amendments import add_late, remove_party
from limbeck.consortium.coordinator import _planned_here, begin, resume
from limbeck.consortium.experiment import prepare_run
from limbeck.consortium.overview import overview
from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal
from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import Budget, LedgerStore


@pytest.fixture
def folder(tmp_path: Path) -> ServerFolder:
    server.init(tmp_path / "server", ["localhost"], "127.0.0.1", 1)
    found = ServerFolder(tmp_path / "server")
    for name in ("a", "b"):
        party.init(tmp_path / name, found.invite(name))
        found.admit(tmp_path / name / f"{name}.pub")
    return found


def test_a_server_that_is_not_there_is_reported_in_one_line_and_nothing_is_begun(folder: ServerFolder) -> None:
    file = folder.path / "experiment.toml"
    with pytest.raises(LimbeckError, match="cannot list the connected parties"):
        begin(folder, file, print)
    assert not (folder.path / "runs").exists()
    with pytest.raises(LimbeckError, match="no run of"):
        resume(folder, file, print)


def test_a_quorum_of_more_than_there_are_is_refused(folder: ServerFolder) -> None:
    file = folder.path / "experiment.toml"
    file.write_text(file.read_text().replace("quorum = 2", "quorum = 3"))
    with pytest.raises(LimbeckError, match="quorum = 3, but 2 parties are admitted"):
        begin(folder, file, print)
    assert not (folder.path / "runs").exists()


def test_a_file_whose_name_is_no_runs_name_is_refused(folder: ServerFolder) -> None:
    file = folder.path / "my experiment.toml"
    file.write_text((folder.path / "experiment.toml").read_text())
    with pytest.raises(LimbeckError, match="the run is named after the file"):
        begin(folder, file, print)
    assert not (folder.path / "runs").exists()


def test_a_run_that_would_pass_the_servers_budget_is_refused_before_anyone_is_asked(folder: ServerFolder) -> None:
    file = folder.path / "experiment.toml"
    file.write_text(file.read_text().replace('level = "L2", epsilon = 4.0', 'level = "L1", epsilon = 40.0'))
    ledger_store = LedgerStore(None, "run", Budget(3.0))
    with pytest.raises(LimbeckError, match="would bring epsilon towards public"):
        ledger_store.check_plan(_planned_here(prepare_run(file), 2))
    LedgerStore(None, "run", Budget(50.0)).check_plan(_planned_here(prepare_run(file), 2))


def test_a_late_party_is_for_one_shot_methods_and_must_have_been_there(folder: ServerFolder) -> None:
    file = folder.path / "experiment.toml"
    for name, method in (("once", "fedridge"), ("often", "solo")):
        home = folder.path / "runs" / name
        home.mkdir(parents=True)
        file.write_text(file.read_text().replace("fedridge", method).split("privacy")[0])
        journal = Journal(home / "journal.sqlite", new=True)
        copy = folder.path / f"{name}.toml"
        copy.write_text(file.read_text())
        journal.begin({"run": name, "file": str(copy), "parties": {"0": "a"}, "terms": {"algorithm": method}})
    with pytest.raises(LimbeckError, match="solo is not a one-shot method: a late party cannot be added"):
        add_late(folder, "often", "a", print)
    with pytest.raises(LimbeckError, match="solo is not a one-shot method: a party cannot be removed"):
        remove_party(folder, "often", "a", print)
    with pytest.raises(LimbeckError, match="b took no part in once; its parties: a"):
        add_late(folder, "once", "b", print)
    with pytest.raises(LimbeckError, match=r"once has not ended: .* --resume asks a again"):
        add_late(folder, "once", "a", print)


def test_a_run_whose_program_died_before_it_began_is_in_nobodys_way(folder: ServerFolder) -> None:
    for number in (1, 2):
        (folder.path / "runs" / f"experiment-{number}").mkdir(parents=True)
    Journal(folder.path / "runs" / "experiment-1" / "journal.sqlite", new=True)
    with pytest.raises(LimbeckError, match="no run of"):
        resume(folder, folder.path / "experiment.toml", print)
    with pytest.raises(LimbeckError, match="this run never began"):
        add_late(folder, "experiment-1", "a", print)
    assert overview(folder).runs == []
