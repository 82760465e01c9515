"""Programs killed, stopped and duplicated for real: nothing is lost, nothing is done or spent twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal
from limbeck.privacy.ledger import read_ledger
from programs import Consortium, alive, children

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Consortium]:
    there = Consortium(tmp_path, deadline=120.0)
    try:
        there.serve()
        for party in there.parties:
            there.write_settings(party)
        yield there
    finally:
        there.close()


def journal(programs: Consortium, run: str = "experiment-1") -> Journal:
    return Journal(programs.server / "runs" / run / "journal.sqlite")


def test_a_party_killed_while_it_trains_is_asked_again_when_it_is_back(programs: Consortium) -> None:
    marker = programs.slow("b", 8.0)
    programs.start_parties("a", "b", "c")
    lead = programs.lead(programs.server / "experiment.toml")
    programs.until(marker.exists)
    fork_server = children(programs.running["b"].pid)
    grandchildren = [child for each in fork_server for child in children(each)]
    programs.kill("b")
    programs.until(lambda: not any(map(alive, grandchildren)))  # what it was training ends with it
    programs.settings("b")
    (programs.home / "b.log").unlink()
    programs.start_parties("b")
    assert lead.wait(120) == 0, programs.log("lead")
    assert sorted(journal(programs).answers(0)) == [0, 1, 2]
    assert programs.releases("b") == 1


def test_a_party_killed_after_its_release_gives_the_same_answer_again(programs: Consortium) -> None:
    marker = programs.slow("b", 3.0)
    programs.start_parties("a", "b", "c")
    lead = programs.lead(programs.server / "experiment.toml")
    programs.until(marker.exists)
    programs.running["b"].send_signal(signal.SIGSTOP)  # the program that sends; the one that answers goes on
    programs.until(lambda: programs.answers("b"))
    programs.kill("b")
    assert programs.releases("b") == 1
    trained = marker.read_text()
    (programs.home / "b.log").unlink()
    programs.start_parties("b")
    assert lead.wait(120) == 0, programs.log("lead")
    assert marker.read_text() == trained, "it trained twice"
    assert programs.releases("b") == 1
    assert sorted(journal(programs).answers(0)) == [0, 1, 2]


def test_an_answering_process_that_dies_is_started_once_more(programs: Consortium) -> None:
    marker = programs.slow("b", 4.0)
    programs.start_parties("a", "b", "c")
    lead = programs.lead(programs.server / "experiment.toml")
    programs.until(marker.exists)
    [fork_server] = children(programs.running["b"].pid)
    for child in children(fork_server):
        os.kill(child, signal.SIGKILL)
    assert lead.wait(120) == 0, programs.log("lead")
    assert sorted(journal(programs).answers(0)) == [0, 1, 2]
    assert programs.releases("b") == 1


def test_a_server_killed_in_the_middle_goes_on_where_it_was(programs: Consortium) -> None:
    marker = programs.slow("b", 6.0)
    programs.start_parties("a", "b", "c")
    programs.lead(programs.server / "experiment.toml")
    programs.until(marker.exists)
    programs.until(lambda: len(journal(programs).answers(0)) == 2)  # a and c have answered, b trains
    programs.kill("lead")
    summary = programs.run(programs.server / "experiment.toml", "--resume")
    assert summary["run"].endswith("experiment-1")
    assert summary["missing"] == []
    assert len(marker.read_text()) == 3, "its two teachers and its student were trained more than once"
    assert [len(programs.answers(party)) for party in programs.parties] == [2, 2, 2]
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]
    refused = programs.run(programs.server / "experiment.toml", "--resume", check=False)
    assert "no run of" in refused["error"]


KILLED_WHILE_COPYING = """
import os, sys
from pathlib import Path
from limbeck.consortium.amendments import add_late
from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal
answer = Journal.answer
def once(self, *given):
    answer(self, *given)
    if "late" in str(self.path):
        os.kill(os.getpid(), 9)
