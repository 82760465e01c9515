"""Every split is seeded and disjoint, complete where it says so, and does what its name says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.data.splits import ByClass, ByGroup, Dirichlet, Iid, PerClass, Split, Within
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

RNG = np.random.default_rng


def rows(count: int, classes: int, seed: int = 0) -> tuple[Array, dict[str, Array]]:
    rng = RNG(seed)
    return rng.integers(classes, size=count), {"writer": rng.integers(40, size=count)}


splits = st.sampled_from([Iid(), Dirichlet(0.5, 1), Dirichlet(5.0, 3), ByClass(), ByClass(3), ByGroup("writer")])


@given(splits, st.integers(2, 8), st.integers(0, 2**32))
def test_disjoint_complete_and_seeded(split: Split, parties: int, seed: int) -> None:
    y, groups = rows(600, 5, seed % 7)
    held = split.assign(y, groups, parties, RNG(seed))
    assert len(held) == parties
    assert all(len(part) for part in held)
    assert sorted(np.concatenate(held)) == list(range(len(y)))
    again = split.assign(y, groups, parties, RNG(seed))
    assert all(np.array_equal(one, other) for one, other in zip(held, again, strict=True))


def test_another_seed_gives_another_split() -> None:
    y, groups = rows(600, 5)
    for split in (Iid(), Dirichlet(0.5, 1), ByClass(2), ByGroup("writer")):
        first, second = (split.assign(y, groups, 4, RNG(seed)) for seed in (0, 1))
        assert any(not np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_each_group_is_split_within_itself() -> None:
    y, _ = rows(600, 5)
    domain = np.repeat([0, 1], [400, 200])
    held = Within(Dirichlet(1.0, 3), "domain").assign(y, {"domain": domain}, 5, RNG(0))
    assert [set(domain[part].tolist()) for part in held] == [{0}, {0}, {0}, {1}, {1}]
    assert sorted(np.concatenate(held)) == list(range(600))
    with pytest.raises(LimbeckError, match="2 groups 'domain' need at least as many parties"):
        Within(Iid(), "domain").assign(y, {"domain": domain}, 1, RNG(0))


def test_iid_parties_are_of_one_size() -> None:
    assert {len(part) for part in Iid().assign(rows(602, 5)[0], {}, 4, RNG(0))} == {150, 151}


def test_dirichlet_keeps_the_least_and_skews_with_small_beta() -> None:
    y, _ = rows(5000, 5)

    def skew(beta: float) -> float:
        held = Dirichlet(beta, 10).assign(y, {}, 10, RNG(0))
        assert min(map(len, held)) >= 10
        shares = np.stack([np.bincount(y[part], minlength=5) / len(part) for part in held])
        return float(shares.max(axis=1).mean())

    assert skew(0.1) > skew(1) > skew(100)
    assert skew(100) < 0.3


@pytest.mark.parametrize(
    ("split", "parties", "complaint"),
    [
        (Dirichlet(0.5, 100), 10, "600 private rows cannot give 10 parties 100 each; use min_rows = 60"),
        (Dirichlet(0.5, 58), 10, "never had more than"),
        (Dirichlet(), 700, "use at most 600 parties"),
        (Iid(), 700, "use at most 600 parties"),
        (ByClass(1), 3, "use 2 to 5"),
        (ByClass(9), 3, "does not suit 3 parties and 5 classes; use 2 to 5"),
        (ByGroup("author"), 3, "no group 'author'; known: writer"),
        (ByGroup("writer"), 41, "40 groups 'writer' are too few for 41 parties"),
    ],
)
def test_the_impossible_is_reported(split: Split, parties: int, complaint: str) -> None:
    y, groups = rows(600, 5)
    with pytest.raises(LimbeckError, match=complaint):
        split.assign(y, groups, parties, RNG(0))


@pytest.mark.parametrize("wrong", [{"beta": 0.0}, {"beta": -1.0}, {"beta": float("nan")}, {"min_rows": 0}])
def test_wrong_parameters_are_reported(wrong: dict[str, float]) -> None:
    with pytest.raises(LimbeckError, match=next(iter(wrong))):
        Dirichlet(**wrong)  # type: ignore[arg-type]
    with pytest.raises(LimbeckError, match="classes = 0: Input should be greater than or equal to 1"):
        ByClass(0)


def test_by_class_holds_so_many_classes() -> None:
    y, _ = rows(600, 6)
    assert [len(np.unique(y[part])) for part in ByClass(2).assign(y, {}, 3, RNG(0))] == [2, 2, 2]
    assert [len(np.unique(y[part])) for part in ByClass().assign(y, {}, 3, RNG(0))] == [2, 2, 2]
    assert [len(np.unique(y[part])) for part in ByClass(3).assign(y, {}, 4, RNG(0))] == [3, 3, 3, 3]


def test_by_group_never_divides_a_group() -> None:
    y, groups = rows(600, 5)
    held = ByGroup("writer").assign(y, groups, 7, RNG(0))
    owners = [set(groups["writer"][part]) for part in held]
    assert sum(map(len, owners)) == 40
    assert {len(members) for members in owners} == {5, 6}


@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 2**32))
def test_so_many_rows_of_every_class(parties: int, each: int, seed: int) -> None:
    y, groups = rows(600, 5, seed % 7)
    held = PerClass(each).assign(y, groups, parties, RNG(seed))
    assert len(np.unique(np.concatenate(held))) == parties * each * 5
    assert all(np.bincount(y[part], minlength=5).tolist() == [each] * 5 for part in held)


def test_one_subclass_of_every_class_a_party() -> None:
    """Ten parties, five subclasses a class: two parties share one, and all are held by somebody."""
    subclass = np.repeat(np.arange(30), 50)
    y = subclass // 5
    held = PerClass(20, "subclass").assign(y, {"subclass": subclass}, 10, RNG(0))
    assert all(len(part) == 120 for part in held)
    assert all(len(np.unique(subclass[part])) == 6 for part in held)
    assert all((np.bincount(y[part]) == 20).all() for part in held)
    assert len(np.unique(subclass[np.concatenate(held)])) == 30


def test_one_writer_a_party_is_one_of_the_largest() -> None:
    writer = np.repeat(np.arange(20), np.arange(20) + 1)
    held = ByGroup("writer", groups_per_party=1).assign(np.zeros(len(writer), int), {"writer": writer}, 4, RNG(0))
    assert sorted(int(np.unique(writer[part]).item()) for part in held) == [16, 17, 18, 19]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (PerClass(3), "2 rows of class number 0 cannot give 4 parties 3 each, at most 0"),
        (PerClass(1, "writr"), "no group 'writr'; did you mean 'writer'"),
        (ByGroup("writer", groups_per_party=2), "4 groups 'writer' are too few for 4 parties with 2 each"),
    ],
)
def test_splits_that_cannot_be(split: Split, message: str) -> None:
    y = np.array([0, 0, 1, 1, 1])
    with pytest.raises(LimbeckError, match=message):
        split.assign(y, {"writer": np.array([0, 1, 2, 3, 3])}, 4, RNG(0))
    for wrong in (lambda: PerClass(0), lambda: ByGroup("writer", 0)):
        with pytest.raises(LimbeckError, match="Input should be greater than or equal to 1"):
            wrong()
