"""What is asked of `limbeck privacy epsilon`, and what is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.queries import AccountingQuery, account

LAPLACE: dict[str, Any] = {"mechanism": "laplace", "gamma": 1.0, "queries": 2}


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    np.save(tmp_path / "votes.npy", np.array([[3, 4], [5, 6]]))
    return tmp_path / "votes.npy"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.0}, "gamma must be above 0"),
        ({"gamma": -1.0}, "gamma must be above 0"),
        ({"gamma": math.nan}, "gamma must be above 0"),
        ({"gamma": math.inf}, "gamma must be above 0 and finite"),
        ({"delta": 0.0}, "delta = 0.0: Input should be greater than 0"),
        ({"delta": 1.0}, "delta = 1.0: Input should be less than 1"),
        ({"queries": 0}, "queries = 0: Input should be greater than or equal to 1"),
        ({"queries": None}, "--queries"),
        ({"partitions": 0}, "partitions = 0: Input should be greater than or equal to 1"),
        ({"gamma": None, "sigma": 1.0}, "laplace takes --gamma"),
        ({"mechanism": "laplce"}, "did you mean 'laplace'"),
        ({"mechanism": "gaussian", "gamma": None, "sigma": 0.0}, "sigma must be above 0"),
    ],
)
def test_wrong_queries_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        account(AccountingQuery(**{**LAPLACE, **change}))


def test_votes_and_queries_must_agree(votes: Path) -> None:
    with pytest.raises(LimbeckError, match=r"9 queries, but .* has 2 rows"):
        account(AccountingQuery(**{**LAPLACE, "queries": 9, "votes": votes}))
    with pytest.raises(LimbeckError, match=r"--classes 3, but .* has 2 columns"):
        account(AccountingQuery(**LAPLACE, classes=3, votes=votes))
    with pytest.raises(LimbeckError, match="not an NPY file"):
        account(AccountingQuery(**LAPLACE, votes=votes.with_name("no.npy")))


@pytest.mark.parametrize("wrong", [np.nan, -1.0])
def test_wrong_votes_are_reported_by_file_and_row(votes: Path, wrong: float) -> None:
    np.save(votes, np.array([[3, 4], [5, wrong]]))
    with pytest.raises(LimbeckError, match=r"votes\.npy: row 1"):
        account(AccountingQuery(**LAPLACE, votes=votes))


def test_partitions_weigh_a_party_and_repeat_an_example(votes: Path) -> None:
    base = {**LAPLACE, "gamma": 0.05, "queries": 40}
    party, example = (account(AccountingQuery(**base, partitions=2, unit=unit)).all for unit in ("party", "example"))
    assert party == pytest.approx(account(AccountingQuery(**{**base, "gamma": 0.1})).all)
    assert example == pytest.approx(account(AccountingQuery(**{**base, "queries": 80}, unit="example")).all)
    once, twice = (
        account(AccountingQuery(**LAPLACE, votes=votes, unit="example", partitions=s), "moments") for s in (1, 2)
    )
    assert once.data_dependent
    assert once.epsilon < twice.epsilon


def test_best_ignores_votes(votes: Path) -> None:
    with_votes, without = account(AccountingQuery(**LAPLACE, votes=votes)), account(AccountingQuery(**LAPLACE))
    assert (with_votes.epsilon, with_votes.data_dependent) == (without.epsilon, False)
