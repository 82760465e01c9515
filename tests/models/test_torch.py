"""Networks as models: seeded, one thread, every loss; packed and native votes agree."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from factories import small_network
from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.descent import LOSSES, train
from limbeck.models.device import CPU
from limbeck.models.jobs import Fit
from limbeck.models.named import adapted, model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.models.schedule import ABSENT, BatchSchedule
from limbeck.models.torch import FittedTorch, TorchModel, alone, load_weights, on
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

DIGITS = load("digits")
X, Y = DIGITS.x[:600], DIGITS.y[:600]


def fitted(recipe: Recipe, seed: int = 0, y: Array = Y) -> FittedTorch:
    model = TorchModel(small_network, recipe).fit(X, y, 10, seed)
    assert isinstance(model, FittedTorch)
    return model


def test_it_learns_and_its_packed_self_votes_alike_before_and_after_packing() -> None:
    model = fitted(Recipe(epochs=8))
    before = model.vote(X)
    packed = PackedModel(model.pack())
    assert np.array_equal(packed.vote(X), before)
    assert np.array_equal(model.vote(X), before)
    assert np.allclose(packed.scores(X), model.scores(X), atol=1e-5)
    assert (packed.vote(DIGITS.x[600:]) == DIGITS.y[600:]).mean() > 0.85
    assert packed.has_probabilities


def test_the_same_seed_gives_the_same_bytes_in_any_process() -> None:
    jobs = [Fit(TorchModel(small_network, Recipe(epochs=1)), X, Y)] * 2
    one, two = (PoolTrainer(processes).run(jobs, 10, [3, 4]) for processes in (1, 2))
    assert one == two
    assert one[0] != one[1]


def test_random_state_and_threads_outside_stay_as_they_were() -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    fitted(Recipe(epochs=1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_module_starts_anew_for_every_fit() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    model = adapted(module)
    assert isinstance(model, TorchModel)
    first, second = (model.fit(X, Y, 10, seed).pack() for seed in (0, 1))
    assert first != second
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_brings_a_student_near_its_teacher(loss: str) -> None:
    teacher = fitted(Recipe(epochs=10))
    targets: dict[str, Array] = {"cross-entropy": teacher.vote(X), "soft-cross-entropy": teacher.scores(X)}
    targets["binary-cross-entropy"] = np.eye(10, dtype=np.int8)[teacher.vote(X)]
    recipe = Recipe(epochs=25, loss=loss, temperature=3.0, learning_rate=3e-3)  # type: ignore[arg-type]
    student = fitted(recipe, seed=5, y=targets.get(loss, teacher.logits(X)))
    assert (student.vote(X) == teacher.vote(X)).mean() > 0.9


def test_losses_are_the_textbooks() -> None:
    rng = torch.Generator().manual_seed(0)
    ours, theirs = torch.randn(5, 3, generator=rng), torch.randn(5, 3, generator=rng)
    p, q = torch.softmax(theirs / 2, 1), torch.softmax(ours / 2, 1)
    known = torch.tensor([[0, 1, -1]] * 5)
    log_share, log_rest = torch.sigmoid(ours).log(), (1 - torch.sigmoid(ours)).log()
    textbook = {
        "kl": (theirs, 2.0, 4 * (p * (p / q).log()).sum(1)),
        "mae": (theirs, 1.0, (ours - theirs).abs().mean(1)),
        "mse": (theirs, 1.0, ((ours - theirs) ** 2).mean(1)),
        "soft-cross-entropy": (p, 1.0, -(p * torch.log_softmax(ours, 1)).sum(1)),
        "binary-cross-entropy": (known, 1.0, -torch.where(known == 1, log_share, log_rest)[:, :2].mean(1)),
        "cross-entropy": (p.argmax(1), 1.0, -torch.log_softmax(ours, 1)[torch.arange(5), p.argmax(1)]),
    }
    for name, (targets, temperature, expected) in textbook.items():
        assert torch.allclose(LOSSES[name](ours, targets, temperature), expected, rtol=1e-5), name
    assert set(textbook) == set(LOSSES)


@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        ("sgd", lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-2)),
        ("adam", lambda net: torch.optim.Adam(net.parameters(), 0.1, weight_decay=1e-2)),
    ],
)
def test_training_is_the_plain_loop(optimizer: Any, make: Any) -> None:
    """Two epochs with decay and a cosine, against torch's own optimizers and schedule."""
    recipe = Recipe(
        epochs=2,
        batch=16,
        optimizer=optimizer,
        learning_rate=0.1,
        weight_decay=1e-2,
        schedule="cosine",
    )
    x, y = on(CPU, X[:40], Y[:40])
    with alone(7):
        ours = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        plain = copy.deepcopy(ours)
    train(ours, x, y, recipe, 7, CPU)
    steps = BatchSchedule(40, recipe, 7)
    torchs = make(plain)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(torchs, 2)
    for epoch in range(2):
        for batch in steps.epoch(epoch):
            rows = torch.from_numpy(batch[batch != ABSENT])
            torchs.zero_grad()
            nn.functional.cross_entropy(plain(x[rows]), y[rows]).backward()
            torchs.step()
        schedule.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_early_stopping_keeps_the_best_epoch_of_rows_it_did_not_train_on() -> None:
    """Labels are noise: the best held-out loss comes early, so patience must stop training short."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 10, 600)
    steps: list[int] = []

    class Counting(nn.Sequential):
        def forward(self, x: Any) -> Any:
            steps.append(len(x)) if self.training else None
            return nn.Sequential.forward(self, x)  # type: ignore[no-untyped-call]

    recipe = Recipe(epochs=60, patience=2, held_out=0.5, learning_rate=1e-2)
    TorchModel(lambda shape, classes: Counting(nn.Flatten(), nn.Linear(64, classes)), recipe).fit(X, noise, 10, 0)
    assert sum(steps) % 300 == 0
    assert sum(steps) < 60 * 300


def test_one_class_makes_a_constant_and_one_row_left_over_is_survived() -> None:
    assert TorchModel(small_network).fit(X, np.full(600, 4), 10, 0) == Constant(4, 10, 64)
    TorchModel(small_network, Recipe(epochs=1, batch=599)).fit(X, Y, 10, 0)


def test_channels_come_first() -> None:
    for stored, wanted in (((5, 6), (1, 5, 6)), ((5, 6, 3), (3, 5, 6)), ((7,), (7,))):
        assert on(CPU, np.zeros((2, *stored), np.float32))[0].shape == (2, *wanted)


def test_weights_travel_as_safetensors() -> None:
    one, other = fitted(Recipe(epochs=1)), fitted(Recipe(epochs=1), seed=1)
    assert not np.array_equal(one.logits(X), other.logits(X))
    load_weights(other.network, one.weights())
    assert np.array_equal(one.logits(X), other.logits(X))


def test_single_rows_train_too() -> None:
    """Only a single row left over at the end of an epoch is passed over."""
    model = TorchModel(
        lambda shape, classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes)), Recipe(epochs=2, batch=1)
    )
    assert (model.fit(X, Y, 10, 0).vote(X) == Y).mean() > 0.8


def test_what_would_pass_unseen_is_refused() -> None:
    with pytest.raises(LimbeckError, match="'kl' needs a target for each class"):
        TorchModel(small_network, Recipe(loss="kl")).fit(X, Y, 10, 0)
    with pytest.raises(LimbeckError, match=r"gives outputs of shape \(10,\) for 12 classes"):
        TorchModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10))).fit(X, Y, 12, 0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(LimbeckError, match="training diverged"):
        TorchModel(linear, Recipe(epochs=3, optimizer="sgd", learning_rate=1e38)).fit(X, Y, 10, 0)


def test_a_users_own_network_by_name() -> None:
    model = model_from({"name": "python:factories:small_network", "recipe": {"epochs": 2}})
    assert isinstance(model, TorchModel)
    assert model.recipe.epochs == 2
    assert isinstance(adapted(small_network), TorchModel)
    with pytest.raises(LimbeckError, match="takes no recipe"):
        model_from({"name": "python:factories:small_tree", "recipe": {"epochs": 2}})
