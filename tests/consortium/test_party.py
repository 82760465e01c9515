"""A party by itself: what it agrees to, what it refuses and why, and that it never does a thing twice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote, VoteRequest
from limbeck.algorithms.scoring import Initialize, ScoreRequest
from limbeck.consortium.answering import Agree, accept_request, answer
from limbeck.consortium.party import PartyFolder
from limbeck.data.columns import Number
from limbeck.data.schema import Schema
from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.ledger import read_ledger
from limbeck.privacy.mechanisms import Subsample
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import RequestEnvelope
from limbeck.protocol.messages import InstallModel
from party_folders import (
    AGREE,
    AGREE_SUMS,
    AGREE_VOTES,
    CANNOT,
    IRIS,
    NOISY,
    NOISY_VOTES,
    PLAIN,
    PRIVATE,
    PUBLIC,
    SUBSET,
    SUMS,
    TOO_MUCH,
    make,
    question,
    rows,
    write_settings,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path)


def refusal(home: Path, asked: RequestEnvelope) -> str:
    reply = answer(PartyFolder(home), asked)
    assert reply.reply == b""
    assert rows(home) == [], "something was released"
    return str(reply.refusal)


def test_a_question_that_comes_again_gets_the_same_answer_and_trains_nobody(home: Path) -> None:
    first = answer(PartyFolder(home), question())
    assert first.refusal is None
    assert [row["what"] for row in first.releases] == ["students"]
    (home / "private.npz").unlink()  # nothing is looked at again
    assert answer(PartyFolder(home), question()).encode() == first.encode()
    other = answer(PartyFolder(home), question(request=VoteRequest()))
    assert other.refusal == "something else was asked at this turn of this run before"


def test_the_model_that_it_is_given_is_a_file_that_predicts(home: Path) -> None:
    from limbeck.experiments.result import load as load_model

    reply = answer(PartyFolder(home), question())
    [student] = decode(reply.reply)[0].models  # type: ignore[attr-defined]
    assert answer(PartyFolder(home), question(request=InstallModel(student), turn=1)).refusal is None
    model = load_model(home / "models" / "run.onnx")
    assert set(model.predict(IRIS.x[:3])) <= {"0", "1", "2"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "fedmd", "parameters": {}}, "did not agree to fedmd"),
        ({"algorithm": "python:os:system", "parameters": {}}, "did not agree to python:os:system"),
        ({"public": "0" * 64}, "another public set"),
        ({"classes": ["0", "1"]}, "another list of classes"),
        ({"schema": "{}"}, "another schema"),
        ({"labelled": True}, "another setting for labels"),
        ({"party": 1}, "another party number"),
        ({"parameters": {"subsets": 0}}, "fedkt cannot be run with these parameters: subsets = 0: Input should be"),
        ({"parameters": {"unheard": 1}}, "fedkt cannot be run with these parameters: unknown key 'unheard'"),
        (
            {"algorithm": "fedvote", "parameters": {"privacy": {"level": "L2", "epsilon": 1.0}}},
            "fedvote cannot be run with these parameters: privacy: fedvote is for levels L0 and L1: use fedridge at L2",
        ),
    ],
)
def test_other_terms_than_agreed_are_refused(home: Path, changes: dict[str, Any], message: str) -> None:
    assert message in refusal(home, question(**changes))


def test_another_level_than_agreed_is_refused(home: Path) -> None:
    write_settings(home, agree=AGREE + 'levels = ["L2"]\nepsilon = 1.0\n')
    assert refusal(home, question()) == "this party did not agree to fedkt at level L0, only at L2"


@pytest.mark.parametrize(
    "asked",
    [
        FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=2.0)),
        FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=1.0, delta=0.9)),
        FedKT(partitions=1, subsets=4, privacy=Privacy("L2", mechanism="gaussian", sigma=1e-6)),
        FedKT(partitions=1, subsets=4, privacy=Privacy("L2", mechanism="laplace", gamma=50.0)),
        FedKT(partitions=1, subsets=2, privacy=Privacy("L1", epsilon=0.5)),
        PLAIN,
        FedRidge(privacy=Privacy("L2", epsilon=2.0)),
        FedRidge(privacy=Privacy("L2", "gaussian", sigma=0.5)),
        FedVote(partitions=1, subsets=2, privacy=Privacy("L1", epsilon=0.5)),
        FedVote(),
    ],
)
def test_more_than_agreed_for_a_run_is_refused_however_it_is_asked(home: Path, asked: Any) -> None:
    """The epsilon that a run would really spend, at the owner's own delta; what is unprotected is without bound."""
    write_settings(home, agree=f"{AGREE}epsilon = 1.5\n{AGREE_VOTES}epsilon = 1.5\n{AGREE_SUMS}epsilon = 1.5\n")
    assert refusal(home, question(asked)) == TOO_MUCH


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_what_is_agreed_for_a_run_is_for_the_whole_run(home: Path, method: Any) -> None:
    """A server that asks again at another turn gets nothing more."""
    write_settings(home, agree=f"{AGREE}epsilon = 2.0\n{AGREE_SUMS}epsilon = 2.0\n")
    assert answer(PartyFolder(home), question(method)).refusal is None
    spent = read_ledger(home / "ledger.sqlite")
    again = answer(PartyFolder(home), question(method, turn=1))
    assert again.refusal == CANNOT
    assert read_ledger(home / "ledger.sqlite") == spent


