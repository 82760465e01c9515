"""What the engine makes of answers, without a line."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("flwr", reason="limbeck[flower] is not installed")

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMDNFDP
from limbeck.algorithms.questions import Count, Counts
from limbeck.algorithms.voting import Voting
from limbeck.engines.engine import Letter
from limbeck.engines.flower.engine import Consortium, Flower, Patience
from limbeck.engines.journal import Journal
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.mechanisms import Subsample, Unprotected
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.letters import Answer, Terms
from limbeck.protocol.release import Asked, Noise, release_row
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
REQUEST = Count(4, 1)
LETTER = Letter(REQUEST, HEADER, encode(REQUEST, HEADER), [0])
ROW = {
    **{
        f: getattr(release_row("party 0", 0, 0, "Counts", Unprotected(), "server", Asked()), f)
        for f in (
            "site",
            "turn",
            "number",
            "what",
            "mechanism",
            "parameters",
            "sensitivity",
            "unit",
            "adjacency",
            "observer",
            "queries",
            "classes",
            "voters",
            "abstentions",
            "noise",
        )
    }
}


@pytest.fixture
def engine(tmp_path: Path) -> Flower:
    terms = Terms("fedkt", {}, 1, 0, ["a", "b", "c"], SITE.public.hash)
    journal = Journal(tmp_path / "journal.sqlite", new=True)
    control = cast(Any, SimpleNamespace())
    return Flower(cast(Any, None), SITE, Consortium("run", terms, {0: b"key"}), control, journal, Patience(1.0, 1))


def heard(engine: Flower, **changes: Any) -> Any:
    question = engine._question(LETTER, 0)
    reply = encode(Counts(np.ones(3)), HEADER)
    answer = Answer("run", 0, 0, question.hash, changes.get("refusal"), changes.get("releases", [ROW]), reply)
    return engine._heard(LETTER, question, answer.encode(), "")


def test_a_right_answer_is_heard_and_kept(engine: Flower) -> None:
    assert heard(engine) is not None
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
        {"extra": 1},
        {"sensitivity": None},
        {"queries": 10**9},
        {"queries": -5},
        {"voters": -3},
    ],
)
def test_rows_of_a_ledger_that_no_accountant_knows_make_a_bad_reply(engine: Flower, change: dict[str, Any]) -> None:
    """They would end the run with an error otherwise, for good."""
    assert heard(engine, releases=[{**ROW, **change}]) is None
    assert engine.journal.answers(0) == {}
    [event] = engine.journal.events()
    assert event.what.startswith("bad reply: rows of")


PRIVATE = FedKT(partitions=1, subsets=2, privacy=Privacy("L2", epsilon=2.0))
LAPLACE: dict[str, Any] = {"gamma": 0.05, "weight": 1, "unit": "example", "adjacency": "replace"}
DRAWN: dict[str, Any] = {"rows": 5, "of": 30, "replacement": True, "unit": "example", "adjacency": "any"}


@pytest.mark.parametrize("noise", ["secure", "simulated"])
@pytest.mark.parametrize("voting", ["paper", Voting()])
def test_rows_that_the_algorithm_plans_are_taken(engine: Flower, noise: Noise, voting: Any) -> None:
    """A party draws its noise as it likes, on whatever machine: scales are calibrated anew there."""
    engine.algorithm = replace(PRIVATE, voting=voting)
    planned = [row for row in engine.algorithm.planned(4, 3, [10**6], noise) if row.site == "party 0"]
    rows = [asdict(replace(row, turn=0, number=number)) for number, row in enumerate(planned)]
    for row in rows:
        row["parameters"] = {k: v * (1 + 1e-9) if type(v) is float else v for k, v in row["parameters"].items()}
    assert rows
    assert heard(engine, releases=rows) is not None


def test_a_subset_is_taken_where_the_algorithm_draws_one(engine: Flower) -> None:
    row = asdict(release_row("party 0", 0, 0, "rows", Subsample(5, 30), "public", Asked()))
    engine.algorithm = FedMDNFDP(sampled=5)
    assert heard(engine, releases=[row]) is not None


@pytest.mark.parametrize(("of", "right"), [(20, True), (30, False), (10**6, False)])
def test_a_subset_is_of_the_agreed_number_of_rows(engine: Flower, of: int, right: bool) -> None:
    """How many rows a party has is its own: nothing but what was agreed on is in its ledger."""
    engine.algorithm = FedMDNFDP(sampled=5, population=20)
    row = asdict(release_row("party 0", 0, 0, "rows", Subsample(5, of), "public", Asked()))
    assert (heard(engine, releases=[row]) is not None) == right


def test_a_subset_elsewhere_is_a_lie(engine: Flower) -> None:
    """Its delta would make every other figure look better."""
    engine.algorithm = PRIVATE
    row = asdict(release_row("party 0", 0, 0, "rows", Subsample(9, 10), "public", Asked()))
    assert heard(engine, releases=[row]) is None


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
    engine.algorithm = FedMDNFDP(sampled=5) if mechanism == "subsample" else PRIVATE
    row = {**ROW, "mechanism": mechanism, "parameters": parameters, "unit": "example", "sensitivity": 1.0}
    assert heard(engine, releases=[row]) is None
    assert engine.journal.answers(0) == {}


def test_a_ledger_without_end_makes_a_bad_reply(engine: Flower) -> None:
    assert heard(engine, releases=[ROW] * 1000) is None


def test_a_refusal_cannot_steer_the_coordinators_terminal(engine: Flower) -> None:
    assert heard(engine, refusal="no\x1b[2J\nway") is None
    [event] = engine.journal.events()
    assert event.what == "refused: no [2J way"
