"""Runs repeated with a late party or without one that leaves, in one process."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

pytest.importorskip("flwr", reason="the extra flower is not installed")

from direct_parties import DirectConsortium
from limbeck.cli import app
from limbeck.consortium.amendments import add_late, remove_party
from limbeck.consortium.coordinator import begin
from limbeck.consortium.totals import guarantees_together
from limbeck.engines.journal import Journal
from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import read_ledger

L1, L2 = (f'privacy = {{ level = "{level}", epsilon = 5.0 }}' for level in ("L1", "L2"))
METHODS = {
    "fedkt": 'name = "fedkt"\npartitions = 1\nsubsets = 2',
    "fedkt-L1": f'name = "fedkt"\npartitions = 1\nsubsets = 2\n{L1}',
    "fedkt-L2": f'name = "fedkt"\npartitions = 1\nsubsets = 2\n{L2}',
    "fedvote": 'name = "fedvote"',
    "fedvote-L1": f'name = "fedvote"\npartitions = 1\nsubsets = 2\n{L1}',
    "fedkd": 'name = "fedkd"',
    "fedridge": 'name = "fedridge"',
    "fedridge-L1": f'name = "fedridge"\n{L1}',
    "fedridge-L2": f'name = "fedridge"\n{L2}',
}
SLOW = ("fedkt", "fedkt-L1", "fedkt-L2")
NOISED_BY_SERVER = ("fedkt-L1", "fedvote-L1", "fedridge-L1", "fedkd")


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectConsortium:
    return DirectConsortium(tmp_path, monkeypatch)


def run_without(consortium: DirectConsortium, method: str, *silent: str, name: str = "experiment") -> None:
    """A run of a, b and c in which some are silent; it ends as NAME-1."""
    file = consortium.experiment(METHODS[method], name, quorum=f"quorum = {3 - len(silent)}")
    if not (consortium.home / "a").exists():
        consortium.admit("a", "b", "c")
    consortium.connected.difference_update(silent)
    begin(consortium.folder, file, print)
    consortium.connected.update(silent)
    consortium.experiment(METHODS[method], name)


def remove(consortium: DirectConsortium, run: str, name: str) -> str:
    """Name of the new run's folder."""
    return remove_party(consortium.folder, run, name, print).folder.name


def add(consortium: DirectConsortium, run: str, name: str) -> str:
    return add_late(consortium.folder, run, name, print).folder.name


def methods() -> list[Any]:
    return [pytest.param(method, marks=[pytest.mark.slow] if method in SLOW else []) for method in METHODS]


@pytest.mark.parametrize("method", methods())
def test_a_run_without_a_party_is_equal_to_one_in_which_it_was_silent(
    consortium: DirectConsortium, method: str
) -> None:
    """At L0 and L2 nobody needs to be connected, and nothing is spent. Added again, the party makes no difference."""
    run_without(consortium, method)
    run_without(consortium, method, "b", name="never")
    before = {name: consortium.released(name) for name in "abc"}
    if method not in NOISED_BY_SERVER:
        consortium.connected.clear()
    amended = remove(consortium, "experiment-1", "b")
    assert amended == "experiment-1-without-b-1"
    assert consortium.model(amended) == consortium.model("never-1") != consortium.model("experiment-1")
    more = {name: consortium.released(name)[len(before[name]) :] for name in "abc"}
    assert {name for name in "abc" if more[name]} == ({"a", "c"} if method in NOISED_BY_SERVER else set())
    assert all("-without-1" in run and site == "server" for rows in more.values() for run, site, _ in rows)
    consortium.connected.update("abc")
    assert consortium.model(add(consortium, "never-1", "b")) == consortium.model("experiment-1")