def test_what_is_wrong_at_home_is_not_sent_to_the_server(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(home / "private.npz", x_train=IRIS.x[2::5], y_train=np.full(30, "HIV-positive"))
    reply = refusal(home, question())
    assert reply == CANNOT
    assert "HIV-positive" in capfd.readouterr().err
    np.savez(home / "private.npz", x_train=IRIS.x[:7], y_train=IRIS.y[:7])
    few = refusal(home, question(FedKT(partitions=1, subsets=10)))
    assert "7" not in few


def test_a_refusal_for_want_of_budget_does_not_reveal_how_many_rows_there_are(home: Path) -> None:
    """Thirty rows: more subsets than that cannot be, but the server learns no such thing by asking."""
    write_settings(home, 'budget = { epsilon = 0.001, delta = 1e-5, observer = "server" }')
    asked = [FedKT(partitions=1, subsets=n, queries=5, privacy=Privacy("L2", epsilon=2.0)) for n in (4, 30, 31, 500)]
    assert {refusal(home, question(each)) for each in asked} == {TOO_MUCH}


def test_a_second_release_of_what_was_sent_needs_a_budget_of_its_own(home: Path) -> None:
    assert answer(PartyFolder(home), question(NOISY)).refusal is None
    write_settings(home, 'budget = { epsilon = 2.5, delta = 1e-5, observer = "public" }')
    second = answer(PartyFolder(home), question(NOISY, Agree(), turn=10**6, run="late"))
    assert second.refusal == TOO_MUCH
    write_settings(home, 'budget = { epsilon = 9.0, delta = 1e-5, observer = "public" }')
    agreed = answer(PartyFolder(home), question(NOISY, Agree(), turn=10**6, run="late"))
    assert agreed.refusal is None
    assert not agreed.releases
    assert rows(home) == [("run", "server"), ("run", "party 0"), ("late", "server")]


@pytest.fixture
def model() -> bytes:
    [fitted] = PoolTrainer(1).run([Fit(model_from({"name": "decision-tree"}), PUBLIC, IRIS.y[::5])], 3, [0])
    assert isinstance(fitted, bytes)
    return fitted


def test_a_late_party_pays_for_the_one_release_that_it_is_in(home: Path, model: bytes) -> None:
    """And for a model that was made without it, nothing."""
    write_settings(home, 'budget = { epsilon = 2.0001, delta = 1e-5, observer = "public" }')
    assert answer(PartyFolder(home), question(NOISY, InstallModel(model), turn=1, run="missed")).refusal is None
    assert answer(PartyFolder(home), question(NOISY, run="missed", counted="late")).refusal is None
    assert (
        answer(PartyFolder(home), question(NOISY, InstallModel(model), turn=1, run="late", after="missed")).refusal
        is None
    )
    assert rows(home) == [("late", "server"), ("missed", "party 0")]
    assert answer(PartyFolder(home), question(NOISY, run="more")).refusal == TOO_MUCH


def test_one_release_does_not_pay_for_what_was_sent_in_two_runs(home: Path) -> None:
    assert answer(PartyFolder(home), question(NOISY, run="missed", counted="late")).refusal is None
    other = answer(PartyFolder(home), question(NOISY, run="other", counted="late"))
    assert other.refusal == CANNOT
    assert not other.reply


def test_noisy_votes_that_are_counted_again_cost_nothing_more(home: Path, model: bytes) -> None:
    write_settings(home, 'budget = { epsilon = 2.0001, delta = 1e-5, observer = "server" }')
    assert answer(PartyFolder(home), question(PRIVATE, run="first")).refusal is None
    spent = rows(home)
    assert (
        answer(PartyFolder(home), question(PRIVATE, InstallModel(model), turn=1, run="late", after="first")).refusal
        is None
    )
    assert answer(PartyFolder(home), question(PRIVATE, run="late", after="first")).refusal == TOO_MUCH
    assert rows(home) == spent


def test_an_answer_that_is_counted_elsewhere_too_is_paid_for_again(home: Path, model: bytes) -> None:
    assert answer(PartyFolder(home), question(NOISY, run="missed", counted="late")).refusal is None
    assert answer(PartyFolder(home), question(NOISY, InstallModel(model), turn=1, run="missed")).refusal is None
    write_settings(home, 'budget = { epsilon = 2.0001, delta = 1e-5, observer = "public" }')
    for elsewhere in (question(NOISY, run="missed"), question(NOISY, run="missed", counted="later")):
        assert answer(PartyFolder(home), elsewhere).refusal == TOO_MUCH
    assert answer(PartyFolder(home), question(NOISY, run="missed", counted="late")).refusal is None
    write_settings(home, 'budget = { epsilon = 9.0, delta = 1e-5, observer = "public" }')
    assert answer(PartyFolder(home), question(NOISY, run="missed")).refusal is None
    assert rows(home) == [("late", "server"), ("missed", "party 0"), ("missed", "server")]


def test_the_terms_of_a_run_stay_what_they_were_when_it_was_first_answered(home: Path) -> None:
    """Else a server could train under one algorithm and read out under another."""
    write_settings(
        home, agree=AGREE + '[[agree]]\nalgorithm = "fedmd-ldp"\n[[agree]]\nalgorithm = "fedmd-nfdp"\nepsilon = 4.0\n'
    )
    trained: dict[str, Any] = {"algorithm": "fedmd-ldp", "parameters": {"rounds": 0, "start": "none", "epsilon": 1.0}}
    read_out: dict[str, Any] = {"algorithm": "fedmd-nfdp", "parameters": SUBSET}
    assert answer(PartyFolder(home), question(request=Initialize(b""), **trained)).refusal is None
    reply = answer(PartyFolder(home), question(request=ScoreRequest(np.arange(30)), turn=1, **read_out))
    assert (reply.refusal, reply.reply) == ("this run had other terms before", b"")
    later = answer(
        PartyFolder(home), question(request=ScoreRequest(np.arange(30)), turn=1, run="b", after="run", **read_out)
    )
    assert later.refusal == "this run had other terms before"
    assert answer(PartyFolder(home), question(run="another")).refusal is None


def test_a_strange_request_is_refused_once_and_does_not_end_the_program(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_settings(home, agree='[[agree]]\nalgorithm = "fedmd"\n')
    terms: dict[str, Any] = {"algorithm": "fedmd", "parameters": {"rounds": 1, "start": "none"}}
    reply = answer(PartyFolder(home), question(request=ScoreRequest(np.array([10**6])), **terms))
    assert reply.refusal == CANNOT
    assert "limbeck: run run, turn 0: " in capfd.readouterr().err


def test_nobody_else_may_read_what_a_party_keeps(home: Path) -> None:
    assert answer(PartyFolder(home), question()).refusal is None
    assert {(home / name).stat().st_mode & 0o777 for name in ("answers.sqlite", "ledger.sqlite")} == {0o600}


def test_what_would_pass_the_budget_is_refused_before_anything_is_trained(home: Path) -> None:
    write_settings(home, 'budget = { epsilon = 2.5, delta = 1e-5, observer = "server" }')
    assert refusal(home, question()) == TOO_MUCH
    assert answer(PartyFolder(home), question(PRIVATE, run="first")).refusal is None
    again = answer(PartyFolder(home), question(PRIVATE, run="second"))
    assert again.refusal == TOO_MUCH
    assert {run for _, run, _ in read_ledger(home / "ledger.sqlite")} == {"first"}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (NOISY, [("server", "public"), ("party 0", "server")]),
        (NOISY_VOTES, [("server", "public"), ("party 0", "server")]),
    ],
)
def test_what_the_server_will_release_stands_in_the_partys_ledger_too(home: Path, method: Any, expected: Any) -> None:
    assert answer(PartyFolder(home), question(method)).refusal is None
    found = [row for _, _, row in read_ledger(home / "ledger.sqlite")]
    assert [(row.site, row.observer) for row in found] == expected


