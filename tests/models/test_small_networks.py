"""Small networks that train together: each has the result that it has alone, which is that of the plain loop."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.torch import load
from torch import nn

import limbeck as lb
from limbeck.engines.in_process import InProcess
from limbeck.experiments.federation import Federation
from limbeck.models.batched import MAX_WEIGHTS, chain_of
from limbeck.models.caching import Timed
from limbeck.models.descent import LOSSES
from limbeck.models.jobs import Fit, FitAndVote, Refit
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.models.small_networks import train_small
from limbeck.models.trainers import Training, trainer_for
from limbeck.models.weights import continued, split_moments
from limbeck.protocol.learning import Failure, FitError, Guarded, J, Job
from limbeck.protocol.rows import Rows

CLASSES = 3


def one_layer(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(shape[0], classes)


def three_layers(shape: tuple[int, ...], classes: int) -> nn.Module:
    hidden = nn.Sequential(nn.Linear(shape[0], 9), nn.ReLU(), nn.Linear(9, 5, bias=False), nn.ReLU())
    return nn.Sequential(nn.Flatten(), hidden, nn.Linear(5, classes))


def jobs_of(model: Any, count: int = 12, start: bytes | None = None, kind: Any = Refit) -> list[Any]:
    rng = np.random.default_rng(1)
    rows = [1, 2, 33, *rng.integers(3, 70, count - 3)]
    data = [(rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, CLASSES, n)) for n in rows]
    return [kind(model, x, y, start) if kind is Refit else kind(model, x, y) for x, y in data]


def first_of(model: Any) -> bytes:
    return bytes(model.first_weights((6,), CLASSES, 0))


RECIPES = [
    lb.Recipe(epochs=3, batch=32),
    lb.Recipe(epochs=2, batch=5, optimizer="sgd", learning_rate=0.05),
    lb.Recipe(epochs=2, batch=7, optimizer="sgd", momentum=0.0, schedule="cosine"),
    lb.Recipe(epochs=2, batch=16, weight_decay=0.01, proximal=0.1, schedule="cosine"),
]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("build", [one_layer, three_layers])
def test_a_network_has_the_result_that_it_has_alone(build: Any, recipe: lb.Recipe) -> None:
    model = lb.TorchModel(build, recipe)
    jobs = jobs_of(model, start=first_of(model))
    together = train_small(jobs, CLASSES, range(len(jobs)))
    assert sorted(together) == list(range(len(jobs)))
    for number, job in enumerate(jobs):
        assert train_small([job], CLASSES, [number]) == {0: together[number]}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("build", [one_layer, three_layers])
def test_the_result_is_that_of_the_plain_loop(build: Any, recipe: lb.Recipe) -> None:
    model = lb.TorchModel(build, recipe)
    jobs = jobs_of(model, start=first_of(model))
    for number, found in train_small(jobs, CLASSES, range(len(jobs))).items():
        expected = load(jobs[number].run(CLASSES, number))
        assert all(np.allclose(load(found)[name], values, atol=1e-4) for name, values in expected.items())


def test_rows_of_one_network_change_no_digit_of_another() -> None:
    model = lb.TorchModel(three_layers, RECIPES[0])
    jobs = jobs_of(model, start=first_of(model))
    before = train_small(jobs, CLASSES, range(len(jobs)))
    other = [Refit(model, np.full((64, 6), np.inf, np.float32), np.arange(64) % 3, jobs[0].start), *jobs[1:]]
    after = train_small([Guarded(job) for job in other], CLASSES, range(len(jobs)))
    assert isinstance(after[0], Failure)
    assert all(after[number] == before[number] for number in range(1, len(jobs)))


def test_moments_continue() -> None:
    model = lb.TorchModel(three_layers, RECIPES[0])
    [job] = jobs_of(model, count=4, start=continued(first_of(model), None))[3:]
    for _ in range(2):
        found, expected = train_small([job], CLASSES, [4])[0], job.run(CLASSES, 4)
        assert load(found).keys() == load(expected).keys()
        assert all(np.allclose(load(found)[name], values, atol=1e-4) for name, values in load(expected).items())
        job = Refit(model, job.rows, job.targets, continued(*split_moments(found)))


def test_correction_and_sample_weights_count() -> None:
    model = lb.TorchModel(one_layer, RECIPES[1])
    start = first_of(model)
    for job in jobs_of(model, start=start)[3:6]:
        weighted = Refit(model, job.rows, job.targets, start, None, start, np.arange(len(job.rows)) % 3 / 2)
        found, expected = (load(each) for each in (train_small([weighted], CLASSES, [1])[0], weighted.run(CLASSES, 1)))
        assert all(np.allclose(found[name], values, atol=1e-5) for name, values in expected.items())
        assert not np.allclose(found["weight"], load(train_small([job], CLASSES, [1])[0])["weight"], atol=1e-5)


def test_packed_models_and_votes() -> None:
    model = lb.TorchModel(three_layers, lb.Recipe(epochs=1))
    fits = jobs_of(model, kind=Fit)[3:]
    votes = [FitAndVote(model, job.rows, job.targets, job.rows[:5]) for job in fits]
    packed, voted = (train_small(jobs, CLASSES, range(len(jobs))) for jobs in (fits, votes))
    for number, job in enumerate(fits):
        assert (PackedModel(packed[number]).vote(job.rows[:5]) == voted[number]).all()


def test_a_failure_is_its_owners() -> None:
    model = lb.TorchModel(one_layer, RECIPES[0])
    jobs = jobs_of(model, start=first_of(model))
    jobs[5] = Refit(model, np.full((40, 6), np.inf, np.float32), np.arange(40) % 3, jobs[5].start)
    with pytest.raises(FitError, match="training diverged") as error:
        train_small(jobs, CLASSES, range(len(jobs)))
    assert error.value.index == 5


def test_time_is_shared_by_steps() -> None:
    model = lb.TorchModel(one_layer, RECIPES[0])
    found = train_small([Timed(job) for job in jobs_of(model, start=first_of(model))], CLASSES, range(12))
    assert all(seconds > 0 for _, seconds in found.values())


def test_other_jobs_are_left_to_others() -> None:
    wide = lb.TorchModel(lambda shape, classes: nn.Linear(shape[0], classes), lb.Recipe(patience=2))
    dropout = lb.TorchModel(lambda shape, classes: nn.Sequential(nn.Linear(shape[0], classes), nn.Dropout(0.5)))
    rows, labels = np.zeros((8, 6), np.float32), np.arange(8) % 3
    linear = lb.TorchModel(one_layer)
    one_class, no_rows = Fit(linear, rows, np.zeros(8, int)), Fit(linear, rows[:0], labels[:0])
    wrong = Refit(linear, rows, labels, lb.TorchModel(three_layers).first_weights((6,), CLASSES, 0))
    others = [Fit(wide, rows, labels), Fit(dropout, rows, labels), one_class, no_rows, wrong]
    assert train_small(others, CLASSES, range(5)) == {}
    assert chain_of(nn.Linear(MAX_WEIGHTS, 1)) is None
    assert chain_of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) is None
    twice, hooked, frozen = (nn.Linear(2, 2) for _ in range(3))
    assert chain_of(nn.Sequential(twice, nn.ReLU(), nn.Linear(2, 2), twice)) is None
    assert chain_of(nn.Sequential(twice, nn.ReLU(), twice)) is None
    hooked.register_forward_hook(lambda layer, given, found: 2 * found)
    frozen.bias.requires_grad_(False)
    assert [chain_of(layer) for layer in (hooked, frozen)] == [None, None]


def test_the_pool_trains_them_unless_noise_is_real_or_the_user_asks_for_the_pool() -> None:
    model = lb.TorchModel(one_layer, RECIPES[0])
    jobs = jobs_of(model, start=first_of(model))
    seeds = range(len(jobs))
    together = train_small(jobs, CLASSES, seeds)
    cpu = Training(device="cpu")
    assert trainer_for(cpu, [model], 1).run(jobs, CLASSES, seeds) == list(together.values())
    alone = [job.run(CLASSES, seed) for job, seed in zip(jobs, seeds, strict=True)]
    assert trainer_for(cpu, [model], 1, isolated=True).run(jobs, CLASSES, seeds) == alone
    assert trainer_for(Training(trainer="pool"), [model], 1).run(jobs, CLASSES, seeds) == alone
    assert PoolTrainer(1).run(jobs, CLASSES, seeds) == alone


class OneByOne:
    """Trainer that runs each job by itself, as a party does that is elsewhere."""

    description: ClassVar[dict[str, Any]] = {}

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
        trainer = PoolTrainer(1, together=True)
        return [trainer.run([job], classes, [seed])[0] for job, seed in zip(jobs, seeds, strict=True)]


def test_a_run_has_the_result_that_it_has_with_parties_elsewhere() -> None:
    model = lb.TorchModel(three_layers, RECIPES[0])
    rows = [Rows(job.rows, job.targets) for job in jobs_of(model, start=first_of(model))]
    federation = Federation(
        algorithm=lb.FedAvg(rounds=3, local=RECIPES[0]),
        seed=0,
        classes=np.arange(CLASSES),
        private=rows,
        public=rows[3],
        models=[model] * len(rows),
        server_model=model,
        config={},
    )

    def final(trainer: Any) -> bytes | None:
        return InProcess(federation.algorithm, *federation.sites(trainer), trainer).run().model

    together, elsewhere = (final(trainer) for trainer in (PoolTrainer(1, together=True), OneByOne()))
    assert together == elsewhere != final(PoolTrainer(1))


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"cross-entropy", "binary-cross-entropy"}))
def test_every_loss_gives_the_same_bits_alone_and_together(loss: Any) -> None:
    """Odd numbers of rows and classes: torch rounds some functions by the position of a value."""
    rng, classes = np.random.default_rng(0), 3
    model = lb.TorchModel(three_layers, lb.Recipe(epochs=3, batch=7, loss=loss))
    rows = [rng.random((size, 5), dtype=np.float32) for size in (3, 9, 17, 5, 26)]
    jobs = [Refit(model, x, rng.dirichlet(np.ones(classes), len(x)).astype(np.float32), None) for x in rows]
    together = train_small(jobs, classes, range(len(jobs)))
    assert len(together) == len(jobs)
    for number, job in enumerate(jobs):
        assert train_small([job], classes, [number])[0] == together[number]


def test_networks_for_several_labels_do_not_train_together() -> None:
    """Their loss is rounded by the position of a value."""
    rng = np.random.default_rng(0)
    labels = lb.TorchModel(one_layer, lb.Recipe(epochs=1, batch=7), task="multilabel")
    job = Refit(labels, rng.random((9, 5), dtype=np.float32), (rng.random((9, 3)) < 0.5).astype(np.float32), None)
    assert train_small([job], 3, [0]) == {}
