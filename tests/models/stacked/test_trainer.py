"""The stacked trainer as trainers are used: mixed jobs, blame, splitting, checkpoints, what the record says."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch import nn

from factories import small_network
from limbeck.data.sets import load as load_set
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.models.caching import CachingTrainer
from limbeck.models.device import Device
from limbeck.models.jobs import Fit, FitAndVote, Refit
from limbeck.models.named import NETWORKS, TEXT_NETWORKS, model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.cuda import CudaError
from limbeck.models.stacked.lenet import LeNetStack
from limbeck.models.stacked.trainer import StackedTrainer, StackGroup, StackMember, useful_depth, values_of
from limbeck.models.torch import FittedTorch, TorchModel
from limbeck.protocol.learning import Failure, FitError, Guarded
from limbeck.protocol.recipe import Recipe

DIGITS = load_set("digits")
X, Y = DIGITS.x, DIGITS.y
MODEL = TorchModel(small_network, Recipe(epochs=3, batch=16))
SIZES = (40, 200, 90, 300)


def fits(model: Any = MODEL, sizes: tuple[int, ...] = SIZES) -> list[Fit]:
    return [Fit(model, X[i : i + size], Y[i : i + size]) for i, size in enumerate(sizes)]


def stacked(**settings: Any) -> StackedTrainer:
    return StackedTrainer(Device(), SequentialTrainer(), **settings)


def agreement(ones: list[bytes], others: list[bytes]) -> float:
    return float(np.mean([PackedModel(a).vote(X) == PackedModel(b).vote(X) for a, b in zip(ones, others, strict=True)]))


def test_models_votes_and_weights_are_those_of_the_sequential_trainer() -> None:
    first = MODEL.fit(X[:50], Y[:50], 10, 0)
    assert isinstance(first, FittedTorch)
    jobs: list[Any] = [
        *fits(),
        *(FitAndVote(fit.model, fit.rows, fit.targets, X[:100]) for fit in fits()),
        *(Refit(MODEL, fit.rows, fit.targets, first.weights(), Recipe(epochs=1)) for fit in fits()),
        Fit(model_from({"name": "decision-tree"}), X, Y),
        Fit(MODEL, X[:30], np.full(30, 7)),
        Guarded(FitAndVote(MODEL, X[:0], Y[:0], X[:5])),
        Refit(MODEL, X[:30], np.full(30, 7), first.weights()),
    ]
    seeds = list(range(len(jobs)))
    one, other = (trainer.run(jobs, 10, seeds) for trainer in (SequentialTrainer(), stacked()))
    assert agreement(one[:4], other[:4]) > 0.95
    assert np.mean([a == b for a, b in zip(one[4:8], other[4:8], strict=True)]) > 0.95
    for i in (8, 9, 10, 11, 15):
        pairs = [(value, load(other[i])[name]) for name, value in load(one[i]).items()]
        assert all(torch.allclose(a, b, atol=2e-2) for a, b in pairs)  # Adam makes steps of a rounded gradient, too
    assert one[12:15] == other[12:15]
    assert isinstance(one[14], Failure)


def test_results_do_not_depend_on_depth_or_company() -> None:
    whole = stacked().run(fits(), 10, [0, 1, 2, 3])
    narrow = stacked(most=1).run(fits(), 10, [0, 1, 2, 3])
    alone = [stacked().run([fit], 10, [seed])[0] for seed, fit in enumerate(fits())]
    assert agreement(whole, narrow) == agreement(whole, alone) == 1


def test_small_ones_do_not_wait_for_the_largest() -> None:
    """Slots for as long as the longest takes, and no more."""
    assert useful_depth([100] * 20) == 20
    assert useful_depth([1000, *[10] * 99]) == 2
    trainer = stacked()
    trainer.run(fits(sizes=(320, *[16] * 20)), 10, range(21))
    [note] = trainer.stacks
    assert (note["networks"], note["depth"], note["steps"], note["network_steps"]) == (21, 2, 60, 120)


def test_what_a_stack_reports_of_itself() -> None:
    trainer = stacked(why="because")
    other = TorchModel(lambda shape, classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes)), Recipe(epochs=1))
    trainer.run([*fits(), *fits(other)], 10, range(8))
    description = trainer.description
    assert {key: description[key] for key in ("trainer", "device", "precision", "why")} == {
        "trainer": "stacked",
        "device": "cpu",
        "precision": "float32",
        "why": "because",
    }
    assert [stack["networks"] for stack in description["stacks"]] == [4, 4]
    assert all(set(stack["seconds"]) == {"prepare", "train", "finish"} for stack in description["stacks"])


def test_a_stack_is_used_again() -> None:
    """Rounds of an algorithm: the program of the first serves them all."""
    trainer = stacked()
    one = trainer.run(fits(), 10, [0, 1, 2, 3])
    [first] = trainer._cached_stacks.values()
    assert trainer.run(fits(), 10, [0, 1, 2, 3]) == one
    assert list(trainer._cached_stacks.values()) == [first]


def test_a_stack_that_is_dropped_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all that was there has been frozen, as it is after a compilation."""
    monkeypatch.setattr("limbeck.models.stacked.trainer.MAX_CACHED_STACKS", 1)
    trainer = stacked()
    trainer.run(fits(), 10, range(4))
    [first] = map(weakref.ref, trainer._cached_stacks.values())
    gc.freeze()
    trainer.run(fits(TorchModel(partial(wide, 4), Recipe(epochs=1))), 10, range(4))
    assert first() is None