def test_other_public_rows_on_disk_are_refused(home: Path) -> None:
    np.savez(home / "public.npz", x_train=PUBLIC + 1, y_train=IRIS.y[::5])
    assert refusal(home, question()) == CANNOT


def test_an_envelope_of_another_turn_than_its_request_is_refused(home: Path) -> None:
    assert "another turn" in refusal(home, replace(question(), turn=5))


@pytest.mark.parametrize(
    ("more", "agree", "message"),
    [
        ("", "", "agree: is missing"),
        ("aprove = true", AGREE, "unknown key 'aprove'; did you mean 'approve'?"),
        ("approve = 1", AGREE, "approve"),
        ('noise = "simulated"', AGREE, "unknown key 'noise'"),
        ("simulation = 1", AGREE, "simulation"),
        ("unprotected = true\n[budget]\nepsilon = 1.0", AGREE, "unprotected = true and [budget] contradict each other"),
        ('budget = { epsilon = 1.0, unit = "rows" }', AGREE, "budget: unit"),
        ("budget = { epsilon = 1.0, rows_per_person = 0 }", AGREE, "rows_per_person"),
        ("", AGREE + "unit = 3\n", "agree.0.unit"),
        ("", '[[agree]]\nlevels = ["L2"]\n', "agree.0.algorithm: is missing"),
        ("", AGREE + 'levels = ["l2"]\n', "agree.0.levels.0"),
        ("", AGREE + "epsilon = -1.0\n", "agree.0.epsilon"),
    ],
)
def test_wrong_settings_are_reported_in_one_line(home: Path, more: str, agree: str, message: str) -> None:
    write_settings(home, more, agree)
    with pytest.raises(LimbeckError) as error:
        _ = PartyFolder(home).settings
    assert message in str(error.value)
    assert "party.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_may_name_its_classes_otherwise(home: Path) -> None:
    """The consortium says `kind`, this party's file `species`."""
    pytest.importorskip("pyarrow")
    schema = Schema((Number("a", 0.0), Number("b", 0.0)), "kind", ("no", "yes"))
    join = json.loads((home / "join.json").read_text())
    (home / "join.json").write_text(json.dumps({**join, "classes": ["no", "yes"], "schema": schema.to_json()}))
    (home / "rows.csv").write_text("a,b,species\n1,2,yes\n3,4,no\n")
    (home / "party.toml").write_text(
        'data = "rows.csv"\nlabel = "species"\npublic = "public.csv"\n[model]\nname = "decision-tree"\n' + AGREE
    )
    rows = PartyFolder(home).private()
    assert rows.y.tolist() == [1, 0]
    assert rows.x.tolist() == [[1, 2], [3, 4]]
    text = (home / "party.toml").read_text()
    (home / "party.toml").write_text(text.replace('label = "species"', 'label = "kinds"'))
    with pytest.raises(LimbeckError, match="has no column 'kinds'"):
        PartyFolder(home).private()


