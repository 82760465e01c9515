"""What a party's owner allows: a budget over all runs, its unit, the parameters of a run, and no seed of the server's."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd_private import FedMDLDP
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.algorithms.scoring import Initialize
from limbeck.consortium.answering import accept_request, answer
from limbeck.consortium.checking import check
from limbeck.consortium.party import PartyFolder
from limbeck.consortium.proposal import settings_for
from limbeck.errors import LimbeckError
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.ledger import Budget
from limbeck.protocol.recipe import Recipe
from party_folders import (
    AGREE,
    CANNOT,
    NOISY,
    NOISY_VOTES,
    PRIVATE,
    SUBSET,
    SUMS,
    TOO_MUCH,
    invitation,
    make,
    question,
    rows,
    write_settings,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path)


def refusal(home: Path, method: Any, run: str = "run", **more: Any) -> str | None:
    return answer(PartyFolder(home), question(method, run=run, **more)).refusal


def invite(home: Path, algorithm: Any) -> None:
    """As `limbeck party init` does, and rows in their place."""
    folder = PartyFolder(home)
    join = replace(folder.join, algorithm=invitation(algorithm))
    (home / "join.json").write_text(join.to_json())
    text = settings_for(join).replace(".csv", ".npz").replace("random-forest", "decision-tree")
    (home / "party.toml").write_text(text)


def test_a_budget_is_meant_for_the_server_unless_it_names_another_observer(home: Path) -> None:
    write_settings(home, "budget = { epsilon = 0.01 }")
    assert PartyFolder(home).settings.budget == Budget(0.01, 1e-5, "server", "example")
    assert [refusal(home, method) for method in (FedKT(), FedVote())] == [TOO_MUCH, TOO_MUCH]
    assert rows(home) == []


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_the_budget_of_an_invitation_is_enough_for_one_run_under_whatever_name(home: Path, method: Any) -> None:
    invite(home, method)
    refusals = [refusal(home, method, run=f"run-{number}") for number in range(3)]
    assert refusals == [None, TOO_MUCH, TOO_MUCH]
    assert {run for run, _ in rows(home)} == {"run-0"}


def test_a_budget_that_was_used_stays_when_it_is_raised_or_removed_from_the_file(home: Path) -> None:
    write_settings(home, "budget = { epsilon = 2.5 }")
    assert refusal(home, PRIVATE) is None
    write_settings(home)
    assert refusal(home, PRIVATE, run="another") == TOO_MUCH
    write_settings(home, "budget = { epsilon = 9.0 }")
    assert refusal(home, PRIVATE, run="another") == "this party cannot answer; its own log has the reason"
    with pytest.raises(LimbeckError, match="a budget may be lowered, never raised"):
        check(PartyFolder(home))
    assert {run for run, _ in rows(home)} == {"run"}


@pytest.mark.parametrize(
    ("unit", "reply"), [("example", [None, None]), ("party", [None, TOO_MUCH]), ("both", [None, TOO_MUCH])]
)
@pytest.mark.parametrize(("party", "row"), [(NOISY, PRIVATE), (NOISY_VOTES, SUMS)])
def test_a_budget_counts_what_is_meant_to_be_protected(
    home: Path, party: Any, row: Any, unit: str, reply: list[str | None]
) -> None:
    """An L2 run protects rows, not parties: after an L1 run it must not pass as one more of the same kind."""
    write_settings(home, f'budget = {{ epsilon = 9.0, observer = "public", unit = "{unit}" }}')
    assert [refusal(home, party, run="L1"), refusal(home, row, run="L2")] == reply


def test_people_with_several_rows_spend_more(home: Path) -> None:
    write_settings(home, "budget = { epsilon = 2.5, rows_per_person = 5 }")
    assert refusal(home, PRIVATE) == TOO_MUCH
    group = FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=2.0, rows_per_person=5))
    assert refusal(home, group) is None


def test_people_with_several_rows_spend_more_of_sums(home: Path) -> None:
    write_settings(home, "budget = { epsilon = 2.5, rows_per_person = 5 }")
    assert refusal(home, SUMS) == TOO_MUCH
    group = FedRidge(privacy=Privacy("L2", epsilon=2.0, rows_per_person=5))
    assert refusal(home, group) is None


@pytest.mark.parametrize(
    "algorithm", [FedVote(), FedKT(), FedKT(privacy=Privacy("L2", mechanism="gaussian", sigma=40.0))]
)
def test_without_an_epsilon_in_the_invitation_nothing_is_answered_before_the_owner_chose(
    home: Path, algorithm: Any
) -> None:
    invite(home, algorithm)
    with pytest.raises(LimbeckError) as error:
        check(PartyFolder(home))
    assert str(error.value).endswith("write a [budget], or unprotected = true above [model]")
    assert refusal(home, algorithm) == "this party's owner has not decided what may be spent"
    assert rows(home) == []
    text = (home / "party.toml").read_text()
    (home / "party.toml").write_text(text.replace("# unprotected", "unprotected"))
    check(PartyFolder(home))
    assert refusal(home, algorithm) is None


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (FedKT(partitions=1, subsets=29, privacy=Privacy("L2", epsilon=2.0)), "subsets"),
        (FedKT(partitions=30, subsets=4, privacy=Privacy("L2", epsilon=2.0)), "partitions"),
        (FedKT(partitions=1, subsets=4, queries=3, privacy=Privacy("L2", epsilon=2.0)), "queries"),
        (FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=1.0)), "privacy.epsilon"),
        (FedKT(partitions=1, subsets=4, consistent=False, privacy=Privacy("L2", epsilon=2.0)), "consistent"),
        (FedVote(partitions=1, subsets=29, privacy=Privacy("L1", epsilon=2.0)), "subsets"),
        (FedVote(partitions=1, subsets=2, weights="equal", privacy=Privacy("L1", epsilon=2.0)), "weights"),
        (FedVote(partitions=1, subsets=2, prior=[0.1, 0.1, 0.8], privacy=Privacy("L1", epsilon=2.0)), "prior"),
        (FedRidge(final="model", privacy=Privacy("L2", epsilon=2.0)), "final"),
        (FedRidge(privacy=Privacy("L2", epsilon=1.0)), "privacy.epsilon"),
    ],
)
def test_other_parameters_than_those_of_the_invitation_are_refused_by_name(home: Path, asked: Any, key: str) -> None:
    invited: Any = {"fedkt": PRIVATE, "fedvote": NOISY_VOTES, "fedridge": SUMS}[asked.name]
    invite(home, invited)
    assert refusal(home, asked) == f"this party did not agree to {asked.name} with this value of {key}"
    assert rows(home) == []
    assert refusal(home, invited) is None


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"fine_tune": Recipe(epochs=20, batch=32, learning_rate=1e30)}, "fine_tune.learning_rate"),
        ({"start": "public"}, "start"),
        ({"rounds": 3}, "rounds"),
    ],
)
def test_the_server_chooses_neither_recipe_nor_start(home: Path, changes: dict[str, Any], key: str) -> None:
    usual = FedMDLDP(start="none", rounds=1, epsilon=1.0)
    invite(home, usual)
    asked = invitation(replace(usual, **changes))
    terms: dict[str, Any] = {"algorithm": asked.pop("name"), "parameters": asked}
    reply = answer(PartyFolder(home), question(request=Initialize(b""), **terms)).refusal
    assert reply == f"this party did not agree to fedmd-ldp with this value of {key}"


def test_the_first_agreement_that_fits_decides_what_a_run_may_spend(home: Path) -> None:
    small = AGREE + "epsilon = 0.1\n[agree.parameters]\nsubsets = 4\npartitions = 1\n"
    write_settings(home, agree=small + AGREE + "epsilon = 2.0\n")
    assert refusal(home, PRIVATE) is None
    write_settings(home, agree=small)
    assert "did not agree to fedkt with this value of" in str(refusal(home, PRIVATE, run="another"))


def test_a_wrong_agreement_is_reported_to_the_owner_alone(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_settings(home, agree=AGREE + "[agree.parameters]\nsubset = 4\n")
    assert refusal(home, PRIVATE) == "this party cannot answer; its own log has the reason"
    assert "agree.parameters of fedkt: unknown key 'subset'; did you mean 'subsets'?" in capfd.readouterr().err
    with pytest.raises(LimbeckError, match="did you mean 'subsets'"):
        check(PartyFolder(home))


def order(home: Path, **changes: Any) -> list[int]:
    silo = accept_request(PartyFolder(home), question(PRIVATE, **changes)).silo
    return list(silo.hidden_order("teachers", 30))


def test_who_shares_a_teacher_is_the_partys_secret_whatever_seed_the_server_names(home: Path) -> None:
    first = order(home)
    assert order(home) == order(home, seed=99) == first
    assert order(home, run="another") != first
    (home / "secret").unlink()
    assert order(home) != first


def test_noise_and_cuts_come_from_a_seed_only_where_the_partys_own_file_reports_it(home: Path) -> None:
    silo = accept_request(PartyFolder(home), question(PRIVATE)).silo
    assert (silo.noise, silo.run, silo.parties, silo.private_level) == ("secure", "run", 3, True)
    assert silo.secret == (home / "secret").read_bytes()
    assert len(silo.secret or b"") == 32
    write_settings(home, "simulation = true")
    silo = accept_request(PartyFolder(home), question(PRIVATE)).silo
    assert (silo.noise, silo.secret) == ("simulated", None)
    assert order(home) != order(home, seed=99)
    assert not accept_request(PartyFolder(home), question()).silo.private_level


def test_a_simulation_is_announced_with_a_warning(home: Path) -> None:
    pytest.importorskip("flwr", reason="the extra flower is not installed")
    from limbeck.consortium.client_loop import ClientLoop

    lines: list[str] = []
    ClientLoop(PartyFolder(home), lines.append).check()
    assert lines == []
    write_settings(home, "simulation = true")
    ClientLoop(PartyFolder(home), lines.append).check()
    [line] = lines
    assert line.startswith("warning: party.toml says simulation = true")
    assert "Nothing is protected" in line


def test_a_subset_needs_an_agreed_number_of_rows(home: Path) -> None:
    """Its figures would tell how many rows there are."""
    agree = '[[agree]]\nalgorithm = "fedmd-nfdp"\n'
    write_settings(home, agree=agree)
    without = {key: value for key, value in SUBSET.items() if key != "population"}
    terms: dict[str, Any] = {"algorithm": "fedmd-nfdp", "parameters": without}
    reply = answer(PartyFolder(home), question(request=Initialize(b""), **terms))
    assert reply.refusal == "fedmd-nfdp between organisations needs algorithm.population"
    write_settings(home, "simulation = true", agree)
    assert answer(PartyFolder(home), question(request=Initialize(b""), run="simulated", **terms)).refusal is None


def test_a_ledger_row_of_a_subset_does_not_reveal_how_many_rows_there_are(home: Path) -> None:
    write_settings(home, agree='[[agree]]\nalgorithm = "fedmd-nfdp"\n')
    terms: dict[str, Any] = {"algorithm": "fedmd-nfdp", "parameters": {**SUBSET, "population": 20}}
    reply = answer(PartyFolder(home), question(request=Initialize(b""), **terms))
    assert reply.refusal is None
    [row] = reply.releases
    assert (row["parameters"]["rows"], row["parameters"]["of"]) == (5, 20)
    assert "30" not in json.dumps([dict(row) for row in reply.releases])


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_the_same_question_has_the_same_bytes_on_a_retry(home: Path, method: Any) -> None:
    """What was kept is lost in between; the cut and the recorded noise are not."""
    first = answer(PartyFolder(home), question(method))
    assert first.refusal is None
    (home / "answers.sqlite").unlink()
    assert answer(PartyFolder(home), question(method)).encode() == first.encode()


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_numbers_of_the_server_are_not_taken_for_rows(home: Path, method: Any) -> None:
    """A party with fewer rows than subsets answers as any other."""
    np.savez(home / "private.npz", x_train=np.ones((3, 4)), y_train=np.zeros(3, int))
    assert refusal(home, method) is None


def test_a_ledger_that_is_begun_anew_is_noticed_by_what_the_party_keeps(home: Path) -> None:
    write_settings(home, "budget = { epsilon = 2.5 }")
    assert refusal(home, PRIVATE) is None
    for path in home.glob("ledger.sqlite*"):
        path.unlink()
    with pytest.raises(LimbeckError, match=r"entry 1 is missing: .*answers\.sqlite names"):
        check(PartyFolder(home))
    assert refusal(home, PRIVATE, run="another") == CANNOT


def test_settings_are_read_often_without_a_longer_path(home: Path) -> None:
    for _ in range(3):
        _ = PartyFolder(home).settings
    assert sys.path.count(str(home.resolve())) == 1
