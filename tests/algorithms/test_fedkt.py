"""FedKT against its own pseudo-code, written out by hand, and its degenerate cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.checks import small_federation
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.experiments.run import run
from limbeck.models.jobs import Fit
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo
from limbeck.protocol.streams import stream


def outcome(federation: Federation) -> bytes:
    trainer = PoolTrainer(1)
    model = InProcess(federation.algorithm, *federation.sites(trainer), trainer).run().model
    assert model is not None
    return model


def by_hand(federation: Federation, s: int, t: int, consistent: bool) -> bytes:
    """Algorithm 1, line by line, with the site's random streams but none of its machinery."""
    assert federation.public is not None
    public, classes = federation.public.x, len(federation.classes)
    students: list[list[Array]] = []
    for party, (rows, model) in enumerate(zip(federation.private, federation.models, strict=True)):
        rng = stream(federation.seed, "party", party, 0)
        cuts = [subset for _ in range(s) for subset in np.array_split(rng.permutation(len(rows)), t)]
        seeds = iter(stream(federation.seed, "party", party, 0, "train", 0).integers(2**31, size=s * t).tolist())
        votes = [model.fit(rows.x[cut], rows.y[cut], classes, next(seeds)).vote(public) for cut in cuts]
        student_seeds = stream(federation.seed, "party", party, 0, "train", 1).integers(2**31, size=s).tolist()
        students.append([])
        for j in range(s):
            counts = np.array([np.bincount(row, minlength=classes) for row in np.array(votes[j * t : (j + 1) * t]).T])
            student = model.fit(public, counts.argmax(axis=1), classes, student_seeds[j])
            students[-1].append(PackedModel(student.pack()).vote(public))
    final = np.zeros((len(public), classes), int)
    for mine in students:
        for row, labels in enumerate(np.array(mine).T):
            counts = np.bincount(labels, minlength=classes)
            final[row] += np.where(counts == s, s, 0) if consistent else counts
    seed = int(stream(federation.seed, "server", 1, "train", 0).integers(2**31, size=1)[0])
    return federation.server_model.fit(public, final.argmax(axis=1), classes, seed).pack()


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize(("s", "t"), [(1, 1), (2, 5), (3, 2)])
def test_it_is_the_papers_algorithm(s: int, t: int, consistent: bool) -> None:
    federation = small_federation(FedKT(partitions=s, subsets=t, consistent=consistent))
    assert outcome(federation) == by_hand(federation, s, t, consistent)


def test_with_one_partition_consistent_voting_changes_nothing() -> None:
    on, off = (outcome(small_federation(FedKT(partitions=1, consistent=c))) for c in (True, False))
    assert on == off


def test_queries_are_a_prefix_given_as_number_or_share() -> None:
    """0.5 of 45 public rows are 22."""
    assert outcome(small_federation(FedKT(queries=0.5))) == outcome(small_federation(FedKT(queries=22)))
    assert outcome(small_federation(FedKT(queries=45))) == outcome(small_federation(FedKT()))


@pytest.mark.parametrize(
    "wrong", [{"partitions": 0}, {"subsets": -1}, {"queries": 0}, {"queries": 1.5}, {"queries": -0.1}]
)
def test_wrong_parameters_are_reported(wrong: dict[str, Any]) -> None:
    with pytest.raises(LimbeckError, match=next(iter(wrong))):
        FedKT(**wrong)


def test_more_queries_than_public_rows_are_reported() -> None:
    with pytest.raises(LimbeckError, match="queries = 46, but there are 45 public rows"):
        outcome(small_federation(FedKT(queries=46)))


def test_more_subsets_than_rows_names_the_smallest_party_and_what_fits() -> None:
    rng = np.random.default_rng(0)
    sizes = (30, 8, 6)
    parties = [(rng.random((n, 2)), np.arange(n) % 2) for n in sizes]
    fitted: list[int] = []

    def watch(results: object, total: int) -> object:
        fitted.append(total)
        return results

    with pytest.raises(
        LimbeckError, match=r"algorithm.subsets: a party has 6 rows, fewer than 10 subsets; use at most 6"
    ):
        run(FedKT(subsets=10), parties, public=rng.random((9, 2)), models="naive-bayes", watch=watch)  # type: ignore[arg-type]
    assert fitted == []


def test_a_class_that_one_party_alone_holds_and_a_party_of_one_class() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [4, 0], [0, 4]])

    def rows(labels: list[int]) -> tuple[Array, Array]:
        y = np.array(labels * 20)
        return centers[y] + rng.normal(scale=0.3, size=(len(y), 2)), y

    result = run(
        FedKT(),
        parties=[rows([0, 1]), rows([0, 1, 2]), rows([2])],
        public=rows([0, 1, 2])[0],
        test=rows([0, 1, 2]),
        models="logistic-regression",
    )
    assert result.model is not None
    assert result.accuracy == 1


@dataclass(frozen=True, slots=True)
class Unexpected(FedKT):
    """Party 0 sends something else than its students."""

    sent: str = "many"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party or not isinstance(request, TrainStudents):
            return FedKT.answer(self, request, silo)
        [own] = silo.train([Fit(silo.model, silo.private.x, silo.private.y)])
        sent = {"many": (own,) * 50, "none": (), "no model": (b"\x08\x07",) * self.partitions}[self.sent]
        return silo.disclose("students", Students(sent))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [("many", "50 students, not 2"), ("none", "0 students, not 2"), ("no model", "not a usable ONNX model")],
)
def test_a_reply_of_something_else_than_students_counts_as_silence(sent: str, reason: str) -> None:
    record = small_federation(Unexpected(sent=sent)).run(PoolTrainer(1)).record
    assert len(record.remarks) == 1
    assert record.remarks[0].startswith("request 0: party 0: ")
    assert reason in record.remarks[0]
    assert record.missing == (0,)
    made, trainer = small_federation(FedKT()), PoolTrainer(1)
    silent = InProcess(made.algorithm, *made.sites(trainer), trainer, silent=[0]).run().model
    assert outcome(small_federation(Unexpected(sent=sent))) == silent
