"""What happens in which order when a question is answered, and what a party does not take."""

import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.algorithms.centralized import SendRows
from limbeck.algorithms.fedkt import TrainStudents
from limbeck.algorithms.fedmd_private import FedMDLDP
from limbeck.algorithms.fedridge import SumRequest
from limbeck.algorithms.fedvote import VoteRequest
from limbeck.algorithms.scoring import ScoreRequest
from limbeck.consortium.answering import answer
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.features.settings import Features
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.messages import InstallModel
from party_folders import (
    AGREE,
    CANNOT,
    IRIS,
    NOISY,
    NOISY_VOTES,
    PRIVATE,
    PUBLIC,
    SUMS,
    make,
    question,
    rows,
    write_settings,
)

NARROW = Features("standard", number=2).fit(PUBLIC, 0)
FAILING = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.jobs import FitAndVote
from limbeck.privacy.mechanisms import Gumbel, Unprotected
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.disclosures import Disclosure


@dataclass(frozen=True)
class Failing(Algorithm):
    name: ClassVar[str] = "python:own_failing:Failing"
    needs_public_rows: ClassVar[bool] = True
    effective_delta: ClassVar[float] = 1e-5
    trains: bool = True

    def disclosures(self, run):
        return [
            Disclosure("party", "students", Unprotected(), "server", 5),
            Disclosure("server", "labels", Gumbel(0.05, "party"), "public", 5, run.parties, abstentions=True),
        ]

    def lead(self, parties, site):
        raise NotImplementedError

    def answer(self, request, silo):
        if not self.trains:
            raise LimbeckError("a request that is not well-formed")
        silo.train([FitAndVote(silo.model, silo.private.x, silo.private.y, silo.public.x)])
        raise MemoryError("after it has trained")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path)


@pytest.fixture
def model() -> bytes:
    [fitted] = PoolTrainer(1).run([Fit(model_from({"name": "decision-tree"}), PUBLIC, IRIS.y[::5])], 3, [0])
    assert isinstance(fitted, bytes)
    return fitted


def failing(home: Path, trains: bool) -> str | None:
    (home / "own_failing.py").write_text(FAILING)
    name = "python:own_failing:Failing"
    write_settings(home, agree=f'[[agree]]\nalgorithm = "{name}"\n')
    terms: dict[str, Any] = {"algorithm": name, "parameters": {"trains": trains}}
    return answer(PartyFolder(home), question(request=TrainStudents(), **terms)).refusal


def test_a_training_that_fails_costs_what_one_that_succeeds_would(home: Path) -> None:
    """What the server was going to release of it stands in the ledger too."""
    assert failing(home, trains=True) == CANNOT
    assert rows(home) == [("run", "server"), ("run", "party 0")]


def test_rows_of_a_turn_that_failed_are_reported_with_the_next_answer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written before the first training, for all rounds: else the server's record would lack them."""
    write_settings(home, agree='[[agree]]\nalgorithm = "fedmd-ldp"\n')
    method = FedMDLDP(rounds=3, alignment=20, start="none", epsilon=50.0)
    request = ScoreRequest(np.arange(20))
    with monkeypatch.context() as patched:
        patched.setattr(FedMDLDP, "send_scores", failing_answer)
        assert answer(PartyFolder(home), question(method, request, turn=1)).refusal == CANNOT
    results = [answer(PartyFolder(home), question(method, request, turn=turn)) for turn in (3, 5)]
    assert [[(row["turn"], row["what"]) for row in each.releases] for each in results] == [
        [(1, "noisy scores")] * 3 + [(3, "scores")],
        [(5, "scores")],
    ]


def failing_answer(*given: Any) -> Any:
    raise MemoryError("after it has trained")


def test_a_request_that_is_refused_before_anything_is_trained_costs_nothing(home: Path) -> None:
    assert failing(home, trains=False) == CANNOT
    assert rows(home) == []


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (SUMS, SumRequest(NARROW.kind, NARROW.pack())),
        (SUMS, SumRequest("fourier", NARROW.pack())),
        (SUMS, SumRequest("standard", b"")),
        (NOISY_VOTES, TrainStudents()),
        (SUMS, VoteRequest()),
        (PRIVATE, VoteRequest()),
        (NOISY, SendRows()),
    ],
)
def test_another_request_than_agreed_costs_nothing(home: Path, method: Any, request_: Any) -> None:
    assert answer(PartyFolder(home), question(method, request_)).refusal == CANNOT
    assert rows(home) == []
    assert answer(PartyFolder(home), question(method)).refusal is None


def with_randomness(model: bytes) -> bytes:
    proto = onnx.ModelProto.FromString(model)
    proto.graph.node.append(helper.make_node("RandomNormal", [], ["noise"], shape=[1]))
    return bytes(proto.SerializeToString())


