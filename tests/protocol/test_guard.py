"""The guard: a training that fails at a private level gives a substitute, and costs what success would."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.models.caching import CachingTrainer
from limbeck.models.jobs import Fit, FitAndScore, FitAndVote, ForwardPass, Pack, PredictPacked, Refit, answers
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.protocol.learning import Trainer
from limbeck.protocol.rows import PublicRows
from limbeck.protocol.site import Silo
from private_levels import LEVELS, ordinary, run_party

KNN = model_from({"name": "knn"})
NETWORK: Any = model_from({"name": "torch-mlp", "hidden": [4], "recipe": {"epochs": 1}})
PUBLIC = ordinary(4, (2,), 2).x
FEW = ordinary(2)


def silo(private_level: bool = True, trainer: Trainer | None = None) -> Silo:
    return Silo(
        party=0,
        private=ordinary(),
        public=PublicRows(PUBLIC),
        classes=3,
        model=KNN,
        seed=0,
        trainer=trainer or PoolTrainer(1),
        private_level=private_level,
    )


TRAINERS = [lambda: PoolTrainer(1), SequentialTrainer, lambda: CachingTrainer(PoolTrainer(1))]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_teacher_that_fails_votes_for_the_class_of_its_number(trainer: Any) -> None:
    good = FitAndVote(model_from({"name": "decision-tree"}), FEW.x, FEW.y, PUBLIC)
    failing = FitAndVote(KNN, FEW.x, FEW.y, PUBLIC)
    empty = FitAndVote(KNN, FEW.x[:0], FEW.y[:0], PUBLIC)
    diverging = FitAndVote(NETWORK, FEW.x * np.float32(1e30), FEW.y, PUBLIC)
    found = silo(trainer=trainer()).train([failing, good, empty, failing, diverging])
    assert [votes.tolist() for votes in found[::2]] == [[0] * 4, [2] * 4, [1] * 4]
    assert found[3].tolist() == [0] * 4
    assert np.array_equal(found[1], silo(False).train([good, good])[1])


def test_a_failing_job_changes_no_other() -> None:
    """The same seeds, whoever fails beside."""
    forest = model_from({"name": "random-forest", "n_estimators": 3})
    jobs = [FitAndScore(forest, ordinary().x, ordinary().y, PUBLIC) for _ in range(3)]
    whole = silo().train(jobs)
    beside = silo().train([jobs[0], FitAndScore(KNN, FEW.x, FEW.y, PUBLIC), jobs[2]])
    assert np.array_equal(whole[0], beside[0])
    assert np.array_equal(whole[2], beside[2])


def test_substitutes_have_the_usual_kind_and_shape() -> None:
    start = NETWORK.first_weights((2,), 3, 0)
    failing: list[Any] = [
        FitAndScore(KNN, FEW.x, FEW.y, PUBLIC),
        Fit(KNN, FEW.x, FEW.y),
        Refit(NETWORK, FEW.x * np.float32(1e30), FEW.y, start),
        Pack(NETWORK, b"no weights", (2,)),
        ForwardPass(NETWORK, b"no weights", PUBLIC),
        PredictPacked(b"no model", PUBLIC),
    ]
    scores, model, weights, packed, logits, asked = silo().train(failing)
    assert scores.shape == logits.shape == asked.shape == (4, 3)
    assert answers(model, PUBLIC, 3)
    assert answers(packed, PUBLIC, 3)
    assert weights == start, "a network that fails keeps the weights that it started from"


@dataclass(frozen=True, slots=True)
class Wrong(FitAndVote):
    """Votes for a class that there is not."""

    def run(self, classes: int, seed: int) -> Any:
        return np.full(len(self.asked), classes)


def test_a_result_of_another_kind_is_replaced_too() -> None:
    [votes] = silo().train([Wrong(KNN, FEW.x, FEW.y, PUBLIC)])
    assert votes.tolist() == [0] * 4


def test_what_failed_is_reported_in_the_local_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "limbeck"):
        silo().train([FitAndVote(KNN, FEW.x, FEW.y, PUBLIC)] * 2)
    assert "party 0: 2 of 2 trainings were replaced by substitutes: cannot fit knn to 2 rows" in caplog.text


def test_without_privacy_a_failure_is_an_error() -> None:
    with pytest.raises(LimbeckError, match="party 0: cannot fit knn to 2 rows"):
        silo(False).train([FitAndVote(KNN, FEW.x, FEW.y, PUBLIC)])


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "pate-L2"])
def test_the_ledger_is_written_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    before: list[int] = []
    plain = Silo._fit

    def watched(self: Silo, jobs: Any, seeds: Any) -> Any:
        if self.party == 0:
            before.append(len(self.ledger.rows))
        return plain(self, jobs, seeds)

    monkeypatch.setattr(Silo, "_fit", watched)
    run_party(monkeypatch, LEVELS[level], ordinary(), {"name": "decision-tree"})
    assert before
    assert min(before) > 0


def test_rows_are_cut_by_a_secret_and_the_run_and_by_no_seed() -> None:
    def order(secret: bytes | None, run: str = "run", seed: int = 0, party: int = 0) -> list[int]:
        made = silo()
        made.secret, made.run, made.seed, made.party = secret, run, seed, party
        made.begin(0)
        return [int(row) for row in made.hidden_order("cut 0", 30)]

    secret = bytes(range(32))
    assert order(secret) == order(secret, seed=9), "the server's seed decides nothing"
    assert sorted(order(secret)) == list(range(30))
    assert (
        len({tuple(o) for o in (order(secret), order(secret, "other"), order(b"x" * 32), order(secret, party=1))}) == 4
    )
    assert order(None) != order(None, seed=9), "in a simulation the seed decides"
