"""Hostile and broken replies: none crashes the server, none is taken for a reply."""

import json
import struct
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from limbeck.algorithms.centralized import HandOver, PrivateRows
from limbeck.algorithms.ensemble import OwnModel, ShareModel
from limbeck.algorithms.fedavg import Improve, Improved
from limbeck.algorithms.fedkd import Tell, Told
from limbeck.algorithms.fedkt import Students, TrainStudents
from limbeck.algorithms.fedmd import Accuracy, Score, Scores
from limbeck.algorithms.questions import Count, Counts, Said, Say
from limbeck.engines.vetting import vetted
from limbeck.errors import LimbeckError
from limbeck.models.inspection import Limits
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.letters import MAGIC, Answer, Question, Terms
from limbeck.protocol.messages import Done, Reply, Request
from limbeck.protocol.rows import PublicRows
from limbeck.protocol.site import Site

ROWS, CLASSES = 12, 3
SITE = Site(
    public=PublicRows(np.random.default_rng(0).random((ROWS, 4), np.float32)),
    classes=CLASSES,
    model=model_from({"name": "decision-tree"}),
    seed=0,
    trainer=PoolTrainer(1),
)
HEADER = Header(3, SITE.public.hash)
VOTES = np.full((ROWS, CLASSES), 1 / 3)
RIGHT: dict[str, tuple[Request[Any], Reply]] = {
    "scores": (Score(np.arange(5)), Scores(np.zeros((5, CLASSES), np.float32))),
    "labels": (Score(np.arange(5)), Scores(np.zeros(5, np.uint8))),
    "said": (Say(ROWS, ROWS, 3), Said(VOTES, 1.0, float("nan"), np.ones(CLASSES))),
    "counts": (Count(ROWS, 3), Counts(np.array([1.0, 2.0, 3.0]))),
    "views": (Tell(ROWS, 50, 0), Told(bytes(50 * ROWS * CLASSES), 8, -99, np.empty(0), np.ones(CLASSES))),
    "told": (Tell(ROWS, 1, 0), Told(b"", 0, 0, np.zeros((ROWS, CLASSES)), np.ones(CLASSES))),
    "improved": (Improve(b""), Improved(save({"w": np.ones(2, np.float32)}), 4)),
    "rows": (HandOver(), PrivateRows(np.zeros((6, 4), np.float32), np.zeros(6, np.uint8))),
}
WRONG: list[tuple[str, Reply]] = [
    ("scores", Scores(np.full((5, CLASSES), np.nan, np.float32))),
    ("scores", Scores(np.full((5, CLASSES), np.inf, np.float32))),
    ("scores", Scores(np.zeros((4, CLASSES), np.float32))),
    ("scores", Scores(np.zeros((5, CLASSES + 1), np.float32))),
    ("scores", Scores(np.zeros((5, CLASSES, 1), np.float32))),
    ("scores", Scores(np.zeros((0, CLASSES), np.float32))),
    ("scores", Scores(np.array(1.0, np.float32))),
    ("labels", Scores(np.full(5, CLASSES + 1))),
    ("labels", Scores(np.full(5, -1))),
    ("labels", Scores(np.full(6, 0))),
    ("scores", Accuracy(0.5)),
    ("scores", Done()),
    ("scores", Students(())),
    ("said", Said(VOTES * np.nan, 1.0, 0.5, np.ones(CLASSES))),
    ("said", Said(np.zeros((ROWS + 1, CLASSES)), 1.0, 0.5, np.ones(CLASSES))),
    ("said", Said(np.zeros((ROWS, CLASSES + 1)), 1.0, 0.5, np.ones(CLASSES))),
    ("said", Said(np.zeros((0, CLASSES)), 1.0, 0.5, np.ones(CLASSES))),
    ("said", Said(VOTES * 1e300, 1.0, 0.5, np.ones(CLASSES))),
    ("said", Said(VOTES, 1.0, 0.5, np.full(CLASSES, -1e300))),
    ("said", Said(VOTES, 1.5, 0.5, np.ones(CLASSES))),
    ("said", Said(VOTES, -0.5, 0.5, np.ones(CLASSES))),
    ("said", Said(VOTES, float("nan"), 0.5, np.ones(CLASSES))),
    ("said", Said(VOTES, 1.0, 7.0, np.ones(CLASSES))),
    ("said", Said(VOTES, 1.0, float("inf"), np.ones(CLASSES))),
    ("said", Said(VOTES, 1.0, 0.5, np.ones(CLASSES + 2))),
    ("said", Said(VOTES, 1.0, 0.5, np.full(CLASSES, np.inf))),
    ("counts", Counts(np.full(CLASSES, np.nan))),
    ("counts", Counts(np.full(CLASSES, 1e308))),
    ("counts", Counts(np.ones(CLASSES + 1))),
    ("counts", Counts(np.ones((CLASSES, 1)))),
    ("told", Told(b"x" * 10_000, 2, 0, np.empty(0), np.ones(CLASSES))),
    ("told", Told(b"x" * 50 * ROWS * CLASSES, 8, 0, np.empty(0), np.ones(CLASSES))),
    ("told", Told(b"", -4, 0, np.empty(0), np.ones(CLASSES))),
    ("told", Told(b"", 1000, 0, np.empty(0), np.ones(CLASSES))),
    ("told", Told(b"", 0, 0, np.full((ROWS, CLASSES), np.nan), np.ones(CLASSES))),
    ("told", Told(b"", 0, 0, np.zeros((ROWS, 1)), np.ones(CLASSES))),
    ("told", Told(b"", 0, 0, np.zeros((ROWS, CLASSES)), np.ones(2))),
    ("improved", Improved(b"", 0)),
    ("improved", Improved(b"", -3)),
    ("rows", PrivateRows(np.zeros((6, 4), np.float32), np.full(6, CLASSES))),
    ("rows", PrivateRows(np.zeros((6, 4), np.float32), np.zeros(5, np.uint8))),
    ("rows", PrivateRows(np.full((6, 4), np.nan, np.float32), np.zeros(6, np.uint8))),
]


