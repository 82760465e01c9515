"""Class weights between organisations: terms that a party compares with its join file, and rows that get them."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.algorithms.fedvote import FedVote
from limbeck.consortium.answering import answer
from limbeck.consortium.checking import check
from limbeck.consortium.experiment import RunConfiguration
from limbeck.consortium.joining import read_join
from limbeck.consortium.party import PartyFolder
from limbeck.consortium.proposal import settings_for
from limbeck.errors import LimbeckError
from limbeck.experiments.config import check_table
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import RequestEnvelope
from party_folders import AGREE, PLAIN, make, question, write_settings

WEIGHTS = [0.25, 1.0, 0.5]


def invited(home: Path, weights: Any = WEIGHTS) -> Path:
    home.mkdir(exist_ok=True)
    make(home)
    join = replace(read_join(home / "join.json"), class_weights=weights)
    (home / "join.json").write_text(join.to_json())
    return home


def counts(home: Path, **changes: Any) -> list[float]:
    reply = answer(PartyFolder(home), RequestEnvelope.decode(question(FedVote(), **changes).encode()))
    assert reply.refusal is None, reply.refusal
    votes: Any = decode(reply.reply)[0]
    found: list[float] = votes.counts.tolist()
    return found


def test_a_party_weights_its_rows_by_the_terms(tmp_path: Path) -> None:
    plain = counts(invited(tmp_path / "plain", None))
    weighted = counts(invited(tmp_path / "weighted"), class_weights=WEIGHTS)
    assert weighted == [rows * weight for rows, weight in zip(plain, WEIGHTS, strict=True)]


def test_other_weights_than_in_the_join_file_are_refused(tmp_path: Path) -> None:
    for mine, terms in ((None, WEIGHTS), (WEIGHTS, None), (WEIGHTS, [1.0, 1.0, 0.5])):
        home = invited(tmp_path / f"{mine} {terms}", mine)
        refusal = answer(PartyFolder(home), question(PLAIN, class_weights=terms)).refusal
        assert refusal == "the server has another list of class weights than the join file"


def test_a_model_that_takes_no_weights_is_refused_when_the_party_starts(tmp_path: Path) -> None:
    write_settings(invited(tmp_path), agree=AGREE, model="knn")
    with pytest.raises(LimbeckError, match="model 'knn' does not use sample weights or class weights"):
        check(PartyFolder(tmp_path))


@pytest.mark.parametrize("wrong", [[0.5, 1.0], [-1.0, 1.0, 1.0], [np.nan, 1, 1], [2.0, 1.0, 1.0], [0, 0, 0]])
def test_wrong_weights_are_no_join_file_and_no_envelope(wrong: list[float], tmp_path: Path) -> None:
    rule = "class_weights must have a number from 0 to 1 for each class"
    with pytest.raises(LimbeckError, match=rule):
        read_join(invited(tmp_path, wrong) / "join.json")
    with pytest.raises(LimbeckError, match=rule):
        RequestEnvelope.decode(question(class_weights=wrong).encode())


def test_the_first_settings_show_the_weights(tmp_path: Path) -> None:
    text = settings_for(read_join(invited(tmp_path) / "join.json"))
    assert "# Your rows are weighted by class, as the invitation says: { 0 = 0.25, 1 = 1.0, 2 = 0.5 }\n" in text
    assert tomllib.loads(text)["model"]["name"] == "random-forest"


@pytest.mark.parametrize(
    ("weights", "algorithm", "problem"),
    [
        ({"b": 0.5, "c": 1}, "fedvote", "there is no class 'c'"),
        ("balanced", "fedvote", "give a weight for each class"),
        ({"a": -1}, "fedvote", "the weight of 'a' is -1"),
    ],
)
def test_wrong_experiments_are_refused(weights: Any, algorithm: str, problem: str) -> None:
    data = {"public": "public.npz", "classes": ["a", "b"], "class_weights": weights}
    with pytest.raises(LimbeckError, match=problem):
        check_table(RunConfiguration, {"data": data, "algorithm": {"name": algorithm}}, "run.toml")


def test_an_experiments_weights_are_scaled_and_in_order() -> None:
    data = {"public": "public.npz", "classes": ["a", "b"], "class_weights": {"b": 0.25, "a": 0.5}}
    found = check_table(RunConfiguration, {"data": data, "algorithm": {"name": "fedvote"}}, "run.toml")
    assert found.data.factors == [1.0, 0.5]
