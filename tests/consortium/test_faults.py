"""Programs killed, stopped and duplicated for real: nothing is lost, nothing is done or spent twice."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="limbeck[flower] is not installed")

from limbeck.engines.journal import Journal
from limbeck.privacy.ledger import read_ledger
from neighbours import Neighbours, alive, children

pytestmark = pytest.mark.slow


@pytest.fixture
def neighbours(tmp_path: Path) -> Iterator[Neighbours]:
    there = Neighbours(tmp_path, deadline=120.0)
    try:
        there.serve()
        for party in there.parties:
            there.settle(party)
        yield there
    finally:
        there.close()


def journal(neighbours: Neighbours, run: str = "experiment-1") -> Journal:
    return Journal(neighbours.server / "runs" / run / "journal.sqlite")


def test_a_party_killed_while_it_trains_is_asked_again_when_it_is_back(neighbours: Neighbours) -> None:
    marker = neighbours.slow("b", 8.0)
    neighbours.attend("a", "b", "c")
    lead = neighbours.lead(neighbours.server / "experiment.toml")
    neighbours.until(marker.exists)
    nursery = children(neighbours.running["b"].pid)
    grandchildren = [child for each in nursery for child in children(each)]
    neighbours.kill("b")
    neighbours.until(lambda: not any(map(alive, grandchildren)))  # what it was training ends with it
    neighbours.settings("b")
    (neighbours.home / "b.log").unlink()
    neighbours.attend("b")
    assert lead.wait(120) == 0, neighbours.log("lead")
    assert sorted(journal(neighbours).answers(0)) == [0, 1, 2]
    assert neighbours.releases("b") == 1


def test_a_party_killed_after_its_release_gives_the_same_answer_again(neighbours: Neighbours) -> None:
    marker = neighbours.slow("b", 3.0)
    neighbours.attend("a", "b", "c")
    lead = neighbours.lead(neighbours.server / "experiment.toml")
    neighbours.until(marker.exists)
    neighbours.running["b"].send_signal(signal.SIGSTOP)  # the program that sends; the one that answers goes on
    neighbours.until(lambda: neighbours.answers("b"))
    neighbours.kill("b")
    assert neighbours.releases("b") == 1
    trained = marker.read_text()
    (neighbours.home / "b.log").unlink()
    neighbours.attend("b")
    assert lead.wait(120) == 0, neighbours.log("lead")
    assert marker.read_text() == trained, "it trained twice"
    assert neighbours.releases("b") == 1
    assert sorted(journal(neighbours).answers(0)) == [0, 1, 2]


def test_an_answering_process_that_dies_is_started_once_more(neighbours: Neighbours) -> None:
    marker = neighbours.slow("b", 4.0)
    neighbours.attend("a", "b", "c")
    lead = neighbours.lead(neighbours.server / "experiment.toml")
    neighbours.until(marker.exists)
    [nursery] = children(neighbours.running["b"].pid)
    for child in children(nursery):
        os.kill(child, signal.SIGKILL)
    assert lead.wait(120) == 0, neighbours.log("lead")
    assert sorted(journal(neighbours).answers(0)) == [0, 1, 2]
    assert neighbours.releases("b") == 1


def test_a_server_killed_in_the_middle_goes_on_where_it_was(neighbours: Neighbours) -> None:
    marker = neighbours.slow("b", 6.0)
    neighbours.attend("a", "b", "c")
    neighbours.lead(neighbours.server / "experiment.toml")
    neighbours.until(marker.exists)
    neighbours.until(lambda: len(journal(neighbours).answers(0)) == 2)  # a and c have answered, b trains
    neighbours.kill("lead")
    told = neighbours.run(neighbours.server / "experiment.toml", "--resume")
    assert told["run"].endswith("experiment-1")
    assert told["missing"] == []
    assert len(marker.read_text()) == 3, "its two teachers and its student were trained more than once"
    assert [len(neighbours.answers(party)) for party in neighbours.parties] == [2, 2, 2]
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]
    refused = neighbours.run(neighbours.server / "experiment.toml", "--resume", check=False)
    assert "no run of" in refused["error"]


KILLED_WHILE_COPYING = """
import os, sys
from pathlib import Path
from limbeck.consortium.coordinator import add_late
from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal
answer = Journal.answer
def once(self, *told):
    answer(self, *told)
    if "late" in str(self.path):
        os.kill(os.getpid(), 9)