def test_a_damaged_memory_is_reported_at_home_alone(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answer(PartyFolder(home), question())
    with open(home / "answers.sqlite", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    reply = answer(PartyFolder(home), question())
    assert reply.refusal == CANNOT
    assert "malformed" in capfd.readouterr().err


def test_one_program_at_a_time_speaks_for_a_party(home: Path) -> None:
    with PartyFolder(home).alone(), pytest.raises(LimbeckError, match="another program"), PartyFolder(home).alone():
        pass


def test_a_request_waits_for_a_person_who_decides_once(home: Path) -> None:
    answer_store = PartyFolder(home).answer_store
    assert answer_store.request("run", 0, "hash", "fedkt").decision is None
    answer_store.decide(1, "denied")
    answer_store.decide(1, "approved")
    assert answer_store.request("run", 0, "hash", "fedkt").decision == "denied"
    assert answer_store.request("run", 0, "another hash", "fedkt").decision is None, (
        "a word is about one question alone"
    )


def test_a_person_is_reported_what_a_run_costs_with_the_rows_that_there_are(home: Path) -> None:
    """Five of thirty rows: whoever is drawn is exposed, and no smaller delta is shown."""
    pytest.importorskip("flwr", reason="the extra flower is not installed")
    from limbeck.consortium.client_loop import _describe_request

    write_settings(home, agree='[[agree]]\nalgorithm = "fedmd-nfdp"\n')
    terms: dict[str, Any] = {"algorithm": "fedmd-nfdp", "parameters": SUBSET}
    message = _describe_request(
        accept_request(PartyFolder(home), question(request=ScoreRequest(np.arange(9)), **terms))
    )
    epsilon, delta = Subsample(5, 30).guarantee()
    assert f"epsilon of the run {epsilon:.4g} towards the server" in message
    assert f"at delta {delta:g}" in message
