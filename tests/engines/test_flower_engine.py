"""What the engine makes of answers, without a line."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.scoring import TrainLocally
from limbeck.engines.engine import PendingRequest
from limbeck.engines.flower.engine import Consortium, Flower
from limbeck.engines.journal import Journal
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.envelopes import ReplyEnvelope, Terms
from limbeck.protocol.messages import Acknowledgement
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import PublicRows
from limbeck.protocol.site import Site

SITE = Site(
    public=PublicRows(np.ones((4, 2), np.float32)),
    classes=3,
    model=model_from({"name": "decision-tree"}),
    seed=0,
    trainer=PoolTrainer(1),
)
HEADER = Header(0, SITE.public.hash)
PLAIN = FedMD(alignment=4, start="none")
REQUEST = TrainLocally()  # any algorithm's reply to it is Done
PENDING = PendingRequest(REQUEST, HEADER, encode(REQUEST, HEADER), [0])
[ROW] = [
    asdict(each.row("party 0", 0, 0, Facts(4, 3, 1)))
    for each in PLAIN.disclosures(Facts(4, 3, 1))
    if each.origin == "party"
]


@pytest.fixture
def engine(tmp_path: Path) -> Flower:
    terms = Terms("fedmd", {}, 1, 0, ["a", "b", "c"], SITE.public.hash)
    journal = Journal(tmp_path / "journal.sqlite", new=True)
    control = cast(Any, SimpleNamespace())
    return Flower(PLAIN, SITE, Consortium("run", terms, {0: b"key"}), control, journal, 1.0, 1)


def accepted(engine: Flower, **changes: Any) -> Any:
    question = engine._question(PENDING, 0)
    reply = encode(Acknowledgement(), HEADER)
    answer = ReplyEnvelope("run", 0, 0, question.hash, changes.get("refusal"), changes.get("releases", [ROW]), reply)
    return engine._validated(PENDING, question, answer.encode(), "")


def test_a_valid_answer_is_accepted_and_stored(engine: Flower) -> None:
    assert accepted(engine) is not None
    assert engine.journal.answers(0).keys() == {0}
    assert engine.releases == [ROW]


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"sigma": 1.0}},
        {"mechanism": "unheard"},
        {"mechanism": "gaussian-sum"},
        {"queries": "many"},
        {"observer": "everybody"},
        {"site": "party 1"},
        {"site": "server"},
        {"turn": 4},
        {"turn": -1},
        {"extra": 1},
        {"sensitivity": None},
        {"queries": 10**9},
        {"queries": -5},
        {"queries": 3},
        {"voters": -3},
        {"what": "labels"},
        {"noise": "none"},
    ],
)
def test_rows_of_a_ledger_that_no_accountant_knows_make_a_bad_reply(engine: Flower, change: dict[str, Any]) -> None:
    """They would end the run with an error otherwise, for good."""
    assert accepted(engine, releases=[{**ROW, **change}]) is None
    assert engine.journal.answers(0) == {}
    [event] = engine.journal.events()
    assert event.what.startswith("bad reply: ")
    assert "ledger rows" in event.what


PRIVATE = FedKT(partitions=1, subsets=2, privacy=Privacy("L2", epsilon=2.0))
LAPLACE: dict[str, Any] = {"gamma": 0.05, "weight": 1, "unit": "example", "adjacency": "replace"}
DRAWN: dict[str, Any] = {"rows": 5, "of": 30, "replacement": True, "unit": "example", "adjacency": "any"}


@pytest.mark.parametrize("noise", ["secure", "simulated"])
@pytest.mark.parametrize("algorithm", [PRIVATE, FedRidge(privacy=Privacy("L2", epsilon=2.0))])
def test_rows_that_the_algorithm_declares_are_accepted(engine: Flower, noise: Noise, algorithm: Algorithm) -> None:
    """A party draws its noise as it likes, on whatever machine: scales are calibrated anew there."""
    now_of(engine, algorithm)
    facts = Facts(4, 3, 1, noise)
    declared = [each for each in algorithm.disclosures(facts) if each.origin == "party"]
    rows = [asdict(each.row("party 0", 0, number, facts)) for number, each in enumerate(declared)]
    for row in rows:
        row["parameters"] = {k: v * (1 + 1e-9) if type(v) is float else v for k, v in row["parameters"].items()}
    assert rows
    assert accepted(engine, releases=rows) is not None


def now_of(engine: Flower, algorithm: Algorithm) -> None:
    """Let the engine lead another algorithm."""
    engine.algorithm = algorithm
    engine.__dict__.pop("_declared", None)
    engine.__dict__.pop("_declared_rows", None)


def drawn(rows: int, of: int) -> dict[str, Any]:
    """The row of a subset."""
    facts = Facts(4, 3, 1, rows=of)
    [declared] = [each for each in FedMDNFDP(sampled=rows).disclosures(facts) if each.what == "rows"]
    return asdict(declared.row("party 0", 0, 0, facts))


def test_a_subset_is_accepted_where_the_algorithm_draws_one(engine: Flower) -> None:
    now_of(engine, FedMDNFDP(sampled=5))
    assert accepted(engine, releases=[drawn(5, 30)]) is not None


@pytest.mark.parametrize(("of", "is_accepted"), [(20, True), (30, False), (10**6, False)])
def test_a_subset_is_of_the_agreed_number_of_rows(engine: Flower, of: int, is_accepted: bool) -> None:
    """How many rows a party has is its own: nothing but what was agreed on is in its ledger."""
    now_of(engine, FedMDNFDP(sampled=5, population=20))
    assert (accepted(engine, releases=[drawn(5, of)]) is not None) == is_accepted


def test_a_subset_that_the_algorithm_does_not_draw_is_rejected(engine: Flower) -> None:
    """Its delta would make every other figure look better."""
    now_of(engine, PRIVATE)
    assert accepted(engine, releases=[drawn(9, 10)]) is None


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("laplace", LAPLACE),  # known, but not this algorithm's
        *(
            ("laplace", LAPLACE | change)
            for change in ({"unit": ["x"]}, {"adjacency": {"a": 1}}, {"weight": "a"}, {"weight": 0})
        ),
        *(("laplace", LAPLACE | {"weight": weight}) for weight in (-1, 10**400)),
        *(
            ("subsample", DRAWN | change)
            for change in ({"rows": 10**400}, {"of": True}, {"of": 3.5}, {"replacement": 1})
        ),
        *(
            ("subsample", DRAWN | change)
            for change in ({"unit": "party"}, {"adjacency": "odd"}, {"rows": 0}, {"of": -1})
        ),
    ],
)
def test_mechanisms_that_the_algorithm_has_not_make_a_bad_reply(
    engine: Flower, mechanism: str, parameters: dict[str, Any]
) -> None:
    now_of(engine, FedMDNFDP(sampled=5) if mechanism == "subsample" else PRIVATE)
    row = {**ROW, "mechanism": mechanism, "parameters": parameters, "unit": "example", "sensitivity": 1.0}
    assert accepted(engine, releases=[row]) is None
    assert engine.journal.answers(0) == {}


def test_a_ledger_without_end_makes_a_bad_reply(engine: Flower) -> None:
    assert accepted(engine, releases=[ROW] * 1000) is None


def test_the_rows_of_as_many_rounds_as_there_are_come_with_the_first_answer(engine: Flower) -> None:
    """They are written before a party trains for the first time."""
    algorithm = FedMDLDP(rounds=150, alignment=4, start="none", epsilon=50.0)
    now_of(engine, algorithm)
    [noisy] = [each for each in algorithm.disclosures(Facts(4, 3, 1, "secure")) if each.what == "noisy scores"]
    rows = [asdict(noisy.row("party 0", 0, number, Facts(4, 3, 1, "secure"))) for number in range(noisy.times)]
    assert len(rows) == 150
    assert accepted(engine, releases=rows) is not None


def test_a_refusal_cannot_steer_the_coordinators_terminal(engine: Flower) -> None:
    assert accepted(engine, refusal="no\x1b[2J\nway") is None
    [event] = engine.journal.events()
    assert event.what == "refused: no [2J way"


def test_an_error_in_the_checks_of_a_reply_is_the_partys(engine: Flower, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the run of all parties otherwise."""

    def check(*_: Any) -> None:
        raise ZeroDivisionError("of\nthis reply")

    monkeypatch.setattr(Acknowledgement, "check", check)
    assert accepted(engine) is None
    assert engine.rejected == {0: "ZeroDivisionError: of this reply"}
    assert engine.journal.answers(0) == {}
    [event] = engine.journal.events()
    assert (event.party, event.what) == (0, "bad reply: ZeroDivisionError: of this reply")
