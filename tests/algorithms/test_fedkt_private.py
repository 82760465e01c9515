"""FedKT-L1 and -L2: what gets noise where, what it costs, and what costs nothing."""

import math
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.pate import Pate
from limbeck.algorithms.subsets import cut
from limbeck.checks import check_algorithm, small_federation
from limbeck.errors import LimbeckError
from limbeck.experiments.record import RunRecord
from limbeck.models.jobs import FitAndVote
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.accountants import best_epsilon
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.events import DpEvent
from limbeck.privacy.mechanisms import Gumbel, Laplace
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.rows import PublicRows, Rows
from limbeck.protocol.site import Silo

SIGMA = {"gaussian", "confident-gaussian"}


def private(level: Any, mechanism: Any = "gumbel", scale: float = 0.5, **more: Any) -> Privacy:
    noise: dict[str, Any] = {"sigma" if mechanism in SIGMA else "gamma": scale}
    return Privacy(level, mechanism, **noise, **more)


def record(algorithm: Any, seed: int = 0) -> RunRecord:
    return small_federation(algorithm, seed).run(PoolTrainer(1)).record


def model(algorithm: Any) -> bytes:
    found = small_federation(algorithm).run(PoolTrainer(1)).model
    assert found is not None
    return found.onnx


@pytest.mark.slow
@pytest.mark.parametrize(
    "privacy",
    [
        private("L1", "confident-gaussian", 0.5, threshold=1.0),
        private("L2", adjacency="add-remove"),
    ],
    ids=lambda p: f"{p.level}-{p.mechanism}-{p.adjacency}",
)
def test_private_fedkt_behaves(privacy: Privacy) -> None:
    check_algorithm(FedKT(privacy=privacy, subsets=3))


@pytest.mark.slow
def test_private_pate_behaves() -> None:
    check_algorithm(Pate(privacy=private("L2"), teachers=5))


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize(("mechanism", "scale"), [("laplace", math.inf), ("gumbel", math.inf), ("gaussian", 1e-300)])
def test_zero_noise_is_l0_to_the_bit(level: str, mechanism: str, scale: float) -> None:
    assert model(FedKT(privacy=private(level, mechanism, scale))) == model(FedKT())


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_noise_changes_the_model(level: str) -> None:
    assert model(FedKT(privacy=private(level, scale=0.05))) != model(FedKT())


def test_l1_protects_nothing_from_the_server() -> None:
    """The students reach it unprotected; the noisy labels are public. Replacing a party of s students moves two counts by s."""
    found = record(FedKT(partitions=2, queries=30, privacy=private("L1", "laplace", 0.05)))
    assert found.epsilon["server"] == math.inf
    expected = best_epsilon([DpEvent(Laplace(0.05, "party", 2), 30, "replace", 3, 3, True)], 1e-5)[0]
    assert found.epsilon["public"] == found.epsilon["parties"] == expected
    [labels] = [row for row in found.ledger if row["what"] == "labels"]
    assert (labels["site"], labels["queries"], labels["sensitivity"]) == ("server", 30, 4.0)
    assert found.delta == 1e-5
    added = [
        f for f in found.privacy if (f["observer"], f["unit"], f["adjacency"]) == ("public", "party", "add-remove")
    ]
    assert added[0]["epsilon"] < expected


def test_at_l1_students_that_disagree_may_vote_too() -> None:
    """The s votes of a party move as one party's, whether they agree or not."""
    found = [record(FedKT(privacy=private("L1", "laplace", 0.05), consistent=c)).epsilon for c in (True, False)]
    assert found[0] == found[1]
    assert found[0]["public"] < math.inf


def test_l2_composes_all_partitions_and_takes_the_worst_party() -> None:
    found = record(FedKT(partitions=2, queries=30, privacy=private("L2", "gumbel", 0.05)))
    expected = best_epsilon([DpEvent(Gumbel(0.05, "example"), 60, "replace", 3, 5)], 1e-5)[0]
    assert found.epsilon == dict.fromkeys(("server", "parties", "public"), expected)
    noisy = [row for row in found.ledger if row["what"] == "labels"]
    assert [row["site"] for row in noisy] == ["party 0", "party 1", "party 2"]
    assert {row["queries"] for row in noisy} == {60}
    whole = [f for f in found.privacy if f["unit"] == "party"]
    assert all(f["epsilon"] == math.inf and f["accountant"] is None for f in whole)