def look(name: str, data: bytes) -> Reply:
    return vetted(data, RIGHT[name][0], HEADER, SITE, Limits())


@pytest.mark.parametrize("name", RIGHT)
def test_what_an_honest_party_says_is_taken(name: str) -> None:
    reply = RIGHT[name][1]
    found = look(name, encode(reply, HEADER))
    assert type(found) is type(reply)
    for field in fields(reply):  # type: ignore[arg-type]
        assert np.array_equal(getattr(found, field.name), getattr(reply, field.name), equal_nan=field.name == "belief")


@pytest.mark.parametrize(("name", "reply"), WRONG)
def test_a_reply_of_another_kind_shape_or_range_is_refused(name: str, reply: Reply) -> None:
    with pytest.raises(LimbeckError):
        look(name, encode(reply, HEADER))


@pytest.mark.parametrize("name", RIGHT)
def test_a_reply_of_another_turn_or_of_other_public_rows_is_refused(name: str) -> None:
    reply = RIGHT[name][1]
    for header in (replace(HEADER, turn=2), replace(HEADER, turn=4), replace(HEADER, public="other")):
        with pytest.raises(LimbeckError, match="another request"):
            look(name, encode(reply, header))


@pytest.mark.parametrize("name", RIGHT)
def test_a_reply_that_was_cut_short_is_refused(name: str) -> None:
    """Twenty cuts of each."""
    data = encode(RIGHT[name][1], HEADER)
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
    said = {"kind": "limbeck.algorithms.poll.Counts", "turn": 3, "public": HEADER.public, "scalars": {}, **about}
    header = json.dumps({"__metadata__": {"limbeck": json.dumps(said)}, **tensors}).encode()
    return struct.pack("<Q", len(header)) + header + payload


@pytest.mark.parametrize(("what", "data"), list(bombs()))
def test_a_bomb_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(LimbeckError):
        look("counts", data)


