"""FedKT against its own pseudo-code, written out by hand, and its degenerate cases."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.algorithms.questions import Said, Say
from limbeck.checks import small_federation
from limbeck.data.draw import Draw, cut
from limbeck.data.sets import load
from limbeck.data.splits import Iid
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.experiments.run import run
from limbeck.models.jobs import Fit
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.mechanisms import Unprotected
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
    """Algorithm 1, line by line, with the site's streams of chance but none of its machinery."""
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
    federation = small_federation(FedKT.paper(partitions=s, subsets=t, consistent=consistent))
    assert outcome(federation) == by_hand(federation, s, t, consistent)


def test_with_one_partition_consistent_voting_changes_nothing() -> None:
    on, off = (outcome(small_federation(FedKT.paper(partitions=1, consistent=c))) for c in (True, False))
    assert on == off


def test_queries_are_a_prefix_given_as_number_or_share() -> None:
    """0.5 of 45 public rows are 22."""
    assert outcome(small_federation(FedKT.paper(queries=0.5))) == outcome(small_federation(FedKT.paper(queries=22)))
    assert outcome(small_federation(FedKT.paper(queries=45))) == outcome(small_federation(FedKT.paper()))


@pytest.mark.parametrize(
    "wrong", [{"partitions": 0}, {"subsets": -1}, {"queries": 0}, {"queries": 1.5}, {"queries": -0.1}]
)
def test_wrong_parameters_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(LimbeckError, match=next(iter(wrong))):
        FedKT.paper(**wrong)


def test_more_queries_than_public_rows_are_told() -> None:
    with pytest.raises(LimbeckError, match="queries = 46, but there are 45 public rows"):
        outcome(small_federation(FedKT.paper(queries=46)))


def test_more_subsets_than_rows_names_the_smallest_party_and_what_fits() -> None:
    rng = np.random.default_rng(0)
    sizes = (30, 8, 6)
    parties = [(rng.random((n, 2)), np.arange(n) % 2) for n in sizes]
    fitted: list[int] = []

    def watch(results: object, total: int) -> object:
        fitted.append(total)
        return results

    with pytest.raises(LimbeckError, match=r"party 2 holds 6 rows, too few for 10 subsets: subsets = 6 would fit"):
        run(FedKT.paper(subsets=10), parties, public=rng.random((9, 2)), models="naive-bayes", watch=watch)  # type: ignore[arg-type]
    assert fitted == []


def test_a_class_that_one_party_alone_holds_and_a_party_of_one_class() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [4, 0], [0, 4]])

    def rows(labels: list[int]) -> tuple[Array, Array]:
        y = np.array(labels * 20)
        return centres[y] + rng.normal(scale=0.3, size=(len(y), 2)), y

    result = run(
        FedKT.paper(),
        parties=[rows([0, 1]), rows([0, 1, 2]), rows([2])],
        public=rows([0, 1, 2])[0],
        test=rows([0, 1, 2]),
        models="logistic-regression",
    )
    assert result.model is not None
    assert result.accuracy == 1


@dataclass(frozen=True, slots=True)
class Lying(FedKT):
    """Parties 0 and 1 teach each label one class too high, and always agree with themselves; or vote so and miscount."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party < 2 and isinstance(request, Say):
            told: Any = FedKT.answer(self, request, silo)
            lie = Said(np.roll(told.votes, 1, axis=1), 1.0, told.belief, 1e9 * np.eye(silo.classes)[0])
            said: Reply = silo.release(lie, Unprotected(), observer="server")
            return said
        if silo.party > 1 or not isinstance(request, TrainStudents):
            return FedKT.answer(self, request, silo)
        [liar] = silo.train([Fit(silo.model, silo.private.x, (silo.private.y + 1) % silo.classes)])
        sent: Reply = silo.release(Students((liar,) * self.partitions), Unprotected(), observer="server")
        return sent


def ten_parties(algorithm: FedKT) -> Federation:
    data = load("digits")
    parts = cut(data, Draw(0.3), Draw(0.2), 0)
    held = Iid().deal(data.y[parts.private], {}, 10, stream(0, "split"))
    forest = model_from({"name": "random-forest", "n_estimators": 20})
    return replace(
        small_federation(algorithm),
        classes=np.array(data.classes),
        private=[data.rows(parts.private[rows]) for rows in held],
        models=[forest] * 10,
        server_model=forest,
        public=parts.public,
        test=parts.test,
    )


@pytest.mark.parametrize("votes", ["filtered", "median", "trimmed"])
def test_two_liars_of_ten_who_miscount_hardly_hurt_robust_votes_by_default(votes: Any) -> None:
    cases: list[tuple[type[FedKT], Any]] = [(Lying, votes), (FedKT, votes), (Lying, "count")]
    lied, honest, plain = (
        ten_parties(algorithm(partitions=1, subsets=2, consensus=rule)).run(PoolTrainer(1)).accuracy
        for algorithm, rule in cases
    )
    assert lied is not None
    assert honest is not None
    assert plain is not None
    assert lied > honest - 0.03
    assert plain < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("votes", ["filtered", "mean", "median", "trimmed"])
def test_two_liars_of_ten_hardly_hurt_robust_votes(votes: Any) -> None:
    how: dict[str, Any] = {"partitions": 2, "subsets": 3, "consensus": votes}
    lied, honest = (
        ten_parties(algorithm).run(PoolTrainer(1)) for algorithm in (Lying.paper(**how), FedKT.paper(**how))
    )
    assert lied.accuracy is not None
    assert honest.accuracy is not None
    assert lied.accuracy > honest.accuracy - 0.04
    if votes == "filtered":
        told = [f"party {party} agreed with the others too seldom and was left out" for party in (0, 1)]
        assert lied.record.remarks == tuple(told)
        assert honest.record.remarks == ()


@pytest.mark.slow
def test_filtered_votes_without_liars_are_counted_votes() -> None:
    how: dict[str, Any] = {"partitions": 2, "subsets": 3}
    ones, others = (
        ten_parties(FedKT.paper(**how, consensus=votes)).run(PoolTrainer(1)) for votes in ("count", "filtered")
    )
    assert ones.model is not None
    assert others.model is not None
    assert ones.model.onnx == others.model.onnx


def test_robust_votes_are_not_for_noise_on_counts() -> None:
    with pytest.raises(LimbeckError, match='level L1 noises counts: consensus = "count", not "median"'):
        FedKT.paper(consensus="median", privacy=Privacy(level="L1", epsilon=1.0))


@dataclass(frozen=True, slots=True)
class Crooked(FedKT):
    """Party 0 sends something else than its students."""

    sent: str = "many"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        reply = FedKT.answer(self, request, silo)
        if silo.party or not isinstance(reply, Students):
            return reply
        strange = {"many": reply.models * 50, "none": (), "noise": (b"\x08\x07",) * 2}[self.sent]
        told: Reply = silo.release(Students(strange), Unprotected(), observer="server")
        return told


@pytest.mark.parametrize("sent", ["many", "none", "noise"])
def test_a_party_that_sends_other_than_its_students_is_left_out(sent: str) -> None:
    made = small_federation(Crooked.paper(sent=sent))
    trainer = PoolTrainer(1)
    ran = InProcess(made.algorithm, *made.sites(trainer), trainer).run()
    assert ran.remarks == ("party 0 sent other than 2 students that vote and was left out",)
    silent = small_federation(FedKT.paper())
    assert ran.model == InProcess(FedKT.paper(), *silent.sites(trainer), trainer, silent=[0]).run().model