def test_pate_with_noise_protects_examples_from_the_public_but_not_from_the_server() -> None:
    found = record(Pate(teachers=10, queries=30, privacy=private("L2", "gumbel", 0.05)))
    assert found.epsilon["server"] == math.inf
    assert found.epsilon["public"] == best_epsilon([DpEvent(Gumbel(0.05, "example"), 30, "replace", 3, 10)], 1e-5)[0]


def test_noise_is_calibrated_to_an_epsilon() -> None:
    found = record(FedKT(partitions=1, queries=30, privacy=Privacy("L1", epsilon=2.0)))
    assert 1.98 < found.epsilon["public"] <= 2.0


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_a_plan_names_the_releases_that_the_run_makes(level: str) -> None:
    algorithm = FedKT(partitions=2, queries=30, privacy=L0 if level == "L0" else private(level))
    planned = planned_releases(algorithm.disclosures, Facts(45, 3, 3), [30, 30, 30])
    made = [row for row in record(algorithm).ledger if row["mechanism"] != "post-processing"]
    assert [(p.site, p.what, p.mechanism, p.parameters, p.queries, p.voters, p.abstentions) for p in planned] == [
        tuple(row[k] for k in ("site", "what", "mechanism", "parameters", "queries", "voters", "abstentions"))
        for row in made
    ]


def silo(x: Any, y: Any) -> Silo:
    public = PublicRows(np.zeros((3, 2), np.float32))
    forest = model_from({"name": "random-forest", "n_estimators": 2})
    shared: dict[str, Any] = {"public": public, "classes": 2, "model": forest, "trainer": PoolTrainer(1)}
    return Silo(party=0, private=Rows(x, y), seed=3, private_level=True, **shared)


@pytest.mark.parametrize("changed", range(12))
def test_no_other_row_moves_when_one_is_replaced_or_removed(changed: int) -> None:
    """Brute force over every row of a small party: which teacher another row goes to never depends on this one."""
    x, y = np.random.default_rng(0).random((12, 2)).astype(np.float32), np.arange(12) % 2
    other = x.copy()
    other[changed] = 9
    replaced = [cut(silo(rows, y), 4, private("L2")) for rows in (x, other)]
    assert all(np.array_equal(a, b) for a, b in zip(*replaced, strict=True))
    without = np.delete(np.arange(12), changed)
    hashed = private("L2", adjacency="add-remove")
    whole, less = cut(silo(x, y), 4, hashed), cut(silo(x[without], y[without]), 4, hashed)
    assert [set(subset) - {changed} for subset in map(set, (s.tolist() for s in whole))] == [
        set(without[subset].tolist()) for subset in less
    ]


@pytest.mark.parametrize("removed", range(12))
def test_a_removed_row_changes_no_other_teachers_votes(removed: int) -> None:
    """12 rows and 10 teachers: most removals leave a teacher without rows; the others keep their seeds."""
    rng = np.random.default_rng(1)
    x, y = rng.random((12, 2)).astype(np.float32), np.arange(12) % 2
    asked, hashed = rng.random((40, 2)).astype(np.float32), private("L2", adjacency="add-remove")

    def votes(rows: Any) -> Any:
        """[partitions, teachers, rows] votes of a party with these rows."""
        party = silo(x[rows], y[rows])
        subsets = [own for partition in range(2) for own in cut(party, 10, hashed, partition)]
        own = party.private
        return np.stack(party.train([FitAndVote(party.model, own.x[r], own.y[r], asked) for r in subsets])).reshape(
            2, 10, 40
        )

    changed = (votes(np.arange(12)) != votes(np.delete(np.arange(12), removed))).any(axis=2).sum(axis=1)
    assert (changed <= 1).all()


def test_a_teacher_that_the_hash_leaves_without_rows_votes_all_the_same() -> None:
    """30 rows a party and 25 teachers: some hold none."""
    found = record(FedKT(subsets=25, partitions=1, privacy=private("L2", adjacency="add-remove")))
    added = [f for f in found.privacy if (f["observer"], f["unit"]) == ("server", "example")]
    assert {f["adjacency"]: math.isfinite(f["epsilon"]) for f in added} == {"replace": False, "add-remove": True}
    assert math.isfinite(found.epsilon["public"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Pate(privacy=private("L1")), "level L2"),
    ],
)
def test_wrong_combinations_are_reported(wrong: Any, message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        wrong()


def test_a_threshold_that_nothing_passes_is_reported() -> None:
    with pytest.raises(LimbeckError, match=r"no row has a label .with confident-gaussian, lower the threshold"):
        record(FedKT(privacy=private("L1", "confident-gaussian", 0.5, threshold=1e6)))
