"""A party by itself: what it agrees to, what it refuses and why, and that it never does a thing twice."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.poll import Say
from limbeck.consortium.answering import answer
from limbeck.consortium.joining import Join
from limbeck.consortium.party import PartyFolder
from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import read_ledger
from limbeck.privacy.planner import Privacy
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.letters import Question, Terms
from limbeck.protocol.messages import Adopt, Message
from limbeck.protocol.rows import content_hash

IRIS = load("iris")
PUBLIC = IRIS.x[::5].astype(np.float32)
PLAIN = FedKT(voting="paper", partitions=1, subsets=2)
PRIVATE = FedKT(partitions=1, subsets=4, privacy=Privacy("L2", epsilon=2.0))
SETTINGS = 'data = "private.npz"\npublic = "public.npz"\n{more}\n[model]\nname = "decision-tree"\n{agree}'
AGREE = '[[agree]]\nalgorithm = "fedkt"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    join = Join(
        *("a", 0, "localhost:9443", "PEM", content_hash(PUBLIC), ["0", "1", "2"], None, False), {"name": "fedkt"}
    )
    (tmp_path / "join.json").write_text(join.to_json())
    np.savez(tmp_path / "private.npz", x_train=IRIS.x[2::5], y_train=IRIS.y[2::5])
    np.savez(tmp_path / "public.npz", x_train=PUBLIC, y_train=IRIS.y[::5])
    settle(tmp_path)
    return tmp_path


def settle(home: Path, more: str = "", agree: str = AGREE) -> None:
    (home / "party.toml").write_text(SETTINGS.format(more=more, agree=agree))


def question(method: FedKT = PLAIN, request: Message | None = None, turn: int = 0, **changes: Any) -> Question:
    about: dict[str, Any] = {"algorithm": "fedkt", "parameters": json.loads(json.dumps(asdict(method)))}
    shared = {"parties": 3, "seed": 1, "classes": ["0", "1", "2"], "public": content_hash(PUBLIC)}
    terms = Terms(**{**about, **shared, **{k: v for k, v in changes.items() if k not in ("run", "party")}})
    asked = request or (TrainStudents(20) if method.voting == "paper" else Say(30, 30, 3))
    data = encode(asked, Header(turn, terms.public))
    return Question(changes.get("run", "run"), turn, changes.get("party", 0), terms, data)


def refusal(home: Path, asked: Question) -> str:
    told = answer(PartyFolder(home), asked)
    assert told.reply == b""
    assert not (home / "ledger.sqlite").exists() or not read_ledger(home / "ledger.sqlite"), "something was released"
    return str(told.refusal)


def test_a_question_that_comes_again_gets_the_same_answer_and_trains_nobody(home: Path) -> None:
    first = answer(PartyFolder(home), question())
    assert first.refusal is None
    assert [row["what"] for row in first.releases] == ["Students"]
    (home / "private.npz").unlink()  # nothing is looked at again
    assert answer(PartyFolder(home), question()).encode() == first.encode()
    other = answer(PartyFolder(home), question(request=TrainStudents(10)))
    assert other.refusal == "at turn 0 of this run something else was asked before"


def test_the_model_that_it_is_given_is_a_file_that_predicts(home: Path) -> None:
    from limbeck.experiments.result import load as load_model

    told = answer(PartyFolder(home), question())
    [student] = decode(told.reply)[0].models  # type: ignore[attr-defined]
    assert answer(PartyFolder(home), question(request=Adopt(student), turn=1)).refusal is None
    model = load_model(home / "models" / "run.onnx")
    assert set(model.predict(IRIS.x[:3])) <= {"0", "1", "2"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"algorithm": "fedmd", "parameters": {}}, "did not agree to fedmd"),
        ({"algorithm": "python:os:system", "parameters": {}}, "did not agree to python:os:system"),
        ({"public": "0" * 64}, "another public set"),
        ({"classes": ["0", "1"]}, "another list of classes"),
        ({"schema": "{}"}, "another schema"),
        ({"labelled": True}, "another word on labels"),
        ({"party": 1}, "another party number"),
        ({"parameters": {"subsets": 0}}, "subsets must be at least 1"),
        ({"parameters": {"unheard": 1}}, "unknown key 'unheard'"),
    ],
)
def test_other_terms_than_agreed_are_refused(home: Path, changes: dict[str, Any], told: str) -> None:
    assert told in refusal(home, question(**changes))


def test_another_level_or_a_larger_epsilon_than_agreed_is_refused(home: Path) -> None:
    settle(home, agree=AGREE + 'levels = ["L2"]\nepsilon = 1.0\n')
    assert refusal(home, question()) == "this party did not agree to fedkt at level L0, only at L2"
    assert refusal(home, question(PRIVATE)) == "this party did not agree to fedkt with epsilon 2, only up to 1"


def test_what_would_pass_the_budget_is_refused_before_anything_is_trained(home: Path) -> None:
    settle(home, 'budget = { epsilon = 2.5, delta = 1e-5, towards = "server" }')
    assert "would bring epsilon towards server to inf" in refusal(home, question())
    assert answer(PartyFolder(home), question(PRIVATE, run="first")).refusal is None
    again = answer(PartyFolder(home), question(PRIVATE, run="second"))
    assert "would bring epsilon towards server" in str(again.refusal)
    assert "of 2.5 is left" in str(again.refusal)
    assert {run for _, run, _ in read_ledger(home / "ledger.sqlite")} == {"first"}


def test_what_the_server_will_release_stands_in_the_partys_ledger_too(home: Path) -> None:
    noisy = FedKT(partitions=1, subsets=2, voting="paper", privacy=Privacy("L1", epsilon=5.0))
    assert answer(PartyFolder(home), question(noisy)).refusal is None
    rows = [row for _, _, row in read_ledger(home / "ledger.sqlite")]
    assert [(row.site, row.observer) for row in rows] == [("party 0", "server"), ("server", "public")]


def test_other_public_rows_on_disk_are_refused(home: Path) -> None:
    np.savez(home / "public.npz", x_train=PUBLIC + 1, y_train=IRIS.y[::5])
    assert "holds other public rows" in refusal(home, question())


def test_a_letter_of_another_turn_than_its_request_is_refused(home: Path) -> None:
    assert "another turn" in refusal(home, replace(question(), turn=5))


@pytest.mark.parametrize(
    ("more", "agree", "told"),
    [
        ("", "", "agree: is missing"),
        ("aprove = true", AGREE, "unknown key 'aprove'; did you mean 'approve'?"),
        ("approve = 1", AGREE, "approve"),
        ('noise = "none"', AGREE, "noise"),
        ("", '[[agree]]\nlevels = ["L2"]\n', "agree.0.algorithm: is missing"),
    ],
)
def test_wrong_settings_are_told_in_one_line(home: Path, more: str, agree: str, told: str) -> None:
    settle(home, more, agree)
    with pytest.raises(LimbeckError) as error:
        _ = PartyFolder(home).settings
    assert told in str(error.value)
    assert "party.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_one_program_at_a_time_speaks_for_a_party(home: Path) -> None:
    with PartyFolder(home).alone(), pytest.raises(LimbeckError, match="another program"), PartyFolder(home).alone():
        pass


def test_a_request_waits_for_a_person_who_decides_once(home: Path) -> None:
    kept = PartyFolder(home).kept
    assert kept.request("run", 0, "fedkt").decision is None
    kept.decide(1, "denied")
    kept.decide(1, "approved")
    assert kept.request("run", 0, "fedkt").decision == "denied"