Journal.answer = once
add_late(ServerFolder(Path(sys.argv[1])), "experiment-1", "c", print)
"""


def test_a_superlink_killed_is_started_again_and_the_run_ends(programs: Consortium) -> None:
    marker = programs.slow("b", 5.0)
    programs.start_parties("a", "b", "c")
    lead = programs.lead(programs.server / "experiment.toml")
    programs.until(marker.exists)
    [superlink] = children(programs.running["serve"].pid)
    os.kill(superlink, signal.SIGKILL)
    assert lead.wait(150) == 0, programs.log("lead")
    assert sorted(journal(programs).answers(0)) == [0, 1, 2]
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]
    assert len(marker.read_text()) == 3
    assert "crashed (exit -9)" in programs.log("serve")


def test_a_party_that_hangs_is_silent_and_a_quorum_is_enough(programs: Consortium) -> None:
    file = programs.experiment(deadline=25.0, quorum=2)
    programs.start_parties("a", "b", "c")
    programs.running["b"].send_signal(signal.SIGSTOP)
    summary = programs.run(file)
    assert summary["missing"] == [1]
    assert any(e.party == 1 and "silent" in e.what for e in journal(programs).events())
    programs.running["b"].send_signal(signal.SIGCONT)
    programs.until(lambda: programs.log("b").count("connected") or "turn" in programs.log("b"), 90)
    late = programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "b", "--json")
    assert '"missing": []' in late.stdout
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]
    for party in ("a", "c"):  # asked once, and handed two models
        assert [turn for _, turn in programs.answers(party)] == [0, 1, 1]
    for run in ("experiment-1", "experiment-1-late-1"):
        again = programs.run_limbeck("server", "add-late", programs.server, run, "b", check=False)
        assert "has answered" in again.stderr


def test_a_late_party_at_level_l1_is_a_second_release_that_the_budget_may_refuse(programs: Consortium) -> None:
    """A budget that has allowed nothing yet is not kept, and may still be raised."""
    noisy = 'name = "fedkt"\npartitions = 1\nsubsets = 2\nprivacy = { level = "L1", epsilon = 5.0 }'
    small, large = (f'budget = {{ epsilon = {most}, observer = "public" }}\n' for most in (6.0, 50.0))
    programs.start_parties("a", "b")
    programs.run(programs.experiment(noisy, deadline=15.0, quorum=2))
    programs.experiment(noisy, deadline=15.0, quorum=2, more=small)
    programs.start_parties("c")
    silent = programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "c", check=False)
    assert "no replies were counted again" in silent.stderr or "would bring" in silent.stderr
    refused = programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "c", check=False)
    assert "this run would bring epsilon towards public to" in refused.stderr
    assert "of 6 is left" in refused.stderr
    assert programs.releases("c") == 0
    assert [path.name for path in (programs.server / "runs").iterdir()] == ["experiment-1"]
    programs.experiment(noisy, deadline=60.0, quorum=2, more=large)
    programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "c")
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]
    noised = [row for _, _, row in read_ledger(programs.server / "ledger.sqlite") if row.mechanism == "gumbel"]
    assert len(noised) == 2


def test_a_party_is_added_to_a_run_of_fedridge_and_removed_again(programs: Consortium) -> None:
    """Both models are equal to the bit to those of runs in which it took part, or was silent."""
    ridge = 'name = "fedridge"\nprivacy = { level = "L2", epsilon = 8.0 }'
    for party in programs.parties:
        programs.settings(party, agree='algorithm = "fedridge"', more="budget = { epsilon = 50.0 }")
    programs.start_parties("a", "c")
    assert programs.run(programs.experiment(ridge, deadline=10.0, quorum=2))["missing"] == [1]
    programs.start_parties("b")
    all_three = programs.run(programs.experiment(ridge, quorum=3, name="all"))
    programs.experiment(ridge, quorum=2)
    late = programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "b", "--json")
    assert json.loads(late.stdout)["missing"] == []
    ledgers = [programs.releases(party) for party in programs.parties]
    for party in programs.parties:
        programs.kill(party)
    with closing(ServerFolder(programs.server).control()) as control:
        programs.until(lambda: not any(each.online for each in control.presences()))
    programs.experiment(ridge, name="all")
    started = time.monotonic()
    left = programs.run_limbeck("server", "remove-party", programs.server, "all-1", "b", "--json")
    assert time.monotonic() - started < 30, "it waited for parties that are away"
    assert [programs.releases(party) for party in programs.parties] == ledgers
    added, removed = (Path(json.loads(done.stdout)["run"]) / "model.onnx" for done in (late, left))
    assert added.read_bytes() == (Path(all_three["run"]) / "model.onnx").read_bytes()
    assert removed.read_bytes() == (programs.server / "runs" / "experiment-1" / "model.onnx").read_bytes()
    amends = json.loads(left.stdout)["amends"]
    assert (amends["run"], amends["removed"]) == ("all-1", "b")
    assert 7.9 < amends["epsilon_of_others"]["public"] <= 8.0


def test_without_a_quorum_the_run_states_who_was_silent_and_can_go_on(programs: Consortium) -> None:
    file = programs.experiment(deadline=30.0, quorum=3)
    programs.start_parties("a", "b")
    summary = programs.run(file, check=False)
    assert (
        "2 of 3 parties answered TrainStudents, at least 3 must (party 2: silent until the deadline)"
        in summary["error"]
    )
    assert "Traceback" not in summary["error"]
    programs.start_parties("c")
    file = programs.experiment(deadline=60.0, quorum=3)  # more patience; anything else must stay as it was
    assert programs.run(file, "--resume")["missing"] == []
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]


def test_two_programs_with_one_key_are_not_both_let_in(programs: Consortium) -> None:
    twin = programs.home / "twin"
    programs.start_parties("a")
    twin.mkdir()
    for name in ("key", "join.json", "party.toml", "private.npz", "public.npz"):
        (twin / name).write_bytes((programs.home / "a" / name).read_bytes())
    programs.start("twin", "party", "start", twin)
    programs.until(lambda: "does not let this party in" in programs.log("twin"))
    assert "connected" not in programs.log("twin")
    again = programs.run_limbeck("party", "start", programs.home / "a", check=False)
    assert "another program answers for this party already" in again.stderr


def test_a_request_that_waits_for_a_person_does_not_keep_others_waiting(programs: Consortium) -> None:
    """Nor is anything released for one whose run has ended."""
    programs.settings("b", more="approve = true")
    programs.start_parties("a", "b", "c")
    assert programs.run(programs.experiment(deadline=20.0, quorum=2))["missing"] == [1]
    lead = programs.lead(programs.experiment(deadline=90.0, quorum=3, name="other"))
    programs.until(lambda: programs.log("b").count("waits for a person") == 2)
    programs.run_limbeck("party", "approve", programs.home / "b", "2")
    programs.until(lambda: programs.log("b").count("waits for a person") == 3)  # to take the model
    programs.run_limbeck("party", "approve", programs.home / "b", "3")
    assert lead.wait(120) == 0, programs.log("lead")
    programs.run_limbeck("party", "approve", programs.home / "b", "1")
    programs.until(lambda: "experiment-1" in programs.log("b").split("waits for a person", 3)[-1])
    assert [programs.releases(party) for party in programs.parties] == [2, 1, 2]


def test_a_late_party_whose_server_is_killed_while_it_copies_costs_nobody_his_vote(programs: Consortium) -> None:
    programs.start_parties("a", "b")
    assert programs.run(programs.experiment(deadline=20.0, quorum=2))["missing"] == [2]
    programs.experiment(deadline=60.0, quorum=2)
    programs.start_parties("c")
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_COPYING, str(programs.server)], check=False)
    assert killed.returncode == -signal.SIGKILL
    late = programs.run_limbeck("server", "add-late", programs.server, "experiment-1", "c", "--json")
    assert '"missing": []' in late.stdout
    assert [programs.releases(party) for party in programs.parties] == [1, 1, 1]
