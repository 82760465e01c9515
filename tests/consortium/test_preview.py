"""What `limbeck server check` and `limbeck party check` show; nothing is sent or spent."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("opendp", reason="the extra privacy is not installed")
pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.cli import app
from limbeck.consortium.experiment import prepare_run
from limbeck.consortium.party import PartyFolder
from limbeck.consortium.preview import check_party, check_server
from limbeck.consortium.server import Member, ServerFolder, init
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.estimate import Estimate
from party_folders import AGREE_SUMS, IRIS, SUMS, make, put_rows, question, rows, write_settings

EXPERIMENT = """
quorum = 2
budget = { epsilon = 5.0, observer = "public" }
[data]
public = "public.npz"
classes = ["0", "1"]
test = "test.npz"
[algorithm]
name = "fedridge"
privacy = { level = "L2", epsilon = 4.0 }
"""


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    init(tmp_path / "server", ["localhost"], "127.0.0.1", 9443)
    (tmp_path / "server" / "experiment.toml").write_text(EXPERIMENT)
    return ServerFolder(tmp_path / "server")


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


def test_the_coordinator_sees_what_a_run_would_do(server: ServerFolder) -> None:
    server._write({"clinic": Member("clinic", 0, "key"), "lab": Member("lab", 1)})
    before = files(server.path)
    found = check_server(server)
    assert files(server.path) == before
    assert (found.public, found.test, found.values, found.classes) == (150, 140, 30, ("0", "1"))
    assert (found.admitted, found.waiting, found.quorum) == (("clinic",), ("lab",), 2)
    example = [each.epsilon for each in found.method.guarantees if each.unit == "example"]
    assert max(example) == pytest.approx(4.0, abs=0.01)
    assert [each.epsilon for each in found.budgets] == [5.0]
    assert found.parties == 1
    assert isinstance(found.estimate, Estimate)
    assert 496 * 3 < found.estimate.up < 496 * 8  # one party's sum: half of a symmetric matrix of 31 columns


def test_a_text_column_is_warned_of_before_the_run_and_not_at_each_command(server: ServerFolder) -> None:
    remarks = "\n".join(f"{row},text {row}" for row in range(60))
    (server.path / "public.csv").write_text(f"age,remark\n{remarks}\n")
    file = server.path / "experiment.toml"
    table = EXPERIMENT.replace("public.npz", "public.csv").replace('test = "test.npz"', 'label = "y"')
    file.write_text(table)
    with pytest.warns(LimbeckWarning, match="'remark' holds 60 different texts"):
        prepare_run(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimbeckWarning)
        prepare_run(file, is_checked=True)


def test_the_coordinator_gets_one_line(server: ServerFolder) -> None:
    file = server.path / "other.toml"
    file.write_text(EXPERIMENT.replace("epsilon = 4.0", "epsilon = 6.0").replace("test.npz", "tests.npz"))
    with pytest.raises(LimbeckError, match=r"tests\.npz"):
        check_server(server, file)


def test_a_party_sees_its_rows_and_what_it_may_be_asked(tmp_path: Path) -> None:
    home = make(tmp_path)
    write_settings(home, "budget = { epsilon = 3.0 }\n", AGREE_SUMS + 'levels = ["L2"]\nepsilon = 2.5\n')
    found = check_party(PartyFolder(home))
    assert (found.rows, found.public, found.counts) == (30, 30, (10, 10, 10))
    [agreed] = found.agreed
    assert (agreed.algorithm, agreed.levels) == ("fedridge", ("L2",))
    assert agreed.cap == "epsilon 2.5 at delta 1e-05 towards server, unit example"
    assert [(each.epsilon, each.before) for each in found.budgets] == [(3.0, 0.0)]
    assert (home / "checked.json").exists()
    assert rows(home) == []


def test_a_party_sees_its_own_test_rows(tmp_path: Path) -> None:
    home = make(tmp_path)
    write_settings(home, 'test = "test.npz"\n')
    np.savez(home / "test.npz", x_train=IRIS.x[:60:10], y_train=IRIS.y[:60:10])
    found = check_party(PartyFolder(home))
    assert (found.test, found.test_counts) == (6, (5, 1, 0))
    shown = CliRunner().invoke(app, ["party", "check", str(home)], catch_exceptions=False)
    assert "a: own test rows" in shown.stdout


def test_what_a_party_has_spent_is_shown(tmp_path: Path) -> None:
    from limbeck.consortium.answering import answer

    home = make(tmp_path)
    write_settings(home, "budget = { epsilon = 3.0 }\n", AGREE_SUMS)
    assert answer(PartyFolder(home), question(SUMS)).refusal is None
    [budget] = check_party(PartyFolder(home)).budgets
    assert budget.before == pytest.approx(2.0, abs=0.01)


def test_wrong_rows_of_a_party_get_one_line(tmp_path: Path) -> None:
    home = make(tmp_path)
    put_rows(home, IRIS.x[2::5][:, :3])
    with pytest.raises(LimbeckError, match="has rows of shape"):
        check_party(PartyFolder(home))


def test_both_are_printed(server: ServerFolder, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["server", "check", str(server.path)], catch_exceptions=False)
    assert "parties that must reply: 2; admit more before the run" in shown.stdout
    assert "no model of a party is trained on its rows" in shown.stdout
    assert "estimate for one party with 150 rows each (as many as public rows)" in shown.stdout
    (tmp_path / "party").mkdir()
    home = make(tmp_path / "party")
    shown = CliRunner().invoke(app, ["party", "check", str(home)], catch_exceptions=False)
    assert "no budget: answers may leave without protection" in shown.stdout
    write_settings(home, "budget = { epsilon = 3.0 }\n", AGREE_SUMS + "epsilon = 3.0\n")
    shown = CliRunner().invoke(app, ["party", "check", str(home)], catch_exceptions=False)
    assert "such a run spends the whole budget" in shown.stdout
    shown = CliRunner().invoke(app, ["party", "check", str(home), "--json"], catch_exceptions=False)
    assert json.loads(shown.stdout)["counts"] == [10, 10, 10]
    shutil.rmtree(home)
