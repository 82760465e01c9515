"""The trainer is chosen by the user's word or by what is there, and says why."""

from pathlib import Path
from typing import Any

import pytest
import torch

from limbeck.errors import LimbeckError
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.trainers import Training, trainer_for

FOREST, NETWORK = model_from({"name": "random-forest"}), model_from({"name": "torch-mlp"})
TOGETHER = "small networks train together, others have a core each"
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@no_gpu
@pytest.mark.parametrize(
    ("training", "models", "kind", "why"),
    [
        (Training(), [FOREST], PoolTrainer, "no networks"),
        (Training(trainer="stacked"), [FOREST], PoolTrainer, "no networks"),
        (Training(), [FOREST, NETWORK], PoolTrainer, f"no GPU: {TOGETHER}"),
        (Training(device="cpu"), [NETWORK], PoolTrainer, f"device = cpu: {TOGETHER}"),
        (Training(trainer="pool"), [NETWORK], PoolTrainer, "device = auto: trainer = pool"),
        (Training(trainer="sequential"), [NETWORK], SequentialTrainer, "no GPU: trainer = sequential"),
        (Training(trainer="stacked", device="cpu"), [NETWORK], StackedTrainer, "device = cpu: trainer = stacked"),
    ],
)
def test_who_trains_and_why(training: Training, models: list[Any], kind: type, why: str) -> None:
    trainer = trainer_for(training, models, processes=4)
    assert isinstance(trainer, kind)
    assert trainer.description["why"] == why
    assert trainer.description["device"] == "cpu"


@no_gpu
def test_a_gpu_that_is_not_there_is_reported() -> None:
    with pytest.raises(LimbeckError, match=r'device = "cuda": torch sees no GPU here; use "auto" or "cpu"'):
        trainer_for(Training(device="cuda"), [NETWORK])
    assert isinstance(trainer_for(Training(device="cuda"), [FOREST], processes=4), PoolTrainer)


def test_what_cannot_go_together_is_refused() -> None:
    with pytest.raises(LimbeckError, match='trainer = "pool" trains on the CPU'):
        Training(trainer="pool", device="cuda")
    with pytest.raises(LimbeckError, match='checkpoint needs trainer = "stacked"'):
        Training(trainer="sequential", checkpoint="here")


@no_gpu
def test_a_pool_keeps_no_checkpoints_and_rounds_as_it_always_does() -> None:
    for training in (Training(precision="bfloat16"), Training(checkpoint="here")):
        with pytest.raises(LimbeckError, match='trainer = "pool" does not support it; use trainer = "stacked"'):
            trainer_for(training, [NETWORK])


def test_checkpoints_lie_beside_the_experiment(tmp_path: Path) -> None:
    trainer = trainer_for(Training(trainer="stacked", device="cpu", checkpoint="kept"), [NETWORK], base=tmp_path)
    assert isinstance(trainer, StackedTrainer)
    assert trainer.checkpoints is not None
    assert trainer.checkpoints.folder == tmp_path / "kept"