@pytest.mark.parametrize(
    "about",
    [
        {"kind": "builtins.eval"},
        {"kind": "limbeck.protocol.messages.Message"},
        {"kind": "limbeck.protocol.messages.Reply"},
        {"kind": ""},
        {"kind": None},
        {"kind": ["limbeck.algorithms.poll.Counts"]},
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
        look("counts", _forged({}, b"", **about))


def test_a_reply_that_is_too_large_for_its_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "largest", 100)
    with pytest.raises(LimbeckError, match="of which 100 are allowed"):
        look("counts", encode(RIGHT["counts"][1], HEADER))


@given(st.sampled_from(sorted(RIGHT)), st.data())
def test_bytes_that_were_changed_are_refused_or_still_a_right_reply(name: str, data: st.DataObject) -> None:
    """Never another exception, and never something that is no reply to this request."""
    changed = bytearray(encode(RIGHT[name][1], HEADER))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = look(name, bytes(changed))
    except LimbeckError:
        return
    assert type(found) is RIGHT[name][0].reply()
    found.check(RIGHT[name][0], ROWS, CLASSES)


@given(st.binary(max_size=400))
def test_noise_is_no_reply(data: bytes) -> None:
    with pytest.raises(LimbeckError):
        look("counts", data)


def test_models_within_a_reply_are_tried_out() -> None:
    fitted = model_from({"name": "decision-tree"}).fit(SITE.public.x, np.arange(ROWS) % CLASSES, CLASSES, 0)
    other = model_from({"name": "decision-tree"}).fit(SITE.public.x[:, :2], np.arange(ROWS) % CLASSES, CLASSES, 0)
    right, wrong = Students((fitted.pack(),)), Students((fitted.pack(), other.pack()))
    request = TrainStudents(ROWS)
    assert vetted(encode(right, HEADER), request, HEADER, SITE, Limits()) == right
    with pytest.raises(LimbeckError, match="the model takes rows of 2 values"):
        vetted(encode(wrong, HEADER), request, HEADER, SITE, Limits())
    with pytest.raises(LimbeckError, match="no ONNX model"):
        vetted(encode(OwnModel(b"\x80\x04pickle"), HEADER), ShareModel(), HEADER, SITE, Limits())


TERMS = Terms("fedkt", {}, 2, 0, ["a", "b"], "hash")
QUESTION = Question("run", 1, 0, TERMS, b"request")


@given(st.binary(max_size=300))
def test_noise_is_no_letter(data: bytes) -> None:
    for bytes_ in (data, MAGIC + data):
        for kind in (Question, Answer):
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
def test_a_letter_with_a_wrong_heading_is_refused(heading: bytes) -> None:
    with pytest.raises(LimbeckError):
        Answer.decode(MAGIC + struct.pack("<I", len(heading)) + heading)


@pytest.mark.parametrize("run", ["../evil", "a/b", "", ".hidden", "x" * 300, "a\\b", "nul\0"])
def test_a_runs_name_that_is_no_name_for_a_file_is_refused(run: str) -> None:
    with pytest.raises(LimbeckError, match="a letter of a run with the name"):
        Question.decode(replace(QUESTION, run=run).encode())


def test_letters_come_back_as_they_were() -> None:
    assert Question.decode(QUESTION.encode()) == QUESTION
    answer = Answer("run", 1, 0, QUESTION.hash, None, [{"what": "labels"}], b"reply")
    assert Answer.decode(answer.encode()) == answer
    answer.check_belongs_to(QUESTION)


@pytest.mark.parametrize("change", [{"run": "other"}, {"turn": 0}, {"party": 1}, {"question": "0" * 64}])
def test_an_answer_to_something_else_is_refused(change: dict[str, Any]) -> None:
    answer = Answer("run", 1, 0, QUESTION.hash)
    with pytest.raises(LimbeckError, match="it speaks of"):
        replace(answer, **change).check_belongs_to(QUESTION)