def test_a_network_that_cannot_be_stacked_is_trained_alone_and_the_record_reports_why() -> None:
    class Chancy(nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.linear = nn.Linear(64, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.linear(nn.functional.dropout(x.flatten(1), 0.1, self.training))
            return found

    trainer = stacked()
    model = TorchModel(lambda shape, classes: Chancy(classes), Recipe(epochs=2))
    with pytest.warns(LimbeckWarning, match="cannot be stacked"):
        results = trainer.run(fits(model), 10, range(4))
    assert results == SequentialTrainer().run(fits(model), 10, range(4))
    assert "vmap" in trainer.stacks[0]["not stacked"]


class Unusual(nn.Module):
    """A layer used twice under two names, a frozen one, a buffer of its own, and no batch norm."""

    shift: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = self.first
        self.frozen = nn.Linear(64, 16)
        self.frozen.requires_grad_(False)
        self.last = nn.Linear(16, classes)
        self.register_buffer("shift", torch.full((64,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x.flatten(1) - self.shift))
        found: torch.Tensor = self.last(torch.relu(self.frozen(torch.relu(self.second(x)))))
        return found


def unusual(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Unusual(classes)


@pytest.mark.parametrize("batch", [1, 16, 59])
def test_shared_and_frozen_layers_and_odd_batches_are_trained_as_they_are_alone(batch: int) -> None:
    model = TorchModel(unusual, Recipe(epochs=2, batch=batch, weight_decay=1e-2))
    jobs = fits(model, (60, 33))
    one, other = (trainer.run(jobs, 10, [0, 1]) for trainer in (SequentialTrainer(), stacked()))
    for a, b in zip(one, other, strict=True):
        assert np.allclose(PackedModel(a).scores(X), PackedModel(b).scores(X), atol=1e-4)
    trainer = stacked()
    trainer.run(jobs, 10, [0, 1])
    assert "not stacked" not in trainer.stacks[0]


class Views(nn.Sequential):
    """Takes a view of what a convolution gives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self[1](self[0](x).view(x.size(0), -1))
        return found


class Hidden(nn.Module):
    """Keeps numbers outside its state."""

    noise: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(64, classes)
        self.register_buffer("noise", torch.randn(64), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x.flatten(1) * self.noise)
        return found


class Counting(nn.Module):
    """Assigns to a buffer of its own, and drops out twice by one layer."""

    mean: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(64, classes), nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.dropout(x.flatten(1)))
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        found: torch.Tensor = self.linear(x - self.mean)
        return found


class OwnNorm(nn.BatchNorm1d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


STRANGE = {
    "buffers outside its state": lambda shape, classes: Hidden(classes),
    "the network changes its buffers": lambda shape, classes: Counting(classes),
    "1 changes its buffers": lambda shape, classes: nn.Sequential(nn.Flatten(), OwnNorm(64), nn.Linear(64, classes)),
}


@pytest.mark.parametrize("reason", STRANGE)
def test_what_a_stack_would_get_wrong_is_trained_alone(reason: str) -> None:
    model = TorchModel(STRANGE[reason], Recipe(epochs=2, batch=16))
    trainer = stacked()
    with pytest.warns(LimbeckWarning, match=reason):
        found = trainer.run(fits(model), 10, range(4))
    assert found == SequentialTrainer().run(fits(model), 10, range(4))
    fitted = [model.fit(X[:200], Y[:200], 10, seed) for seed in range(3)]
    for one in fitted:
        assert isinstance(one, FittedTorch)
        assert (PackedModel(one.pack()).vote(X) == one.vote(X)).mean() > 0.99


def test_batch_norm_over_single_rows_is_refused_as_it_is_alone() -> None:
    model = TorchModel(
        lambda shape, classes: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, classes)),
        Recipe(epochs=1, batch=1),
    )
    with pytest.warns(LimbeckWarning), pytest.raises(FitError, match="more than 1 value per channel"):
        stacked().run(fits(model), 10, range(4))


def test_a_network_that_takes_views_is_trained_anywhere() -> None:
    model = TorchModel(lambda shape, classes: Views(nn.Conv2d(1, 4, 3), nn.Linear(144, classes)), Recipe(epochs=2))
    one, other = (trainer.run(fits(model), 10, range(4)) for trainer in (SequentialTrainer(), stacked()))
    assert agreement(one, other) > 0.99


def wide(width: int, shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))


def test_builders_with_other_arguments_build_other_networks() -> None:
    jobs = [Fit(TorchModel(partial(wide, width), Recipe(epochs=1)), X, Y) for width in (4, 16)]
    trainer = stacked()
    small, large = trainer.run(jobs, 10, [0, 1])
    assert len(large) > len(small)
    assert [stack["networks"] for stack in trainer.stacks] == [1, 1]


def shifted(shift: Any, shape: tuple[int, ...], classes: int) -> nn.Module:
    return wide(int(shift.sum() % 7) + 2, shape, classes)


def test_builders_whose_arguments_cannot_be_distinguished_are_not_stacked_together() -> None:
    """NumPy abbreviates what it prints of a long array."""
    ones = np.zeros(2000)
    others = ones.copy()
    others[1000] = 3
    jobs = [Fit(TorchModel(partial(shifted, shift), Recipe(epochs=1)), X, Y) for shift in (ones, others)]
    trainer = stacked()
    small, large = trainer.run(jobs, 10, [0, 1])
    assert len(large) > len(small)
    assert [stack["networks"] for stack in trainer.stacks] == [1, 1]
    assert jobs[0].model.code is None  # type: ignore[attr-defined]


def test_wrong_weights_to_start_from_and_wrong_rows_to_ask_are_blamed() -> None:
    other = TorchModel(partial(wide, 4)).fit(X[:50], Y[:50], 10, 0)
    assert isinstance(other, FittedTorch)
    jobs: list[Any] = [*fits(), Refit(MODEL, X[:60], Y[:60], other.weights())]
    with pytest.raises(FitError, match=r"cannot fit small_network to 60 rows: Error.* in loading") as failure:
        stacked().run(jobs, 10, range(5))
    assert failure.value.index == 4
    with pytest.raises(FitError, match="cannot fit small_network") as failure:
        stacked().run([*jobs[:4], FitAndVote(MODEL, X[:60], Y[:60], X[:5, :4])], 10, range(5))
    assert failure.value.index == 4


def test_the_right_job_is_blamed() -> None:
    wild = replace(MODEL, recipe=Recipe(epochs=3, optimizer="sgd", learning_rate=1e30))
    trainer = stacked()
    with pytest.raises(FitError, match="cannot fit small_network to 40 rows: training diverged") as failure:
        trainer.run([*fits(sizes=(60, 70)), *fits(wild, (40,))], 10, [0, 1, 2])
    assert failure.value.index == 2
    with pytest.raises(FitError, match="'kl' needs a target for each class") as failure:
        trainer.run([*fits(), Fit(MODEL, X, Y, Recipe(loss="kl"))], 10, range(5))
    assert failure.value.index == 4
    bad = Fit(model_from({"name": "python:factories:small_tree", "depth": -1}), X, Y)
    with pytest.raises(FitError, match="small_tree") as failure:
        trainer.run([*fits(), bad], 10, range(5))
    assert failure.value.index == 4


def test_progress_is_reported_evenly() -> None:
    ticks: list[Any] = []

    def watch(results: Any, total: int) -> Any:
        ticks.append(total)
        for result in results:
            ticks.append(result)
            yield result

    stacked(watch=watch).run(fits(), 10, range(4))
    assert ticks == [4, 0, 1, 2, 3]


def test_shared_fits_are_stacked_and_report_their_share_of_the_time() -> None:
    trainer = stacked()
    shared = CachingTrainer(trainer)
    one = shared.run(fits(), 10, range(4))
    assert one == stacked().run(fits(), 10, range(4))
    assert shared.seconds == pytest.approx(trainer.stacks[0]["seconds"]["train"])


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from limbeck.data.sets import load
from limbeck.models.named import model_from
from limbeck.models.device import Device
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.jobs import Fit

digits = load("digits")
model = model_from({"name": "torch-mlp", "dropout": 0.2, "recipe": {"epochs": int(sys.argv[2]), "batch": 8, "patience": 40}})
jobs = [Fit(model, digits.x[i : i + n], digits.y[i : i + n]) for i, n in enumerate((100, 250, 170))]
kept = Checkpoints(Path(sys.argv[1]), every=0.2)
trainer = StackedTrainer(Device(), SequentialTrainer(), checkpoints=kept)
models = trainer.run(jobs, 10, [0, 1, 2])
print(trainer.stacks[0]["seconds"]["train"])
Path(sys.argv[3]).write_bytes(b"".join(models))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killed_training_goes_on_elsewhere_with_the_same_result(tmp_path: Path, kills: int) -> None:
    """SIGKILL in the middle; the last part runs in a folder that was moved as to another machine."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def command(folder: Path, out: str) -> list[str]:
        return [sys.executable, str(program), str(folder), str(30 * kills), str(tmp_path / f"{out}.bin")]

    subprocess.run(command(tmp_path / "whole", "whole"), check=True, capture_output=True)
    folder = tmp_path / "part"
    for turn in range(kills):
        running = subprocess.Popen(command(folder, "never"))
        before = {file: file.stat().st_mtime_ns for file in folder.glob("*.safetensors")}
        deadline = time.monotonic() + 60
        while not any(file.stat().st_mtime_ns > before.get(file, 0) for file in folder.glob("*.safetensors")):
            assert running.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        folder = folder.rename(tmp_path / f"moved-{turn}")
    assert not (tmp_path / "never.bin").exists()
    subprocess.run(command(folder, "resumed"), check=True, capture_output=True)
    assert (tmp_path / "resumed.bin").read_bytes() == (tmp_path / "whole.bin").read_bytes()


def test_a_checkpoint_of_something_else_is_not_taken(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", every=0)
    first = stacked(checkpoints=checkpoints).run(fits(), 10, [0, 1, 2, 3])
    again = stacked(checkpoints=checkpoints)
    assert again.run(fits(), 10, [0, 1, 2, 3]) == first
    assert stacked(checkpoints=checkpoints).run(fits(), 10, [4, 5, 6, 7]) != first
    for file in (tmp_path / "kept").glob("*.safetensors"):
        file.write_bytes(b"nonsense")
    with pytest.raises(LimbeckError, match=r"safetensors is not a checkpoint; delete it"):
        stacked(checkpoints=checkpoints).run(fits(), 10, [0, 1, 2, 3])
    checkpoints.finish()
    assert not (tmp_path / "kept").exists()


def test_a_checkpoint_is_found_whatever_order_the_jobs_come_in(tmp_path: Path) -> None:
    """Parties hand in their jobs as their threads come."""
    checkpoints = Checkpoints(tmp_path / "kept", every=0)
    first = stacked(checkpoints=checkpoints).run(fits(), 10, [0, 1, 2, 3])
    again = stacked(checkpoints=checkpoints)
    assert again.run(fits()[::-1], 10, [3, 2, 1, 0])[::-1] == first
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_the_folder_of_checkpoints_is_the_users(tmp_path: Path) -> None:
    """Only files that this run wrote are removed, whatever folder was named; not even another run's."""
    folder = tmp_path / "mine"
    (folder / "letters").mkdir(parents=True)
    others = [folder / "thesis.txt", folder / "letters" / "one", folder / f"{'0' * 32}.safetensors"]
    for other in others:
        other.write_text("precious")
    checkpoints = Checkpoints(folder, every=0)
    stacked(checkpoints=checkpoints).run(fits(), 10, [0, 1, 2, 3])
    assert len(list(folder.iterdir())) == 4
    checkpoints.finish()
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(others)
    Checkpoints(folder).finish()
    assert all(other.read_text() == "precious" for other in others)


def test_a_checkpoint_of_other_code_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of the user's own is known by the Python files beside it, not by its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "changing.py"
    text = (Path(__file__).parents[2] / "factories.py").read_text()
    codes = set()
    for change in ("", "# something else\n"):
        source.write_text(text + change)
        model = model_from({"name": "python:changing:small_network", "recipe": {"epochs": 1}})
        codes.add(model.code)  # type: ignore[attr-defined]
    assert len(codes) == 2
    assert None not in codes
    assert MODEL.code is not None
    assert TorchModel(small_network).code == MODEL.code


@pytest.mark.parametrize("folder", ["a-file", "a-file/below"])
def test_checkpoints_that_can_have_no_folder_are_refused_before_anyone_trains(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a-file").write_text("mine")
    with pytest.raises(LimbeckError, match=r"training.checkpoint: .* cannot be a folder, because .*a-file is a file"):
        Checkpoints(tmp_path / folder)
    assert (tmp_path / "a-file").read_text() == "mine"


def test_a_network_without_a_name_states_that_it_keeps_no_checkpoints(tmp_path: Path) -> None:
    model = TorchModel(lambda shape, classes: small_network(shape, classes), Recipe(epochs=1))
    with pytest.warns(LimbeckWarning, match="saves no checkpoints"):
        stacked(checkpoints=Checkpoints(tmp_path / "kept", every=0)).run(fits(model), 10, range(4))
    assert not (tmp_path / "kept").exists()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_stack_that_does_not_fit_into_memory_is_split_and_reports_it() -> None:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(free - 3 * 2**30, dtype=torch.uint8, device="cuda")
    model = model_from({"name": "resnet-8", "recipe": {"epochs": 1, "batch": 16, "optimizer": "sgd"}})
    rng = np.random.default_rng(0)
    jobs = [Fit(model, rng.random((32, 32, 32, 3), dtype=np.float32), np.arange(32) % 10) for _ in range(64)]
    device = Device("cuda")
    trainer = StackedTrainer(device, SequentialTrainer(device))
    assert len(trainer.run(jobs, 10, range(64))) == 64
    del taken
    assert trainer.stacks[0]["depth"] < 64
    assert trainer.stacks[0]["split"] == "a stack of 64 did not fit into memory"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_gives_what_a_cpu_gives() -> None:
    device = Device("cuda")
    on_gpu = StackedTrainer(device, SequentialTrainer(device)).run(fits(), 10, range(4))
    assert agreement(on_gpu, stacked().run(fits(), 10, range(4))) > 0.99
    assert agreement(on_gpu, PoolTrainer(1).run(fits(), 10, range(4))) > 0.99


def test_a_program_that_cannot_be_compiled_leaves_the_network_to_the_general_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(stack: LeNetStack) -> None:
        raise CudaError("no compiler here")

    monkeypatch.setattr(LeNetStack, "fits", staticmethod(lambda *given: True))
    monkeypatch.setattr(LeNetStack, "most", staticmethod(lambda batch: 4))
    monkeypatch.setattr(LeNetStack, "_prepare", broken)
    trainer = stacked()
    with pytest.warns(
        LimbeckWarning, match="trained by the general stack; its own CUDA program failed: no compiler here"
    ):
        assert len(trainer.run(fits(), 10, range(4))) == 4
    assert [stack["program"] for stack in trainer.stacks] == ["plain"]


@pytest.mark.parametrize(
    ("compiling", "steps", "rows", "expected"),
    [
        ("auto", 1_000, 320, False),
        ("auto", 200_000, 320, True),
        ("auto", 1_000, 10**9, True),
        ("always", 1, 1, True),
        ("never", 10**9, 10**9, False),
    ],
)
def test_compiling_pays_for_long_trainings(compiling: Any, steps: int, rows: int, expected: bool) -> None:
    """By steps, and by the values that their layers compute."""
    job = fits()[0]
    group = StackGroup("any", [StackMember(0, job, 0, False, False)], 10)
    assert stacked(compiling=compiling)._compiles(group, steps, rows) is expected


@pytest.mark.parametrize("name", [*NETWORKS, *TEXT_NETWORKS])
def test_values_of_every_network_are_counted(name: str) -> None:
    row = {"text-cnn": (12,), "bag-of-embeddings": (12,), "torch-mlp": (6,)}.get(name, (32, 32))
    model = model_from({"name": name})
    assert isinstance(model, TorchModel)
    assert values_of(model.started(row, 10), row) > 0


def test_networks_whose_layers_give_no_tensor_are_not_compiled_but_trained() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.last = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return cast(torch.Tensor, self.last(self.lstm(x.unflatten(1, (8, 8)))[0][:, -1]))

    assert values_of(Recurrent(), (64,)) == 10
    broken = StackGroup("any", [StackMember(0, Fit(TorchModel(lambda *given: None), X, Y), 0, False, False)], 10)  # type: ignore[arg-type]
    assert not stacked()._compiles(broken, 10**9, 10**9)