Journal.answer = once
add_late(ServerFolder(Path(sys.argv[1])), "experiment-1", "c", print)
"""


def test_a_superlink_killed_is_started_again_and_the_run_ends(neighbours: Neighbours) -> None:
    marker = neighbours.slow("b", 5.0)
    neighbours.attend("a", "b", "c")
    lead = neighbours.lead(neighbours.server / "experiment.toml")
    neighbours.until(marker.exists)
    [superlink] = children(neighbours.running["serve"].pid)
    os.kill(superlink, signal.SIGKILL)
    assert lead.wait(150) == 0, neighbours.log("lead")
    assert sorted(journal(neighbours).answers(0)) == [0, 1, 2]
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]
    assert len(marker.read_text()) == 3
    assert "died (exit -9)" in neighbours.log("serve")


def test_a_party_that_hangs_is_silent_and_a_quorum_is_enough(neighbours: Neighbours) -> None:
    file = neighbours.experiment(deadline=25.0, quorum=2)
    neighbours.attend("a", "b", "c")
    neighbours.running["b"].send_signal(signal.SIGSTOP)
    told = neighbours.run(file)
    assert told["missing"] == [1]
    assert any(e.party == 1 and "silent" in e.what for e in journal(neighbours).events())
    neighbours.running["b"].send_signal(signal.SIGCONT)
    neighbours.until(lambda: neighbours.log("b").count("connected") or "turn" in neighbours.log("b"), 90)
    late = neighbours.say("server", "add-late", neighbours.server, "experiment-1", "b", "--json")
    assert '"missing": []' in late.stdout
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]
    for party in ("a", "c"):  # asked once, and handed two models
        assert [turn for _, turn in neighbours.answers(party)] == [0, 1, 1]
    for run in ("experiment-1", "experiment-1-late-1"):
        again = neighbours.say("server", "add-late", neighbours.server, run, "b", check=False)
        assert "has answered" in again.stderr


def test_a_late_party_at_level_l1_is_a_second_release_that_the_budget_may_refuse(neighbours: Neighbours) -> None:
    """A budget that has allowed nothing yet is not kept, and may still be raised."""
    noisy = 'name = "fedkt"\npartitions = 1\nsubsets = 2\nprivacy = { level = "L1", epsilon = 5.0 }'
    small, large = (f'budget = {{ epsilon = {most}, towards = "public" }}\n' for most in (6.0, 50.0))
    neighbours.attend("a", "b")
    neighbours.run(neighbours.experiment(noisy, deadline=15.0, quorum=2))
    neighbours.experiment(noisy, deadline=15.0, quorum=2, more=small)
    neighbours.attend("c")
    silent = neighbours.say("server", "add-late", neighbours.server, "experiment-1", "c", check=False)
    assert "nothing was counted again" in silent.stderr or "would bring" in silent.stderr
    refused = neighbours.say("server", "add-late", neighbours.server, "experiment-1", "c", check=False)
    assert "this run would bring epsilon towards public to" in refused.stderr
    assert "of 6 is left" in refused.stderr
    assert neighbours.releases("c") == 0
    assert [path.name for path in (neighbours.server / "runs").iterdir()] == ["experiment-1"]
    neighbours.experiment(noisy, deadline=60.0, quorum=2, more=large)
    neighbours.say("server", "add-late", neighbours.server, "experiment-1", "c")
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]
    noised = [row for _, _, row in read_ledger(neighbours.server / "ledger.sqlite") if row.mechanism == "gumbel"]
    assert len(noised) == 2


def test_without_a_quorum_the_run_says_who_was_silent_and_can_go_on(neighbours: Neighbours) -> None:
    file = neighbours.experiment(deadline=30.0, quorum=3)
    neighbours.attend("a", "b")
    told = neighbours.run(file, check=False)
    assert (
        "2 of 3 parties answered TrainStudents, at least 3 must (party 2: silent until the deadline)" in told["error"]
    )
    assert "Traceback" not in told["error"]
    neighbours.attend("c")
    file = neighbours.experiment(deadline=60.0, quorum=3)  # more patience; anything else must stay as it was
    assert neighbours.run(file, "--resume")["missing"] == []
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]


def test_two_programs_with_one_key_are_not_both_let_in(neighbours: Neighbours) -> None:
    twin = neighbours.home / "twin"
    neighbours.attend("a")
    twin.mkdir()
    for name in ("key", "join.json", "party.toml", "private.npz", "public.npz"):
        (twin / name).write_bytes((neighbours.home / "a" / name).read_bytes())
    neighbours.start("twin", "party", "start", twin)
    neighbours.until(lambda: "does not let this party in" in neighbours.log("twin"))
    assert "connected" not in neighbours.log("twin")
    again = neighbours.say("party", "start", neighbours.home / "a", check=False)
    assert "another program speaks for this party already" in again.stderr


def test_a_request_that_waits_for_a_person_does_not_keep_others_waiting(neighbours: Neighbours) -> None:
    """Nor is anything released for one whose run has ended."""
    neighbours.settings("b", more="approve = true")
    neighbours.attend("a", "b", "c")
    assert neighbours.run(neighbours.experiment(deadline=20.0, quorum=2))["missing"] == [1]
    lead = neighbours.lead(neighbours.experiment(deadline=90.0, quorum=3, name="other"))
    neighbours.until(lambda: neighbours.log("b").count("waits for a person") == 2)
    neighbours.say("party", "approve", neighbours.home / "b", "2")
    neighbours.until(lambda: neighbours.log("b").count("waits for a person") == 3)  # to take the model
    neighbours.say("party", "approve", neighbours.home / "b", "3")
    assert lead.wait(120) == 0, neighbours.log("lead")
    neighbours.say("party", "approve", neighbours.home / "b", "1")
    neighbours.until(lambda: "experiment-1" in neighbours.log("b").split("waits for a person", 3)[-1])
    assert [neighbours.releases(party) for party in neighbours.parties] == [2, 1, 2]


def test_a_late_party_whose_server_is_killed_while_it_copies_costs_nobody_his_vote(neighbours: Neighbours) -> None:
    neighbours.attend("a", "b")
    assert neighbours.run(neighbours.experiment(deadline=20.0, quorum=2))["missing"] == [2]
    neighbours.experiment(deadline=60.0, quorum=2)
    neighbours.attend("c")
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_COPYING, str(neighbours.server)], check=False)
    assert killed.returncode == -signal.SIGKILL
    late = neighbours.say("server", "add-late", neighbours.server, "experiment-1", "c", "--json")
    assert '"missing": []' in late.stdout
    assert [neighbours.releases(party) for party in neighbours.parties] == [1, 1, 1]