def with_weights_elsewhere(model: bytes) -> bytes:
    proto = onnx.ModelProto.FromString(model)
    tensor = TensorProto(name="elsewhere", dims=[1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../key")
    proto.graph.initializer.append(tensor)
    return bytes(proto.SerializeToString())


def of_other_classes(model: bytes) -> bytes:
    job = Fit(model_from({"name": "decision-tree"}), PUBLIC, IRIS.y[::5] + 2)
    [fitted] = PoolTrainer(1).run([job], 5, [0])
    assert isinstance(fitted, bytes)
    return fitted


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_randomness, "the operator ai.onnx.RandomNormal is not allowed"),
        (with_weights_elsewhere, "weights in another file are not allowed"),
        (of_other_classes, "the model cannot be used: the model predicts"),
        (lambda model: b"garbage", "not an ONNX model"),
    ],
)
def test_a_final_model_that_is_not_plain_is_not_stored(home: Path, model: bytes, spoil: Any, message: str) -> None:
    refused = answer(PartyFolder(home), question(request=InstallModel(spoil(model)), turn=1)).refusal
    assert str(refused).startswith("the final model is not accepted: ")
    assert message in str(refused)
    assert "\n" not in str(refused)
    assert not (home / "models").exists()
    assert PartyFolder(home).answer_store.memory("run") == {}
    assert answer(PartyFolder(home), question(request=InstallModel(model), turn=1)).refusal is None
    assert (home / "models" / "run.onnx").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_but_its_owner_reads_what_a_party_keeps(home: Path, model: bytes) -> None:
    assert answer(PartyFolder(home), question(PRIVATE)).refusal is None
    assert answer(PartyFolder(home), question(PRIVATE, InstallModel(model), turn=1)).refusal is None
    PartyFolder(home).work()
    given = ("join.json", "party.toml", "private.npz", "public.npz")  # by whoever made the test
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in given]
    assert {path.name for path in files} >= {"answers.sqlite", "ledger.sqlite", "secret", "checked.json", "run.onnx"}
    assert {mode(path) for path in files} == {0o600}
    assert {mode(home / name) for name in ("models", "work")} == {0o700}


def test_old_files_that_others_could_read_are_closed(home: Path) -> None:
    for name in ("answers.sqlite", "ledger.sqlite"):
        (home / name).touch(mode=0o644)
        (home / name).chmod(0o644)
    assert answer(PartyFolder(home), question(PRIVATE)).refusal is None
    assert {mode(home / name) for name in ("answers.sqlite", "ledger.sqlite")} == {0o600}


def test_a_full_disk_is_one_line_and_what_was_stored_before_stays(home: Path) -> None:
    """SQLite says so itself when it may not take another page."""
    answer_store = PartyFolder(home).answer_store
    answer_store.keep("run", 0, "hash", b"envelope", {}, (1, "0" * 64))
    pages = answer_store._connection.execute("PRAGMA page_count").fetchone()[0]
    answer_store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LimbeckError, match="full") as error:
        answer_store.keep("run", 1, "hash", bytes(100_000), {}, (1, "0" * 64))
    assert "\n" not in str(error.value)
    assert "answers.sqlite" in str(error.value)
    assert answer_store.answer("run", 0) == ("hash", b"envelope")
    assert answer_store.answer("run", 1) is None
    with sqlite3.connect(home / "answers.sqlite") as other:
        assert other.execute("SELECT count(*) FROM answers").fetchone() == (1,)


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_an_answer_that_cannot_be_stored_is_not_sent_and_not_paid_for_twice(home: Path, method: Any) -> None:
    """The same question later: the same ledger, and what was drawn then."""
    (home / "answers.sqlite").write_bytes(b"garbage " * 1000)
    assert answer(PartyFolder(home), question(method)).refusal == CANNOT
    assert rows(home) == []
    (home / "answers.sqlite").unlink()
    assert answer(PartyFolder(home), question(method)).refusal is None
    spent = read_ledger(home / "ledger.sqlite")
    (home / "answers.sqlite").unlink()
    assert answer(PartyFolder(home), question(method)).refusal is None
    assert read_ledger(home / "ledger.sqlite") == spent


def test_a_secret_that_is_damaged_is_reported_to_the_owner(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_settings(home, agree=AGREE)
    (home / "secret").write_bytes(b"short")
    assert answer(PartyFolder(home), question(PRIVATE)).refusal == CANNOT
    assert "holds 5 bytes, not the 32 of a party's secret" in capfd.readouterr().err


@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_the_owner_sees_what_left_what_is_spent_and_the_head_of_the_ledger(home: Path, method: Any) -> None:
    from typer.testing import CliRunner

    from limbeck.cli import app

    write_settings(home, "budget = { epsilon = 2.5, rows_per_person = 1 }")
    message = CliRunner().invoke(app, ["party", "ledger", str(home)])
    assert (message.exit_code, message.output) == (0, "Nothing has left.\n")
    assert answer(PartyFolder(home), question(method)).refusal is None
    shown = CliRunner().invoke(app, ["party", "ledger", str(home)]).output
    assert "budget: epsilon 2.5 at delta 1e-05 towards server, unit example; spent 2" in shown
    number, digest = PartyFolder(home).ledger_store("run", None).head
    assert f"head: {number} entries, the last {digest}" in shown