def test_two_parties_are_removed_in_either_order(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge-L2")
    run_without(consortium, "fedridge-L2", "b", "c", name="never")
    first = remove(consortium, remove(consortium, "experiment-1", "b"), "c")
    second = remove(consortium, remove(consortium, "experiment-1", "c"), "b")
    assert first == "experiment-1-without-b-1-without-c-1"
    assert consortium.model(first) == consortium.model(second) == consortium.model("never-1")


def test_with_secure_noise_the_stored_replies_count(consortium: DirectConsortium) -> None:
    """Noise is not drawn again: removed in either order, the same replies are left."""
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    file = consortium.experiment(METHODS["fedridge-L2"], noise="secure")
    consortium.admit("a", "b", "c", budget="budget = { epsilon = 6.0 }", simulation=False)
    begin(consortium.folder, file, print)
    first = remove(consortium, remove(consortium, "experiment-1", "b"), "c")
    second = remove(consortium, remove(consortium, "experiment-1", "c"), "b")
    assert consortium.model(first) == consortium.model(second)
    assert [len(consortium.released(name)) for name in "abc"] == [1, 1, 1]
    record = consortium.folder.path / "runs" / first / "record.json"
    assert json.loads(record.read_text())["noise"] == "secure"


def test_a_removed_party_gets_no_model_and_the_others_do(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge")
    remove(consortium, "experiment-1", "b")
    models = {name: len(list((consortium.home / name / "models").iterdir())) for name in "abc"}
    assert models == {"a": 2, "b": 1, "c": 2}


def test_at_level_l1_all_others_must_agree_before_anything_is_released(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge-L1")
    ledger = consortium.folder.path / "ledger.sqlite"
    before, runs = len(read_ledger(ledger)), consortium.runs()
    consortium.connected.discard("c")
    with pytest.raises(LimbeckError, match=r"no replies were counted again: 1 of 2 parties did not agree \(party 2: "):
        remove(consortium, "experiment-1", "b")
    assert len(read_ledger(ledger)) == before
    assert consortium.runs() == runs
    consortium.connected.add("c")
    result = remove_party(consortium.folder, "experiment-1", "b", print)
    charges = [run for run, site, _ in consortium.released("a") if site == "server"]
    assert len(charges) == len(set(charges)) == 2
    once = result.record.epsilon["public"]
    assert result.record.amends["epsilon_of_party"]["public"] == once
    assert once * 1.2 < result.record.amends["epsilon_of_others"]["public"] < 2 * once
    assert result.costs_more == result.together


def test_a_small_budget_of_a_party_prevents_a_second_release_at_level_l1(consortium: DirectConsortium) -> None:
    file = consortium.experiment(METHODS["fedridge-L1"])
    consortium.admit("a", "b")
    consortium.admit("c", budget='budget = { epsilon = 6.0, observer = "public", unit = "party" }')
    begin(consortium.folder, file, print)
    with pytest.raises(LimbeckError, match="party 2: refused: the run would spend more"):
        remove(consortium, "experiment-1", "b")
    assert consortium.runs() == ["experiment-1"]


def test_a_corrected_party_replies_anew_which_is_a_second_release(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge-L2")
    removed = remove(consortium, "experiment-1", "b")
    first = np.load(consortium.home / "b" / "private.npz")
    x, y = first["x_train"], first["y_train"]
    consortium.correct_rows("b", x, (y + 1) % 3)
    result = add_late(consortium.folder, removed, "b", print)
    assert result.folder.name == "experiment-1-without-b-1-late-1"
    assert consortium.model(result.folder.name) != consortium.model("experiment-1")
    run_without(consortium, "fedridge-L2", name="corrected")
    assert consortium.model(result.folder.name) == consortium.model("corrected-1")
    epsilons = result.record.amends["epsilon_of_others"], result.record.amends["epsilon_of_party"]
    assert epsilons[0]["public"] == result.record.epsilon["public"] < 0.8 * epsilons[1]["public"]
    assert [len(consortium.released(name)) for name in "abc"] == [2, 3, 2]
    with pytest.raises(LimbeckError, match=f"b has answered in {removed} already"):
        add(consortium, removed, "b")
    again = remove(consortium, result.folder.name, "b")
    assert consortium.model(again) == consortium.model(removed)
    consortium.correct_rows("b", x, y)
    assert consortium.model(add(consortium, again, "b")) == consortium.model("experiment-1")


def test_what_cannot_be_removed_is_reported_and_nothing_is_written(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge", "c")
    consortium.experiment(METHODS["fedridge"], quorum="quorum = 1")
    amended = remove(consortium, "experiment-1", "b")
    runs = consortium.runs()
    for run, name, message in (
        ("experiment-7", "b", "there is no such run"),
        ("experiment-1", "d", "d took no part in experiment-1; its parties: a, b, c"),
        ("experiment-1", "c", "c has not answered in experiment-1: there is nothing to remove"),
        ("experiment-1", "b", f"b was removed from experiment-1 already: the result is in runs/{amended}"),
        (amended, "b", f"b is not in {amended}: it was removed before"),
        (amended, "a", f"{amended} without a: too few replies are left: 0, but the quorum is 1"),
    ):
        with pytest.raises(LimbeckError, match=message):
            remove(consortium, run, name)
    consortium.experiment(METHODS["fedridge"], quorum="quorum = 2")
    with pytest.raises(LimbeckError, match="too few replies are left: 1, but the quorum is 2"):
        remove(consortium, "experiment-1", "a")
    (consortium.folder.path / "runs" / "experiment-1" / "record.json").unlink()
    with pytest.raises(LimbeckError, match="experiment-1 has not ended"):
        remove(consortium, "experiment-1", "a")
    assert consortium.runs() == runs


def test_an_interrupted_removal_goes_on_where_it_was(
    consortium: DirectConsortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_without(consortium, "fedridge-L1")
    with monkeypatch.context() as patched:
        patched.setattr("limbeck.consortium.coordinator._write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove(consortium, "experiment-1", "b")
    assert remove(consortium, "experiment-1", "b") == "experiment-1-without-b-1"
    released = [run for _, run, row in read_ledger(consortium.folder.path / "ledger.sqlite") if row.what != "model"]
    assert len(released) == 2, "noise was drawn twice"


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_run_whose_folder_was_deleted_still_counts_for_all(consortium: DirectConsortium) -> None:
    run_without(consortium, "fedridge-L1")
    amended = remove(consortium, "experiment-1", "b")
    first = Journal(consortium.folder.path / "runs" / amended / "journal.sqlite").about()["earlier"]
    known = guarantees_together(consortium.folder, first, {0, 2}, 1e-5, 1)
    shutil.rmtree(consortium.folder.path / "runs" / "experiment-1")
    assert guarantees_together(consortium.folder, first, {0, 2}, 1e-5, 1) == known


def test_the_command_prints_what_the_others_and_the_removed_party_have_spent(
    consortium: DirectConsortium, capfd: pytest.CaptureFixture[str]
) -> None:
    run_without(consortium, "fedridge-L1")
    words = ["server", "remove-party", str(consortium.folder.path), "experiment-1", "b"]
    get_command(app)(words, standalone_mode=False)
    shown = capfd.readouterr().out
    home = consortium.folder.path / "runs" / "experiment-1-without-b-1"
    record = json.loads((home / "record.json").read_text())
    amends = record["amends"]
    assert (amends["run"], amends["removed"], record["missing"]) == ("experiment-1", "b", [1])
    assert f"all runs with these replies: ∞ to server, {amends['epsilon_of_others']['parties']:.3g} to parties" in shown
    assert "what was published with its reply stays published" in shown
    statement = (home / "privacy.md").read_text()
    assert "| Repeats | the run `experiment-1`, without b" in statement
    assert "Other runs share the ledger of this run, and their losses add up." in statement
    words = ["server", "remove-party", str(consortium.folder.path), home.name, "c", "--json"]
    get_command(app)(words, standalone_mode=False)
    summary = json.loads(capfd.readouterr().out)
    assert summary["amends"]["removed"] == "c"
