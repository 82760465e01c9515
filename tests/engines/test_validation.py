"""Hostile and broken replies: none crashes the server, and none is taken for a reply."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from limbeck.algorithms.centralized import Centralized, PrivateRows, SendRows
from limbeck.algorithms.ensemble import Ensemble, OwnModel, SendModel
from limbeck.algorithms.fedavg import FedAvg, TrainRequest, Update
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedridge import FedRidge, SumRequest, Sums
from limbeck.algorithms.fedvote import FedVote, VoteRequest, Votes
from limbeck.algorithms.logits import Predictions, PredictViews
from limbeck.algorithms.scoring import Accuracy, EvaluateRequest, ScoreRequest, Scores
from limbeck.engines.validation import check_reply, read_reply
from limbeck.errors import LimbeckError
from limbeck.features.settings import Features
from limbeck.models.inspection import Limits
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.envelopes import MAGIC, ReplyEnvelope, RequestEnvelope, Terms
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.rows import PublicRows
from limbeck.protocol.site import Site

ROWS, CLASSES = 12, 3


def site(classes: int = CLASSES) -> Site:
    return Site(
        public=PublicRows(np.random.default_rng(0).random((ROWS, 4), np.float32)),
        classes=classes,
        model=model_from({"name": "decision-tree"}),
        seed=0,
        trainer=PoolTrainer(1),
    )


@dataclass(frozen=True, slots=True)
class Case:
    """A request, an honest reply to it, the algorithm that has both, and the number of classes."""

    request: Request[Any]
    reply: Reply
    algorithm: Algorithm
    classes: int = CLASSES


SITES = {classes: site(classes) for classes in (2, 3)}
SITE = SITES[CLASSES]
HEADER = Header(3, SITE.public.hash)
NOTHING = np.empty(0)
VOTES, ONES = np.full((ROWS, CLASSES), 1 / 3), np.ones(CLASSES)
NOISY = FedRidge(Features("standard", 4), privacy=Privacy("L2", "gaussian", sigma=9.0))
TWO_VOTES = np.full((ROWS, 2), 0.5)
ALIGNED = ScoreRequest(np.arange(5))
RIGHT: dict[str, Case] = {
    "scores": Case(ALIGNED, Scores(np.zeros((5, CLASSES), np.float32)), FedMD(alignment=5)),
    "labels": Case(ALIGNED, Scores(np.zeros(5, np.uint8)), FedMD(alignment=5, score_format="argmax")),
    "accuracy": Case(EvaluateRequest(), Accuracy(0.5), FedMD(weights="accuracy")),
    "votes": Case(VoteRequest(), Votes(VOTES, ONES), FedVote()),
    "equal": Case(VoteRequest(), Votes(VOTES, NOTHING), FedVote(weights="equal", labels="leader")),
    "sums": Case(SumRequest("standard", b""), Sums(np.full((5, CLASSES), -8.0), np.empty((0, 0))), NOISY),
    "prior": Case(
        VoteRequest(),
        Votes(TWO_VOTES, np.array([0.75, 0.25])),
        FedVote(privacy=Privacy("L1", epsilon=200.0)),
        classes=2,
    ),
    "views": Case(PredictViews(0), Predictions(bytes(50 * ROWS * CLASSES), 8, -99, NOTHING, ONES), FedKD(views=50)),
    "logits": Case(PredictViews(0), Predictions(b"", 0, 0, np.zeros((ROWS, CLASSES)), ONES), FedKD(scale=None)),
    "hard": Case(PredictViews(0), Predictions(bytes(ROWS), 8, 0, NOTHING, NOTHING), FedKD(transfer="labels")),
    "update": Case(
        TrainRequest(save({"w": np.zeros(2, np.float32)})), Update(save({"w": np.ones(2, np.float32)}), 4), FedAvg()
    ),
    "rows": Case(SendRows(), PrivateRows(np.zeros((6, 4), np.float32), np.zeros(6, np.uint8)), Centralized()),
}


def levels(value: int, bits: int = 8, least: int = 0, rows: int = 50 * ROWS * CLASSES) -> Predictions:
    return Predictions(bytes([value]) * rows, bits, least, NOTHING, ONES)


def logits(value: float, shape: tuple[int, ...] = (ROWS, CLASSES), counts: Any = ONES) -> Predictions:
    return Predictions(b"", 0, 0, np.full(shape, value), counts)


def votes(value: Any = 1 / 3, shape: tuple[int, ...] = (ROWS, CLASSES), counts: Any = ONES) -> Votes:
    return Votes(np.full(shape, value), counts)


WRONG: list[tuple[str, Reply]] = [
    ("scores", Scores(np.full((5, CLASSES), np.nan, np.float32))),
    ("scores", Scores(np.full((5, CLASSES), np.inf, np.float32))),
    ("scores", Scores(np.zeros((4, CLASSES), np.float32))),
    ("scores", Scores(np.zeros((5, CLASSES + 1), np.float32))),
    ("scores", Scores(np.zeros((5, CLASSES, 1), np.float32))),
    ("scores", Scores(np.zeros((0, CLASSES), np.float32))),
    ("scores", Scores(np.array(1.0, np.float32))),
    ("scores", Scores(np.zeros(5, np.uint8))),
    ("labels", Scores(np.full(5, CLASSES))),
    ("labels", Scores(np.full(5, -1))),
    ("labels", Scores(np.full(6, 0))),
    ("labels", Scores(np.full(5, 0.5))),
    ("labels", Scores(np.zeros((5, CLASSES), np.float32))),
    ("accuracy", Accuracy(1.5)),
    ("accuracy", Accuracy(-0.5)),
    ("accuracy", Accuracy(float("nan"))),
    ("accuracy", Accuracy(float("inf"))),
    ("scores", Accuracy(0.5)),
    ("scores", Acknowledgement()),
    ("scores", Students(())),
    ("votes", votes(np.nan)),
    ("votes", votes(shape=(ROWS + 1, CLASSES))),
    ("votes", votes(shape=(ROWS, CLASSES + 1))),
    ("votes", votes(shape=(0, CLASSES))),
    ("votes", votes(1e300)),
    ("votes", votes(counts=np.full(CLASSES, -1e300))),
    ("votes", votes(counts=np.ones(CLASSES + 2))),
    ("votes", votes(counts=np.full(CLASSES, np.inf))),
    ("votes", votes(counts=np.full(CLASSES, np.nan))),
    ("votes", votes(counts=np.ones((CLASSES, 1)))),
    ("votes", votes(counts=NOTHING)),
    ("votes", Votes(VOTES, np.array([0.75, 0.25]))),
    ("equal", votes()),
    ("sums", Sums(np.zeros((5, CLASSES + 1)), np.empty((0, 0)))),
    ("sums", Sums(np.zeros((4, CLASSES)), np.empty((0, 0)))),
    ("sums", Sums(np.zeros((5, CLASSES)), np.zeros((5, 5)))),
    ("sums", Sums(np.full((5, CLASSES), -1e300), np.empty((0, 0)))),
    ("prior", Votes(TWO_VOTES, np.array([0.75, 1.25]))),
    ("prior", Votes(TWO_VOTES, np.array([0.75, np.nan]))),
    ("prior", Votes(TWO_VOTES, np.array([0.75, -0.25]))),
    ("prior", Votes(TWO_VOTES, NOTHING)),
    ("prior", Votes(TWO_VOTES, np.array([0.5, 0.25, 0.25]))),
    ("views", levels(1, bits=2, rows=10_000)),
    ("views", levels(255, rows=50 * ROWS * CLASSES)),
    ("views", levels(0, least=-100)),
    ("views", levels(0, least=2**40)),
    ("views", levels(0, bits=0)),
    ("views", levels(0, bits=33)),
    ("views", Predictions(b"", -4, 0, NOTHING, ONES)),
    ("views", Predictions(b"", 1000, 0, NOTHING, ONES)),
    ("logits", logits(np.nan)),
    ("logits", logits(10.5)),
    ("logits", logits(0.0, (ROWS, 1))),
    ("logits", logits(0.0, counts=np.ones(2))),
    ("logits", logits(0.0, counts=np.full(CLASSES, 1e300))),
    ("hard", Predictions(bytes([CLASSES]) * ROWS, 8, 0, NOTHING, NOTHING)),
    ("hard", Predictions(bytes(ROWS), 8, -1, NOTHING, NOTHING)),
    ("hard", Predictions(bytes(ROWS), 8, 0, NOTHING, ONES)),
    ("update", Update(b"", 4)),
    ("update", Update(save({"w": np.ones(2, np.float32)}), 0)),
    ("update", Update(save({"w": np.ones(2, np.float32)}), -3)),
    ("update", Update(save({"w": np.ones(3, np.float32)}), 4)),
    ("update", Update(save({"v": np.ones(2, np.float32)}), 4)),
    ("update", Update(save({"w": np.ones(2)}), 4)),
    ("update", Update(save({"w": np.full(2, np.inf, np.float32)}), 4)),
    ("rows", PrivateRows(np.zeros((6, 4), np.float32), np.full(6, CLASSES))),
    ("rows", PrivateRows(np.zeros((6, 4), np.float32), np.full(6, 0.5))),
    ("rows", PrivateRows(np.zeros((6, 4), np.float32), np.zeros(5, np.uint8))),
    ("rows", PrivateRows(np.zeros((6, 3), np.float32), np.zeros(6, np.uint8))),
    ("rows", PrivateRows(np.full((6, 4), np.nan, np.float32), np.zeros(6, np.uint8))),
]


def look(name: str, data: bytes) -> Reply:
    case = RIGHT[name]
    return read_reply(data, case.request, HEADER, SITES[case.classes], case.algorithm, Limits())


@pytest.mark.parametrize("name", RIGHT)
def test_what_an_honest_party_sends_is_taken(name: str) -> None:
    reply = RIGHT[name].reply
    found = look(name, encode(reply, HEADER))
    assert type(found) is type(reply)
    for field in fields(reply):  # type: ignore[arg-type]
        assert np.array_equal(getattr(found, field.name), getattr(reply, field.name))


@pytest.mark.parametrize(("name", "reply"), WRONG)
def test_a_reply_of_another_kind_shape_or_range_is_refused(name: str, reply: Reply) -> None:
    """On the wire, and in one process."""
    with pytest.raises(LimbeckError):
        look(name, encode(reply, HEADER))
    case = RIGHT[name]
    with pytest.raises(LimbeckError):
        check_reply(reply, 100, case.request, SITES[case.classes], case.algorithm)


@pytest.mark.parametrize("name", RIGHT)
def test_a_reply_of_another_turn_or_of_other_public_rows_is_refused(name: str) -> None:
    reply = RIGHT[name].reply
    for header in (replace(HEADER, turn=2), replace(HEADER, turn=4), replace(HEADER, public="other")):
        with pytest.raises(LimbeckError, match="another request"):
            look(name, encode(reply, header))


@pytest.mark.parametrize("name", RIGHT)
def test_a_reply_that_was_cut_short_is_refused(name: str) -> None:
    """Twenty cuts of each."""
    data = encode(RIGHT[name].reply, HEADER)
    for cut in np.linspace(0, len(data) - 1, 20).astype(int):
        with pytest.raises(LimbeckError):
            look(name, data[:cut])


def bombs() -> Iterator[tuple[str, bytes]]:
    """Bytes that claim or unpack to far more than they weigh, or nest without end."""
    packer = zstandard.ZstdCompressor(level=19)
    yield "zeros", packer.compress(bytes(200 * 2**20))
    frame = bytearray(packer.compress(bytes(2**17)))
    yield "zeros in zeros", packer.compress(packer.compress(bytes(100 * 2**20)))
    yield "a frame without a size", zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**20))
    yield "a broken frame", bytes(frame[:12])
    yield "a heading of 10 GB", struct.pack("<Q", 10 * 2**30) + b"{}"
    yield "a heading of 2^63 bytes", struct.pack("<Q", 2**63) + b"{}"
    nested = b'{"__metadata__":{"limbeck":"' + b"[" * 100_000 + b'"}}'
    yield "nesting", struct.pack("<Q", len(nested)) + nested
    for shape in ([2**40, 2**40], [10 * 2**30], [-1], ["x"], [2**64]):
        claim = {"values": {"dtype": "F64", "shape": shape, "data_offsets": [0, 8]}}
        yield f"an array of shape {shape}", _forged(claim, bytes(8))
    claim = {"values": {"dtype": "F64", "shape": [1], "data_offsets": [0, 10 * 2**30]}}
    yield "values that lie beyond the end", _forged(claim, bytes(8))


def _forged(tensors: dict[str, Any], payload: bytes, **about: Any) -> bytes:
    description = {
        "kind": "limbeck.algorithms.scoring.Scores",
        "turn": 3,
        "public": HEADER.public,
        "scalars": {},
        **about,
    }
    header = json.dumps({"__metadata__": {"limbeck": json.dumps(description)}, **tensors}).encode()
    return struct.pack("<Q", len(header)) + header + payload


@pytest.mark.parametrize(("what", "data"), list(bombs()))
def test_a_bomb_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(LimbeckError):
        look("scores", data)


@pytest.mark.parametrize(
    "about",
    [
        {"kind": "builtins.eval"},
        {"kind": "limbeck.protocol.messages.Message"},
        {"kind": "limbeck.protocol.messages.Reply"},
        {"kind": ""},
        {"kind": None},
        {"kind": ["limbeck.algorithms.scoring.Scores"]},
        {"kind": {"a": 1}},
        {"turn": "3"},
        {"turn": None},
        {"turn": 3.5},
        {"turn": True},
        {"turn": 10**400},
        {"public": None},
        {"public": 7},
        {"scalars": None},
        {"scalars": []},
        {"scalars": "values"},
    ],
)
def test_a_heading_that_was_tampered_with_is_refused(about: dict[str, Any]) -> None:
    with pytest.raises(LimbeckError):
        look("scores", _forged({}, b"", **about))


def test_a_reply_that_is_too_large_for_its_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scores, "max_bytes", 100)
    case = RIGHT["scores"]
    with pytest.raises(LimbeckError, match="at most 100 are allowed"):
        look("scores", encode(case.reply, HEADER))
    with pytest.raises(LimbeckError, match="at most 100 are allowed"):
        check_reply(case.reply, 101, case.request, SITE, case.algorithm)
    check_reply(case.reply, 100, case.request, SITE, case.algorithm)


@given(st.sampled_from(sorted(RIGHT)), st.data())
def test_bytes_that_were_changed_are_refused_or_still_a_right_reply(name: str, data: st.DataObject) -> None:
    """Never another exception, and never something that is no reply to this request."""
    changed = bytearray(encode(RIGHT[name].reply, HEADER))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = look(name, bytes(changed))
    except LimbeckError:
        return
    case = RIGHT[name]
    assert type(found) is case.request.reply()
    check_reply(found, len(changed), case.request, SITES[case.classes], case.algorithm)


@given(st.binary(max_size=400))
def test_noise_is_no_reply(data: bytes) -> None:
    with pytest.raises(LimbeckError):
        look("scores", data)


def test_models_within_a_reply_are_tried_out() -> None:
    x, y = SITE.public.x, np.arange(ROWS) % CLASSES
    tree = model_from({"name": "decision-tree"})
    fitted, other = (tree.fit(rows, y, CLASSES, 0).pack() for rows in (x, x[:, :2]))
    many = tree.fit(x, np.arange(ROWS) % 5, 5, 0).pack()
    algorithm = FedKT(partitions=2)

    def read(reply: Reply, request: Request[Any] = TrainStudents(), algorithm: Algorithm = algorithm) -> Reply:  # noqa: B008
        return read_reply(encode(reply, HEADER), request, HEADER, SITE, algorithm, Limits())

    right = Students((fitted, fitted))
    assert read(right) == right
    for models, message in (
        ((fitted, other), "the model takes rows of 2 values"),
        ((fitted, many), "not of shape|outside of|scores"),
        ((fitted,), "1 students, not 2"),
        ((fitted, fitted, fitted), "3 students, not 2"),
        ((), "0 students, not 2"),
    ):
        with pytest.raises(LimbeckError, match=message):
            read(Students(models))
    with pytest.raises(LimbeckError, match="not an ONNX model"):
        read(OwnModel(b"\x80\x04pickle"), SendModel(), Ensemble())


@pytest.mark.parametrize("model", ["other", "many"])
def test_so_are_models_in_one_process(model: str) -> None:
    x, y = SITE.public.x, np.arange(ROWS) % CLASSES
    tree = model_from({"name": "decision-tree"})
    wrong = tree.fit(x[:, :2], y, CLASSES, 0) if model == "other" else tree.fit(x, np.arange(ROWS) % 5, 5, 0)
    right = tree.fit(x, y, CLASSES, 0).pack()
    check_reply(Students((right, right)), 100, TrainStudents(), SITE, FedKT(partitions=2))
    with pytest.raises(LimbeckError):
        check_reply(Students((right, wrong.pack())), 100, TrainStudents(), SITE, FedKT(partitions=2))


TERMS = Terms("fedkt", {}, 2, 0, ["a", "b"], "hash")
QUESTION = RequestEnvelope("run", 1, 0, TERMS, b"request")


@given(st.binary(max_size=300))
def test_noise_is_no_envelope(data: bytes) -> None:
    for bytes_ in (data, MAGIC + data):
        for kind in (RequestEnvelope, ReplyEnvelope):
            with pytest.raises(LimbeckError):
                kind.decode(bytes_)


@pytest.mark.parametrize(
    "heading",
    [
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b"{}",
        b'{"run":',
        b'{"run": 1, "turn": 0, "party": 0, "question": ""}',
        b'{"run": "r", "turn": "x", "party": 0, "question": ""}',
        b'{"run": "r", "turn": 0, "party": [], "question": ""}',
        b'{"run": "r", "turn": 0, "party": 0, "question": "", "releases": 3}',
        b'{"run": "r", "turn": 0, "party": 0, "question": "", "extra": 3}',
        b'{"run": "r", "turn": 0, "party": 0, "question": "", "refusal": {}}',
        b"[" * 50_000,
        b"\xff\xfe",
    ],
)
def test_an_envelope_with_a_wrong_heading_is_refused(heading: bytes) -> None:
    with pytest.raises(LimbeckError):
        ReplyEnvelope.decode(MAGIC + struct.pack("<I", len(heading)) + heading)


@pytest.mark.parametrize("run", ["../evil", "a/b", "", ".hidden", "x" * 300, "a\\b", "nul\0"])
def test_a_runs_name_that_is_no_name_for_a_file_is_refused(run: str) -> None:
    with pytest.raises(LimbeckError, match="which is not a valid run name"):
        RequestEnvelope.decode(replace(QUESTION, run=run).encode())


def test_envelopes_come_back_as_they_were() -> None:
    assert RequestEnvelope.decode(QUESTION.encode()) == QUESTION
    answer = ReplyEnvelope("run", 1, 0, QUESTION.hash, None, [{"what": "labels"}], b"reply")
    assert ReplyEnvelope.decode(answer.encode()) == answer
    answer.check_belongs_to(QUESTION)


@pytest.mark.parametrize("change", [{"run": "other"}, {"turn": 0}, {"party": 1}, {"question": "0" * 64}])
def test_an_answer_to_something_else_is_refused(change: dict[str, Any]) -> None:
    answer = ReplyEnvelope("run", 1, 0, QUESTION.hash)
    with pytest.raises(LimbeckError, match="an answer for"):
        replace(answer, **change).check_belongs_to(QUESTION)
